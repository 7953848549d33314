//! `/docs`: the API described for people, rendered from the same document as for machines.
//!
//! One page without scripts, under a policy that allows none.

use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
padding:0 1rem;color-scheme:light dark}code{font-family:ui-monospace,monospace}\
h3{margin-top:2rem}h3 b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;\
width:100%}td,th{border-bottom:1px solid #8886;padding:.3rem .6rem;text-align:left;\
vertical-align:top}nav ul{columns:3;list-style:none;padding:0}";

/// The last section: what the SDKs know and this server does not do.
const NOT_OFFERED: &str = "not-offered";

/// `/docs`
pub(super) async fn show() -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (CACHE_CONTROL, HeaderValue::from_static("public, max-age=300")),
    ];
    (StatusCode::OK, headers, page(&super::openapi::document())).into_response()
}

fn page(document: &Value) -> String {
    let empty = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty);
    let mut tags: Vec<(&str, String)> = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap_or(&empty) {
            let offered = operation["responses"].get("501").is_none();
            let tag = operation["tags"][0].as_str().filter(|_| offered).unwrap_or(NOT_OFFERED);
            let text = operation_section(path, method, operation, document);
            match tags.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, known)) => known.push_str(&text),
                None => tags.push((tag, text)),
            }
        }
    }
    tags.sort_by_key(|(tag, _)| *tag == NOT_OFFERED);
    let links: String = tags
        .iter()
        .map(|(tag, _)| format!("<li><a href=\"#{tag}\">{tag}</a></li>", tag = escaped(tag)))
        .collect();
    let sections: String = tags
        .iter()
        .map(|(tag, text)| format!("<h2 id=\"{tag}\">{tag}</h2>{text}", tag = escaped(tag)))
        .collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Redial API</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style>\
         <h1>Redial API</h1><p>Every operation takes a token: <code>Authorization: Bearer …</code>. \
         Whatever is refused is answered with <code>{{code, detail}}</code>. \
         The same for machines: <a href=\"/api/v1/openapi.json\">openapi.json</a>.</p>\
         <nav><ul>{links}</ul></nav>{sections}</html>"
    )
}

fn operation_section(path: &str, method: &str, operation: &Value, document: &Value) -> String {
    let id = escaped(operation["operationId"].as_str().unwrap_or_default());
    let summary = escaped(operation["summary"].as_str().unwrap_or_default());
    let who = match operation["security"][0].as_object().and_then(|it| it.iter().next()) {
        Some((scheme, roles)) => match roles[0].as_str() {
            Some(right) => {
                format!("Needs: {}, with the right {}.", escaped(scheme), escaped(right))
            }
            None => format!("Needs: {}.", escaped(scheme)),
        },
        None => "Needs no token.".to_owned(),
    };
    let method = escaped(&method.to_uppercase());
    let mut text = format!(
        "<h3 id=\"{id}\"><b>{method}</b> <code>{}</code></h3><p>{summary}. {who}</p>",
        escaped(path)
    );
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    let rows: String = parameters.iter().map(|it| row(it, place_of(it), &it["name"])).collect();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    let rows = rows + &fields(document, body, "body");
    if !rows.is_empty() {
        text.push_str(&format!("<table><tr><th>Given</th><th>In</th><th></th></tr>{rows}</table>"));
    }
    let empty = Map::new();
    for (status, answer) in operation["responses"].as_object().unwrap_or(&empty) {
        let schema = &answer["content"]["application/json"]["schema"]["$ref"];
        // Refusals look alike everywhere; the page says so once.
        if status.starts_with('2') || status == "501" {
            let rows = fields(document, schema, "answer");
            text.push_str(&format!(
                "<details><summary>Answers {}: {}</summary><table>{rows}</table></details>",
                escaped(status),
                escaped(answer["description"].as_str().unwrap_or_default())
            ));
        }
    }
    text
}

/// Lists the fields of a schema that is named by a reference.
fn fields(document: &Value, reference: &Value, place: &str) -> String {
    let name = reference.as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
    let schema = &document["components"]["schemas"][name];
    let parts = schema["allOf"].as_array();
    let parts: Vec<&Value> = parts.map_or_else(|| vec![schema], |parts| parts.iter().collect());
    let mut rows = String::new();
    for part in parts {
        if part["$ref"].is_string() {
            rows.push_str(&fields(document, &part["$ref"], place));
        }
        let empty = Map::new();
        for (name, field) in part["properties"].as_object().unwrap_or(&empty) {
            let name = Value::String(name.clone());
            let required = part["required"].as_array().is_some_and(|all| all.contains(&name));
            let needed = place == "body" && required;
            let place = if needed { format!("{place}, required") } else { place.to_owned() };
            rows.push_str(&row(field, place, &name));
        }
    }
    rows
}

fn place_of(parameter: &Value) -> String {
    parameter["in"].as_str().unwrap_or_default().to_owned()
}

fn row(described: &Value, place: String, name: &Value) -> String {
    format!(
        "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
        escaped(name.as_str().unwrap_or_default()),
        escaped(&place),
        escaped(described["description"].as_str().unwrap_or_default())
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_operation_and_no_script() {
        let document = super::super::openapi::document();
        let page = page(&document);
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            }
        }
        assert!(!page.contains("<script"));
    }
}
