//! Values as JSON has them: moments, pages, fields that may be missing, null or set.

use std::marker::PhantomData;
use std::str::FromStr as _;

use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::time::Timestamp;
use http::StatusCode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::app::applications::Made;
use crate::app::pages::{Slice, Wanted};
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
        let read = jiff::Timestamp::from_str(&text).ok()?;
        Some(Self(Timestamp::from_micros(read.as_microsecond())))
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0.as_micros()) {
            Ok(moment) => write!(f, "{moment:.6}"),
            // Beyond the year 9999 there is no text; the end of time will do.
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

    /// Reads the page of a list whose natural order is known.
    pub(super) fn ordered(&self, natural: &str) -> Result<Wanted, Error> {
        let reversed = match self.order.as_deref() {
            None => false,
            Some(order @ ("ascending" | "descending")) => order != natural,
            Some(_) => {
                return Err(Error::parameter("order", "must be `ascending` or `descending`"));
            }
        };
        Ok(self.wanted()?.reversed(reversed))
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageOut<T> {
    data: Vec<T>,
    iterator: Option<String>,
    prev_iterator: Option<String>,
    done: bool,
}

impl<T> PageOut<T> {
    pub(super) fn of<E>(slice: Slice<E>, show: impl FnMut(E) -> T) -> Json<Self> {
        let Slice { entries, iterator, previous, done } = slice.map(show);
        Json(Self { data: entries, iterator, prev_iterator: previous, done })
    }
}

/// Answers 201 for what is new and 200 for what was there.
pub(super) fn made<T: Serialize>(made: Made, value: T) -> Response {
    let status = match made {
        Made::Created => StatusCode::CREATED,
        Made::Found => StatusCode::OK,
    };
    (status, Json(value)).into_response()
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

/// Reads a list out of a query, where it is one text with commas.
pub(super) fn commas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect())
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
}
