//! The API described for machines: OpenAPI 3.1, made of the operations themselves.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::openapi::schema::{
    ArrayBuilder, ComponentsBuilder, ObjectBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Info, OpenApiBuilder, RefOr};

/// Writes the document, its parts in a stable order.
pub(super) fn document() -> Value {
    let routes = super::routes();
    let schemas: BTreeMap<_, _> = routes.schemas.into_iter().chain(problems()).collect();
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

/// Describes what every answer is that is not a success: a text, or a list of faults.
fn problems() -> [(String, RefOr<Schema>); 2] {
    let text = || ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
    let problem = |detail: Schema| {
        let code = text().description(Some("docs/errors.md has a section for each"));
        let schema = ObjectBuilder::new()
            .property("code", Schema::Object(code.build()))
            .property("detail", detail)
            .required("code")
            .required("detail");
        RefOr::T(Schema::Object(schema.build()))
    };
    let place = ArrayBuilder::new().items(text().build());
    let fault = ObjectBuilder::new()
        .property("loc", Schema::Array(place.build()))
        .property("msg", Schema::Object(text().build()))
        .property("type", Schema::Object(text().build()))
        .required("loc")
        .required("msg")
        .required("type");
    let faults = ArrayBuilder::new().items(fault.build());
    let detail = text().description(Some("What happened, and what to do"));
    [
        ("HttpErrorOut".to_owned(), problem(Schema::Object(detail.build()))),
        ("HttpValidationErrorOut".to_owned(), problem(Schema::Array(faults.build()))),
    ]
}

/// `/api/v1/openapi.json`
pub(super) async fn show() -> Response {
    Json(document()).into_response()
}
