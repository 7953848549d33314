//! Values as JSON has them: moments, pages, fields that may be missing, null or set.

use std::marker::PhantomData;
use std::str::FromStr as _;

use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::time::Timestamp;
use http::StatusCode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::condition::Tagged;
use crate::app::applications::Made;
use crate::app::condition::Tag;
use crate::app::pages::{Fill, Order, PAGE_BYTES, Slice, Wanted};
use crate::app::{Error, RefusalKind};
use crate::problem::Problem;

/// What a handler answers.
pub(super) type Answer<T> = Result<T, Problem>;

/// A moment, written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(pub(super) Timestamp);

impl Moment {
    fn parse(text: &str) -> Option<Self> {
        // In a query, a plus sign that nobody escaped has become a blank.
        let text = text.replace(' ', "+");
        match jiff::Timestamp::from_str(&text) {
            Ok(read) => Some(Self(Timestamp::from_micros(read.as_microsecond()))),
            Err(_) => far_away(&text).map(Self),
        }
    }
}

/// The calendar repeats itself after so many years, which have so many seconds.
const CYCLE: (i64, i64) = (400, 146_097 * 86_400);
/// The most digits of a year that is still told from nonsense.
const MOST_DIGITS: usize = 9;

/// Reads a moment in a year that the calendar does not have, such as 10000 or -44, or on the last day
/// that it has. Such a moment is too early or too late for everything, and its reader can say so.
fn far_away(text: &str) -> Option<Timestamp> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let digits = unsigned.find(|c: char| !c.is_ascii_digit())?;
    if text.len() - unsigned.len() > 1 || !(4..=MOST_DIGITS).contains(&digits) {
        return None;
    }
    let year: i64 = unsigned[..digits].parse().ok()?;
    let year = if text.starts_with('-') { -year } else { year };
    // The same day of a year that the calendar has.
    let near = 2_000 + year.rem_euclid(CYCLE.0);
    let near = jiff::Timestamp::from_str(&format!("{near}{}", &unsigned[digits..])).ok()?;
    let seconds = near.as_second() + (year - 2_000).div_euclid(CYCLE.0) * CYCLE.1;
    Some(Timestamp::from_seconds(seconds))
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0.as_micros()) {
            Ok(moment) => write!(f, "{moment:.6}"),
            // Beyond the year 9999 there is no text; the end of time will do, or its beginning.
            Err(_) if self.0 < Timestamp::EPOCH => write!(f, "{:.6}", jiff::Timestamp::MIN),
            Err(_) => write!(f, "{:.6}", jiff::Timestamp::MAX),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom("must be a time such as 2026-01-02T03:04:05Z");
        Self::parse(&text).ok_or_else(wrong)
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
        RefOr::T(Schema::Object(text.build()))
    }
}

impl ToSchema for Moment {}

/// Which page of a list is wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// The most entries, 1 to 250; 50 if it is missing.
    #[param(minimum = 1, maximum = 250)]
    limit: Option<u64>,
    /// Where to begin: the iterator of the page before.
    iterator: Option<String>,
    /// In which order: `ascending` or `descending`, where the list has one to choose.
    #[param(pattern = "^(ascending|descending)$")]
    order: Option<String>,
}

impl PageQuery {
    pub(super) fn wanted(&self) -> Result<Wanted, Error> {
        Wanted::read(self.limit, self.iterator.as_deref())
    }

    /// Reads the page of a list that can be had in both orders.
    pub(super) fn ordered(&self, natural: Order) -> Result<Wanted, Error> {
        let order = self.order.as_deref().map(|order| match order {
            "ascending" => Ok(Order::Ascending),
            "descending" => Ok(Order::Descending),
            _ => Err(Error::parameter("order", "must be `ascending` or `descending`")),
        });
        Ok(self.wanted()?.ordered(natural, order.transpose()?))
    }
}

/// What a page has room for besides its entries.
const ENVELOPE_BYTES: usize = 4 << 10;

/// A page of a list. Its entries are JSON already: as many of them as have room.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageOut {
    pub(super) data: Vec<Box<RawValue>>,
    pub(super) iterator: Option<String>,
    prev_iterator: Option<String>,
    pub(super) done: bool,
}

