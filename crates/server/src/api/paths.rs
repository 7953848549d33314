//! Which paths are taken as they are written, and which are refused.
//!
//! A client, a proxy and this server must not read one path in three ways: whoever takes `..` out of a
//! path asks for the thing above the one that was meant. So a path that can be read in two ways is
//! refused, and nothing is made of it. The only thing that is taken off is one slash at the end of a
//! list's path, which older SDKs and documents write.

use axum::extract::{MatchedPath, Request};
use domain::names::is_dot_segment;
use http::Uri;
use http::uri::PathAndQuery;

use crate::problem::Problem;

/// Marks a request whose path had a slash at its end.
#[derive(Debug, Clone, Copy)]
struct SlashTaken;

/// Takes a slash off the end of a path.
pub(super) fn trim<B>(mut request: http::Request<B>) -> http::Request<B> {
    let uri = request.uri();
    let Some(trimmed) = uri.path().strip_suffix('/').filter(|path| !path.is_empty()) else {
        return request;
    };
    let whole = match uri.query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    if let Ok(whole) = PathAndQuery::try_from(whole) {
        parts.path_and_query = Some(whole);
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
        request.extensions_mut().insert(SlashTaken);
    }
    request
}

/// Refuses a request whose path can be read in two ways.
pub(super) fn check(request: &Request) -> Result<(), Problem> {
    plain(request.uri().path())?;
    let names_one = || {
        let route = request.extensions().get::<MatchedPath>();
        route.is_some_and(|route| route.as_str().ends_with('}'))
    };
    if request.extensions().get::<SlashTaken>().is_some() && names_one() {
        return Err(refused(
            "ends with a slash, as clients write it that have taken a name `..` out of it; name \
             what is meant by its id",
        ));
    }
    Ok(())
}

fn refused(text: &str) -> Problem {
    Problem::BadRequest(format!("the path {text}"))
}

/// Looks at each segment of a path, and at what it is once it is decoded.
fn plain(path: &str) -> Result<(), Problem> {
    let Some(segments) = path.strip_prefix('/').filter(|segments| !segments.is_empty()) else {
        return Ok(());
    };
    for segment in segments.split('/') {
        if segment.is_empty() {
            return Err(refused("has an empty segment: two slashes without a name between them"));
        }
        let encoded = segment.contains('%').then(|| segment.to_ascii_lowercase());
        let segment = encoded.as_deref().unwrap_or(segment);
        if ["%2f", "%5c", "\\"].iter().any(|slash| segment.contains(slash)) {
            return Err(refused("has a slash or a backslash within a segment; no name has one"));
        }
        let dots = encoded.is_some().then(|| segment.replace("%2e", "."));
        if is_dot_segment(dots.as_deref().unwrap_or(segment)) {
            return Err(refused("has a segment `.` or `..`; no name is one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_of_a_path_is_taken_off() {
        let table = [
            ("/api/v1/app/", "/api/v1/app"),
            ("/api/v1/app/?limit=5", "/api/v1/app?limit=5"),
            ("/api/v1/app//", "/api/v1/app/"),
            ("/api/v1/app?x=/", "/api/v1/app?x=/"),
            ("/", "/"),
        ];
        for (given, meant) in table {
            let request = http::Request::builder().uri(given).body(()).unwrap();
            assert_eq!(trim(request).uri(), meant, "{given}");
        }
    }

    #[test]
    fn a_path_that_can_be_read_in_two_ways_is_refused() {
        for path in ["/", "/a", "/a/b.c/..d/e..", "/a/...", "/a/%2e%2e%2e", "/a%20b/%ff", "*", ""] {
            assert!(plain(path).is_ok(), "{path}");
        }
        let refused = [
            ("/a/..", "`..`"),
            ("/./a", "`..`"),
            ("/a/%2e", "`..`"),
            ("/a/%2E%2e/b", "`..`"),
            ("/a/.%2E", "`..`"),
            ("/a/%2e./b", "`..`"),
            ("/a//b", "empty"),
            ("//a", "empty"),
            ("/a/", "empty"),
            ("/a/b%2fc", "slash"),
            ("/a/b%2Fc", "slash"),
            ("/a/b\\c", "backslash"),
            ("/a/%5c..", "backslash"),
        ];
        for (path, word) in refused {
            let Err(Problem::BadRequest(text)) = plain(path) else { panic!("{path} is taken") };
            assert!(text.contains(word), "{path}: {text}");
        }
    }

    /// Lists all methods and paths, each path in its segments.
    fn operations() -> Vec<(String, Vec<String>)> {
        let document = super::super::openapi::document();
        let paths = document["paths"].as_object().unwrap();
        let listed = paths.iter().flat_map(|(path, methods)| {
            let path: Vec<_> = path.split('/').skip(1).map(str::to_owned).collect();
            methods.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone()))
        });
        listed.collect()
    }

    fn is_parameter(segment: &str) -> bool {
        segment.starts_with('{')
    }

    /// Nothing but reading remains: a name `.`, or none, leaves the path of the list that the thing is in,
    /// and `..` leaves the path above it, with a slash at its end.
    #[test]
    fn no_operation_that_changes_something_becomes_another_by_a_slash_at_its_end() {
        let operations = operations();
        for (method, path) in operations.iter().filter(|(method, _)| method != "get") {
            let Some((_, list)) = path.split_last().filter(|(last, _)| is_parameter(last)) else {
                continue;
            };
            let above = &list[..list.len() - 1];
            for shortened in [list, above] {
                // Where one thing is named, the slash is refused.
                let taken = shortened.last().is_some_and(|last| !is_parameter(last));
                let known = operations.contains(&(method.clone(), shortened.to_vec()));
                assert!(!(taken && known), "{method} {path:?} becomes {shortened:?}");
            }
        }
    }

    #[test]
    fn the_words_beside_names_are_those_that_no_name_may_be() {
        let operations = operations();
        let mut words: std::collections::BTreeMap<&str, Vec<&str>> = Default::default();
        for (_, named) in &operations {
            for (_, fixed) in operations.iter().filter(|(_, fixed)| fixed.len() == named.len()) {
                let mut differing = named.iter().zip(fixed).filter(|(a, b)| a != b);
                let Some((name, word)) = differing.next() else { continue };
                let meets = |(a, b): (&String, &String)| is_parameter(a) || is_parameter(b);
                if is_parameter(name) && !is_parameter(word) && differing.all(meets) {
                    words.entry(name).or_default().push(word);
                }
            }
        }
        for list in words.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        // The names of policies are ours, and none of them may be a word either.
        let ours = words.remove("{policy_name}").unwrap_or_default();
        assert!(domain::policy::preset_names().all(|name| !ours.contains(&name)), "{ours:?}");
        let refused = domain::names::PATH_WORDS.map(|(prefix, words)| match prefix {
            "msg_" => ("{msg_id}", words.to_vec()),
            other => panic!("no path names what has ids {other}"),
        });
        assert_eq!(words, refused.into());
    }
}
