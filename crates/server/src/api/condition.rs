//! `If-Match` and `If-None-Match` of a request, and `ETag` of an answer.

use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};

use crate::app::condition::{Condition, Tag};
use crate::app::{Error, RefusalKind};

/// The most tags that a request names.
const MOST_TAGS: usize = 32;

/// An answer with the version of what it shows.
pub(super) struct Tagged<T>(pub(super) Tag, pub(super) T);

impl<T: IntoResponse> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let Self(tag, answer) = self;
        let mut response = answer.into_response();
        // A tag is hexadecimal digits between quotes.
        if let Ok(tag) = HeaderValue::from_str(tag.text()) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

/// Reads which version of a row a request means.
///
/// # Errors
/// If it cannot be read, or makes no sense. A condition that is passed over would have its request
/// overwrite what it must not.
pub(super) fn read(headers: &HeaderMap) -> Result<Condition, Error> {
    let wanted = joined(headers, &IF_MATCH)?;
    let unwanted = joined(headers, &IF_NONE_MATCH)?;
    match (wanted.as_deref(), unwanted.as_deref()) {
        (None, None) => Ok(Condition::Always),
        (Some("*"), None) => Ok(Condition::Exists),
        (None, Some("*")) => Ok(Condition::Missing),
        (Some(tags), None) => matches(tags),
        (None, Some(_)) => Err(refused("If-None-Match must be `*`; to change one, send If-Match")),
        (Some(_), Some(_)) => Err(refused("If-Match and If-None-Match exclude each other")),
    }
}

/// A weak tag is kept as it is and so matches none: a change needs to know the very version.
fn matches(tags: &str) -> Result<Condition, Error> {
    let tags: Vec<String> = tags.split(',').map(|tag| tag.trim().to_owned()).collect();
    let quoted = |tag: &String| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag.len() > 1 && tag.starts_with('"') && tag.ends_with('"')
    };
    if tags.len() > MOST_TAGS || !tags.iter().all(quoted) {
        let text = format!(
            "If-Match must be `*` or up to {MOST_TAGS} ETags as they were answered, with their quotes"
        );
        return Err(refused(text));
    }
    Ok(Condition::Matches(tags))
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Error> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        let line = value.to_str().map_err(|_| refused(format!("{name} must be ASCII")))?;
        lines.push(line.trim());
    }
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

fn refused(text: impl Into<String>) -> Error {
    Error::refused(RefusalKind::Generic, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(HeaderName, &'static str)]) -> Result<Condition, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        read(&headers)
    }

    #[test]
    fn a_condition_is_read_from_one_line_or_several() {
        let tags =
            |tags: &[&str]| Condition::Matches(tags.iter().map(|tag| (*tag).to_owned()).collect());
        let table = [
            (vec![], Condition::Always),
            (vec![(IF_MATCH, "*")], Condition::Exists),
            (vec![(IF_NONE_MATCH, " * ")], Condition::Missing),
            (vec![(IF_MATCH, "\"a\"")], tags(&["\"a\""])),
            (vec![(IF_MATCH, "\"a\", W/\"b\"")], tags(&["\"a\"", "W/\"b\""])),
            (vec![(IF_MATCH, "\"a\""), (IF_MATCH, "\"b\"")], tags(&["\"a\"", "\"b\""])),
        ];
        for (pairs, condition) in table {
            assert_eq!(asked(&pairs).unwrap(), condition, "{pairs:?}");
        }
    }

    #[test]
    fn a_condition_that_makes_no_sense_is_refused_not_passed_over() {
        let table = [
            vec![(IF_MATCH, "a")],
            vec![(IF_MATCH, "")],
            vec![(IF_MATCH, "\"a\",")],
            vec![(IF_MATCH, "*, \"a\"")],
            vec![(IF_NONE_MATCH, "\"a\"")],
            vec![(IF_MATCH, "*"), (IF_NONE_MATCH, "*")],
        ];
        for pairs in table {
            assert!(asked(&pairs).is_err(), "{pairs:?}");
        }
    }
}