impl PageOut {
    pub(super) fn of<E, T: Serialize>(
        slice: Slice<E>,
        mut show: impl FnMut(E) -> T,
    ) -> Answer<Json<Self>> {
        let fill = Fill::up_to(PAGE_BYTES - ENVELOPE_BYTES);
        let written = |entry| to_raw_value(&show(entry));
        // Each entry but the last has a comma behind it.
        let slice = slice.within(fill, written, |json| json.get().len() + 1);
        let Slice { entries, iterator, previous, done, .. } =
            slice.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Json(Self { data: entries, iterator, prev_iterator: previous, done }))
    }
}

/// Answers 201 for what is new and 200 for what was there, with the version of what it is now.
pub(super) fn made<T: Serialize>(made: Made, tag: Tag, value: T) -> Response {
    let status = match made {
        Made::Created => StatusCode::CREATED,
        Made::Found => StatusCode::OK,
    };
    (status, Tagged(tag, Json(value))).into_response()
}

/// A field that SDKs write and nothing is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unused;

impl<'de> Deserialize<'de> for Unused {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Reads a field of a patch: missing leaves as it is, null clears.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Reads an object that may be missing. Serde would take a list for one, field by field.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(|read: Option<Object<T>>| read.map(|Object(it)| it))
}

/// Reads an object in a patch: missing leaves as it is, null clears.
pub(super) fn present_object<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    object(deserializer).map(Some)
}

/// Whatever is read from an object, and from nothing else.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// The most entries of a list in a query.
const MOST_LISTED: usize = 250;

/// Reads a list out of a query, where it is one text with commas.
pub(super) fn commas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parts = text.split(',').filter(|part| !part.is_empty());
    // Each row of a list is compared with all of them.
    let list: Vec<String> = parts.map(str::to_owned).take(MOST_LISTED + 1).collect();
    if list.len() > MOST_LISTED {
        return Err(D::Error::custom(format!("a list may have at most {MOST_LISTED} entries")));
    }
    Ok(list)
}

/// Refuses a number that stands for nothing.
pub(super) fn unknown_number(name: &str) -> Error {
    Error::refused(RefusalKind::Generic, format!("`{name}` is not a number that stands for one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_with_any_offset_and_written_in_utc() {
        let moment = Moment::parse("2026-01-02T05:04:05.123456+02:00").unwrap();
        assert_eq!(moment.to_string(), "2026-01-02T03:04:05.123456Z");
        assert_eq!(Moment::parse("2026-01-02T05:04:05 02:00").unwrap().0.as_seconds() % 60, 5);
        assert_eq!(Moment::parse("2026-01-02"), None);
        assert_eq!(Moment(Timestamp::FAR_FUTURE).to_string().len(), 27);
    }

    #[test]
    fn a_moment_far_away_is_a_moment() {
        let seconds = |text: &str| Moment::parse(text).map(|moment| moment.0.as_seconds());
        let end = 253_402_300_799;
        let table = [
            ("9999-12-30T00:00:00Z", end - 2 * 86_400 + 1),
            ("9999-12-31T23:59:59Z", end),
            ("9999-12-31T23:59:59.999999+14:00", end - 14 * 3_600),
            ("9999-12-31T23:59:59-12:00", end + 12 * 3_600),
            ("10000-01-01T00:00:00Z", end + 1),
            ("+010000-01-01T00:00:00Z", end + 1),
            ("12000-02-29T00:00:00Z", 951_782_400 + 25 * CYCLE.1),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("-000001-12-31T23:59:59Z", -62_167_219_201),
            ("-9999-01-01T00:00:00+12:00", -377_705_160_000),
        ];
        for (text, expected) in table {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        assert!(seconds("292277026596-01-01T00:00:00Z").is_none(), "no year has twelve digits");
        assert_eq!(Moment::parse("999999999-01-01T00:00:00Z").unwrap().0, Timestamp::FAR_FUTURE);
        for text in [
            "9999-13-01T00:00:00Z",
            "9999-02-30T00:00:00Z",
            "10001-02-29T00:00:00Z",
            "99999",
            "--0001-01-01T00:00:00Z",
            "9999-12-31",
            "9999-12-31T23:59:59",
            "soon",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
        assert!(Moment(Timestamp::from_micros(i64::MIN)).to_string().starts_with('-'));
    }
}
