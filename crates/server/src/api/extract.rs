//! From a request to values: who was let in where, path, query, body.
//!
//! Whatever is wrong becomes a [`Problem`], so that every refusal is JSON. A field or parameter that
//! nobody knows is refused with the nearest one that exists: one that was misspelt must not count as
//! missing. What SDKs send and nothing is made of is a field all the same.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use bytes::Bytes;
use domain::nearest::nearest;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use url::form_urlencoded;

use super::access::KeyHash;
use super::{Shared, bodies};
use crate::app::{App, Caller, Error, Fault, FaultKind, Scope};
use crate::problem::Problem;

/// The name of the parameter that names an application.
const APPLICATION: &str = "app_id";
/// The most bytes of a name that is shown again to whoever wrote it.
const MOST_SHOWN: usize = 64;

/// The application that the path names, and that the caller may enter.
pub(super) struct In(pub(super) Scope);

/// Whoever called.
pub(super) struct By(pub(super) Caller);

/// What a path names besides its application, in order.
pub(super) struct Named<const N: usize>(pub(super) [String; N]);

/// What a path calls its application.
pub(super) struct Application(pub(super) String);

/// The query.
pub(super) struct Asked<T>(pub(super) T);

/// The body, read as JSON. An empty one counts as an empty object.
pub(super) struct Given<T>(pub(super) T);

/// The body as it came, up to the usual limit.
pub(super) struct Raw(pub(super) Bytes);

/// The body of a batch as it came.
pub(super) struct RawBatch(pub(super) Bytes);

/// The hash of the idempotency key, if there was one.
pub(super) struct Key(pub(super) Option<[u8; 32]>);

impl axum::extract::FromRef<Shared> for Arc<App> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.app)
    }
}

async fn parameters(parts: &mut Parts, shared: &Shared) -> Result<RawPathParams, Problem> {
    let read = RawPathParams::from_request_parts(parts, shared).await;
    // Nothing has such a name, and not every database can be asked for it.
    let read = read.ok().filter(|read| read.iter().all(|(_, value)| !value.contains('\0')));
    read.ok_or(Problem::App(Error::Missing("path")))
}

/// Returns what the path calls its application, if it names one.
pub(super) async fn application(parts: &mut Parts, shared: &Shared) -> Option<String> {
    let read = parameters(parts, shared).await.ok()?;
    let named = read.iter().find(|(name, _)| *name == APPLICATION);
    named.map(|(_, named)| named.to_owned())
}

fn caller(parts: &Parts) -> Result<Caller, Problem> {
    parts.extensions.get::<Caller>().cloned().ok_or(Problem::App(Error::Unauthenticated))
}

impl FromRequestParts<Shared> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        caller(parts).map(Self)
    }
}

impl FromRequestParts<Shared> for Application {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let named = application(parts, shared).await;
        named.map(Self).ok_or(Problem::App(Error::Missing("application")))
    }
}

impl FromRequestParts<Shared> for In {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let Application(named) = Application::from_request_parts(parts, shared).await?;
        Ok(Self(shared.app.enter(&caller(parts)?, &named).await?))
    }
}

impl<const N: usize> FromRequestParts<Shared> for Named<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let read = parameters(parts, shared).await?;
        let others = read.iter().filter(|(name, _)| *name != APPLICATION);
        let others: Vec<String> = others.map(|(_, value)| value.to_owned()).collect();
        others.try_into().map(Self).map_err(|_| Problem::NoSuchPath)
    }
}

impl FromRequestParts<Shared> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        Ok(Self(parts.extensions.get::<KeyHash>().map(|hash| hash.0)))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Shared> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let Some(query) = parts.uri.query() else {
            return none_asked().map(Self);
        };
        let query = normal(query);
        if query.contains("%00") {
            return Err(Problem::BadRequest("no parameter may have the character U+0000".into()));
        }
        let uri: http::Uri = format!("/?{query}")
            .parse()
            .map_err(|_| Problem::BadRequest("it is too long".into()))?;
        let Query(asked) = Query::try_from_uri(&uri)
            .map_err(|rejection| Problem::BadRequest(unwrapped(&rejection.body_text())))?;
        Ok(Self(asked))
    }
}

