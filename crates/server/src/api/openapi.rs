//! The API described for machines: OpenAPI 3.1, made of the operations themselves.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::openapi::schema::{ComponentsBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Info, OpenApiBuilder, RefOr};

/// Writes the document, its parts in a stable order.
pub(super) fn document() -> Value {
    let routes = super::routes();
    let schemas: BTreeMap<_, _> = routes.schemas.into_iter().chain([problem()]).collect();
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme("token", bearer("Any token; an application's reaches what is its own."))
        .security_scheme("admin token", bearer("A token that is not limited to an application."));
    let document = OpenApiBuilder::new()
        .info(Info::new("Redial", env!("CARGO_PKG_VERSION")))
        .paths(routes.paths)
        .components(Some(components.build()))
        .build();
    serde_json::to_value(document).unwrap_or_default()
}

fn bearer(text: &str) -> SecurityScheme {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text));
    SecurityScheme::Http(bearer.build())
}

/// Describes what every answer is that is not a success.
fn problem() -> (String, RefOr<Schema>) {
    let text = || ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).build();
    let detail = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("A text; of a 422 answer a list of {loc, msg, type}"));
    let schema = ObjectBuilder::new()
        .property("code", Schema::Object(text()))
        .property("detail", Schema::Object(detail.build()))
        .required("code")
        .required("detail");
    ("HttpErrorOut".to_owned(), RefOr::T(Schema::Object(schema.build())))
}

/// `/api/v1/openapi.json`
pub(super) async fn show() -> Response {
    Json(document()).into_response()
}