/// Reads a query that is not there.
fn none_asked<T: DeserializeOwned>() -> Result<T, Problem> {
    let read = Query::try_from_uri(&http::Uri::from_static("/"));
    read.map(|Query(asked)| asked).map_err(|rejection| Problem::BadRequest(rejection.body_text()))
}

/// Takes off what axum says before it says what is wrong.
fn unwrapped(text: &str) -> String {
    text.rsplit_once("query string: ").map_or(text, |(_, rest)| rest).to_owned()
}

/// Lists come as `a=1,2`, `a=1&a=2`, `a[]=1` or `a[0]=1`: all of them become the first form.
pub(super) fn normal(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let name = name.split('[').next().unwrap_or_default();
        match places.get(name).and_then(|place| pairs.get_mut(*place)) {
            Some((_, known)) => {
                known.push(',');
                known.push_str(&value);
            }
            None => {
                places.insert(name.to_owned(), pairs.len());
                pairs.push((name.to_owned(), value.into_owned()));
            }
        }
    }
    // What is there but empty says nothing.
    pairs.retain(|(_, value)| !value.is_empty());
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Refuses parameters that an operation does not know.
pub(super) fn check_parameters(known: &[String], query: Option<&str>) -> Result<(), Error> {
    for (name, _) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let name = name.split('[').next().unwrap_or_default();
        if !known.iter().any(|one| one == name) {
            let text = unknown(name, known.iter().map(String::as_str));
            return Err(Error::parameter(shown(name), text));
        }
    }
    Ok(())
}

/// Returns the beginning of a name that nobody knows: it may be as long as a body.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_SHOWN)]
}

/// Says that there is no such name, and which one may have been meant.
fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().collect();
    match nearest(name, known) {
        Some(meant) => format!("is not known here; did you mean `{meant}`?"),
        None if all.is_empty() => "is not known here; nothing can be said there".to_owned(),
        None => format!("is not known here; there are {}", all.join(", ")),
    }
}

/// Refuses parameters that say nothing. Where something is removed for good, an empty filter must not count
/// as none.
pub(super) fn refuse_empty(query: Option<&str>) -> Result<(), Error> {
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let name = name.split('[').next().unwrap_or_default();
        // Of a list, an empty part would be passed over.
        if value.split(',').any(|part| part.trim().is_empty()) {
            return Err(Error::parameter(name, "must not be empty; leave it out"));
        }
    }
    Ok(())
}

/// Refuses a body that says something to an operation that reads none.
pub(super) fn refuse_fields(body: &[u8]) -> Result<(), Error> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let text = body.trim_ascii();
    if text.is_empty() || text == b"null" {
        return Ok(());
    }
    read_object::<Nothing>(text).map(|_| ())
}

impl FromRequest<Shared> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let caller = head.extensions.get::<Caller>();
        bodies::collect(shared, caller, body, shared.limits.body_bytes).await.map(Self)
    }
}

impl FromRequest<Shared> for RawBatch {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let most = bodies::most_of_batch(shared.limits.body_bytes);
        let (head, body) = request.into_parts();
        bodies::collect(shared, head.extensions.get::<Caller>(), body, most).await.map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let Raw(body) = Raw::from_request(request, shared).await?;
        let text = if body.is_empty() { b"{}" } else { body.as_ref() };
        read_object(text).map(Self).map_err(Problem::App)
    }
}

/// Reads a JSON object. Lists would be taken for one, field by field.
pub(super) fn read_object<'de, T: serde::Deserialize<'de>>(text: &'de [u8]) -> Result<T, Error> {
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => read(text),
        Some(_) => Err(fault(&[], "must be a JSON object".to_owned())),
        None => Err(fault(&[], "is empty, and must be a JSON object".to_owned())),
    }
}

/// Reads JSON. What is wrong is said with the names that lead there.
pub(super) fn read<'de, T: serde::Deserialize<'de>>(text: &'de [u8]) -> Result<T, Error> {
    if let Ok(value) = serde_json::from_slice(text) {
        return Ok(value);
    }
    // The second reading is slower and only made to say where.
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(value) if deserializer.end().is_ok() => return Ok(value),
        Ok(_) => return Err(fault(&[], "there is something after the end of the JSON".into())),
        Err(error) => error,
    };
    let mut path: Vec<String> = error.path().iter().filter_map(step).collect();
    let text = error.inner().to_string();
    // Serde names a field that is missing in its text only.
    let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    if let Some((field, _)) = missing {
        path.push(field.to_owned());
        return Err(fault(&path, "is missing".to_owned()));
    }
    if let Some((field, known)) = unknown_field(&text) {
        if path.last().is_none_or(|last| last != field) {
            path.push(field.to_owned());
        }
        if let Some(last) = path.last_mut() {
            last.truncate(shown(last).len());
        }
        return Err(fault(&path, unknown(field, known.into_iter())));
    }
    Err(fault(&path, plain(&text)))
}

/// Returns a field that is not known, and those that are, from what serde says about it.
fn unknown_field(text: &str) -> Option<(&str, Vec<&str>)> {
    let (field, known) = text.strip_prefix("unknown field `")?.split_once("`, ")?;
    Some((field, known.split('`').skip(1).step_by(2).collect()))
}

/// Says `object` where serde names a type of ours, which tells nobody anything.
fn plain(text: &str) -> String {
    let mut plain: Vec<&str> = Vec::new();
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        match word {
            "struct" | "enum" => {
                plain.extend(["an", "object"]);
                words.next();
            }
            // Enums with fields inside of their objects.
            "internally" | "adjacently" => {
                plain.extend(["an", "object"]);
                // The rest is `tagged enum` and the name.
                words.by_ref().take(3).for_each(drop);
            }
            word => plain.push(word),
        }
    }
    plain.join(" ")
}

fn step(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    }
}

fn fault(path: &[String], text: String) -> Error {
    let place = std::iter::once("body".to_owned()).chain(path.iter().cloned()).collect();
    Error::Invalid(vec![Fault { place, text, kind: FaultKind::Json }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_missing_is_named() {
        #[derive(Debug, serde::Deserialize)]
        struct Whole {
            #[expect(dead_code, reason = "nobody reads what cannot be read")]
            part: Part,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Part {
            #[expect(dead_code, reason = "nobody reads what cannot be read")]
            name: String,
        }
        let error = read::<Whole>(b"{\"part\": {}}").unwrap_err();
        assert_eq!(error.to_string(), "body.part.name: is missing");
    }

    #[test]
    fn a_field_or_parameter_that_nobody_knows_is_refused_with_the_nearest_one() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Whole {
            #[serde(rename = "part")]
            _part: Option<Part>,
            #[serde(alias = "filterTypes", rename = "eventTypes")]
            _event_types: Option<Vec<String>>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
        enum Part {
            Named {
                #[serde(rename = "name")]
                _name: Option<String>,
            },
        }
        let table = [
            ("{\"event_types\": []}", "body.event_types: ", "did you mean `eventTypes`?"),
            ("{\"a`b\": []}", "body.a`b: ", ""),
            (
                "{\"part\": {\"kind\": \"named\", \"nam\": 1}}",
                "body.part.nam: ",
                "did you mean `name`?",
            ),
        ];
        for (text, begins, ends) in table {
            let error = read::<Whole>(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(begins) && error.ends_with(ends), "{error}");
        }
        for text in ["", " {} ", "null", "\n"] {
            refuse_fields(text.as_bytes()).unwrap();
        }
        let error = refuse_fields(b"{\"until\": 1}").unwrap_err().to_string();
        assert_eq!(error, "body.until: is not known here; nothing can be said there");
        refuse_fields(b"[1]").unwrap_err();
        let known = ["event_types".to_owned(), "limit".to_owned()];
        check_parameters(&known, Some("event_types[0]=a&limit=5")).unwrap();
        let error = check_parameters(&known, Some("eventTypes=a")).unwrap_err().to_string();
        assert_eq!(error, "query.eventTypes: is not known here; did you mean `event_types`?");
    }

    #[test]
    fn lists_in_a_query_can_be_written_in_all_the_ways_that_sdks_do() {
        let comma = "types=a%2Cb&limit=5";
        for query in ["types=a,b&limit=5", "types=a&limit=5&types=b", "types[]=a&types[]=b&limit=5"]
        {
            assert_eq!(normal(query), comma, "{query}");
        }
        assert_eq!(normal("types%5B0%5D=a&types%5B1%5D=b&limit=5&iterator="), comma);
    }
}
