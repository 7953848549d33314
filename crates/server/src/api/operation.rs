//! An operation of the API: its route, its rule of access and its description are one value.
//!
//! So the router, the OpenAPI document and the check of tokens cannot disagree, and a test can walk
//! all operations with a foreign token without knowing any of them.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use domain::rights::Right;
use http::Method;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Ref, RefOr, Required};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::access::{self, Door, Rule};

/// Whom an operation lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody, without a token.
    Anyone,
    /// Every token. What the operation shows depends on whose it is.
    Token,
    /// Admins only.
    Admin,
}

/// What a token must be allowed to do for an operation, beside being let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Reading, which every token may.
    Reading,
    /// Something that a token which may only read does not; for operations of admins.
    Changing,
    /// This right. An admin's token has all of them, unless it may only read.
    Right(Right),
}

/// How an operation's `Idempotency-Key` is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// With the whole answer, by the edge.
    Answer,
    /// By the operation itself, in the same transaction.
    Own,
}

type Named = (String, RefOr<Schema>);

/// An operation.
pub(super) struct Operation {
    method: Method,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    rule: Rule,
    parameters: Vec<Parameter>,
    body: Option<(RefOr<Schema>, Required)>,
    answers: Vec<(u16, Option<RefOr<Schema>>)>,
    schemas: Vec<Named>,
    lines: bool,
    accepts: bool,
    names: bool,
    tagged: bool,
}

impl Operation {
    fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        let reads = method == Method::GET;
        let (access, keys) = (Access::Token, Keys::Answer);
        let needs = if reads { Needs::Reading } else { Needs::Changing };
        let (paced, turns) = (!reads, true);
        let rule = Rule { access, needs, keys, paced, conditional: false, given: false, turns };
        let parameters = path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
            Some(parameter.required(Required::True).schema(Some(text())).build())
        });
        Self {
            parameters: parameters.collect(),
            tag: id.split('.').nth(1).unwrap_or_default(),
            method,
            path,
            id,
            summary,
            rule,
            body: None,
            answers: Vec::new(),
            schemas: Vec::new(),
            lines: false,
            accepts: false,
            names: path.contains('{'),
            tagged: false,
        }
    }

    pub(super) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::GET, path, id, summary)
    }

    pub(super) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::POST, path, id, summary)
    }

    pub(super) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PUT, path, id, summary)
    }

    pub(super) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PATCH, path, id, summary)
    }

    pub(super) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(Method::DELETE, path, id, summary)
    }

    /// Lets admins in only.
    pub(super) fn admin(mut self) -> Self {
        self.rule.access = Access::Admin;
        self.rule.paced = false;
        self
    }

    /// Lets everybody in.
    pub(super) fn anyone(mut self) -> Self {
        self.rule.access = Access::Anyone;
        self.rule.turns = false;
        self.rule.paced = false;
        self
    }

    /// Keeps tokens out that were not granted a right.
    pub(super) fn needs(mut self, right: Right) -> Self {
        self.rule.needs = Needs::Right(right);
        self
    }

    /// Lets tokens in that may only read, although it is a POST.
    pub(super) fn reads(mut self) -> Self {
        self.rule.needs = Needs::Reading;
        self.rule.paced = false;
        self.rule.keys = Keys::Own;
        self
    }

    /// Keeps idempotency keys itself.
    pub(super) fn own_keys(mut self) -> Self {
        self.rule.keys = Keys::Own;
        self
    }

    /// Leaves it to the lane of an application's messages, which keeps its own measure and turns.
    pub(super) fn unpaced(mut self) -> Self {
        self.rule.paced = false;
        self.rule.turns = false;
        self
    }

    /// Returns whom it lets in, and how.
    pub(super) fn rule(&self) -> Rule {
        self.rule
    }

    /// Lets the request say which version of a row it means.
    pub(super) fn conditional(mut self) -> Self {
        self.rule.conditional = true;
        self.parameters.push(header("If-Match", "The ETag of the version that is meant"));
        if self.method == Method::PUT {
            self.parameters.push(header("If-None-Match", "`*` if it must not be there yet"));
        }
        self
    }

    /// Says that answers have an `ETag`.
    pub(super) fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }

    /// Describes the query.
    pub(super) fn query<T: IntoParams>(mut self) -> Self {
        self.parameters.extend(T::into_params(|| Some(ParameterIn::Query)));
        self
    }

    /// Describes the body.
    pub(super) fn body<T: ToSchema>(mut self) -> Self {
        // An empty body counts as an empty object, so it need not be there if no field must.
        let required = match T::schema() {
            RefOr::T(Schema::Object(object)) if object.required.is_empty() => Required::False,
            RefOr::T(_) | RefOr::Ref(_) => Required::True,
        };
        self.body = Some((self.schema::<T>(), required));
        self.rule.given = true;
        self
    }

    /// Says that the body may also be one JSON object per line.
    pub(super) fn lines(mut self) -> Self {
        self.lines = true;
        self
    }

    /// Says that one application may send faster than its messages can be stored.
    pub(super) fn accepts(mut self) -> Self {
        self.accepts = true;
        self
    }

    /// Says that the body names something that may not be there.
    pub(super) fn names(mut self) -> Self {
        self.names = true;
        self
    }

    /// Describes an answer.
    pub(super) fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        let schema = self.schema::<T>();
        self.answers.push((status, Some(schema)));
        self
    }

    /// Describes an answer without a body.
    pub(super) fn empty(mut self, status: u16) -> Self {
        self.answers.push((status, None));
        self
    }

    /// Describes an answer that is a page of a list.
    pub(super) fn lists<T: ToSchema>(mut self) -> Self {
        let entries = ArrayBuilder::new().items(self.schema::<T>()).build();
        let text = || SchemaType::from_iter([Type::String, Type::Null]);
        let cursor = || ObjectBuilder::new().schema_type(text()).build();
        let done = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Boolean)).build();
        let page = ObjectBuilder::new()
            .property("data", Schema::Array(entries))
            .property("iterator", Schema::Object(cursor()))
            .property("prevIterator", Schema::Object(cursor()))
            .property("done", Schema::Object(done))
            .required("data")
            .required("iterator")
            .required("done")
            .build();
        let name = format!("ListResponse{}", T::name());
        let reference = Ref::from_schema_name(&name);
        self.schemas.push((name, RefOr::T(Schema::Object(page))));
        self.answers.push((200, Some(RefOr::Ref(reference))));
        self
    }

    fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }

    fn describe(&self) -> utoipa::openapi::path::Operation {
        let mut builder = OperationBuilder::new()
            .operation_id(Some(self.id))
            .tag(self.tag)
            .summary(Some(self.summary))
            .parameters(Some(self.parameters.clone()));
        if let Some((body, required)) = &self.body {
            let content = ContentBuilder::new().schema(Some(body.clone())).build();
            let mut body = RequestBodyBuilder::new().content("application/json", content);
            if self.lines {
                let text = SchemaType::Type(Type::String);
                let lines = ObjectBuilder::new().schema_type(text).build();
                let lines = ContentBuilder::new().schema(Some(Schema::Object(lines))).build();
                body = body.content("application/x-ndjson", lines);
            }
            builder = builder.request_body(Some(body.required(Some(required.clone())).build()));
        }
        for (status, schema) in &self.answers {
            let mut response = ResponseBuilder::new().description(describe_status(*status));
            if let Some(schema) = schema {
                let content = ContentBuilder::new().schema(Some(schema.clone())).build();
                response = response.content("application/json", content);
            }
            if self.tagged {
                let tag = HeaderBuilder::new().description(Some("The version of what is shown"));
                response = response.header("ETag", tag.schema(Some(text())).build());
            }
            builder = builder.response(status.to_string(), response.build());
        }
        for status in self.refusals() {
            let schema = if status == 422 { "HttpValidationErrorOut" } else { "HttpErrorOut" };
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema)));
            let response = ResponseBuilder::new()
                .description(describe_status(status))
                .content("application/json", content.build());
            builder = builder.response(status.to_string(), response.build());
        }
        let security = match self.rule.access {
            Access::Anyone => None,
            Access::Token => Some("token"),
            Access::Admin => Some("admin token"),
        };
        let right = match self.rule.needs {
            Needs::Reading | Needs::Changing => None,
            Needs::Right(right) => Some(right.word()),
        };
        // What would be scopes elsewhere are the roles that a bearer token must have.
        let required = security.map(|name| SecurityRequirement::new(name, right));
        builder.securities(Some(required)).build()
    }

    /// Tells whether it does anything but say that it does not.
    fn is_offered(&self) -> bool {
        !self.answers.iter().any(|(status, _)| *status == 501)
    }

    /// Returns the names of what its query may have.
    fn asked(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|it| it.parameter_in == ParameterIn::Query)
    }

    /// Returns what its requests are checked by before they reach it.
    fn door(&self) -> Door {
        let offered = self.is_offered();
        let names = self.asked().map(|parameter| parameter.name.clone());
        Door {
            rule: self.rule,
            parameters: offered.then(|| names.collect()),
            takes_body: !offered || self.body.is_some() || self.method == Method::GET,
        }
    }

    /// Lists the statuses of all that can be refused, by what the operation takes.
    fn refusals(&self) -> Vec<u16> {
        let given = self.body.is_some();
        let token = self.rule.access != Access::Anyone;
        let offered = self.is_offered();
        let table = [
            (400, true),
            (401, token),
            (403, token),
            (404, self.names),
            (408, given),
            (409, self.method != Method::GET),
            (412, self.rule.conditional),
            (413, given),
            (422, given || offered && token),
            (429, token),
            (500, true),
            (501, !offered),
            (503, true),
            (504, true),
        ];
        let told = |status: &u16| self.answers.iter().any(|(known, _)| known == status);
        let applies = table.into_iter().filter(|(_, applies)| *applies).map(|(status, _)| status);
        applies.filter(|status| !told(status) || *status == 501).collect()
    }
}

fn text() -> Schema {
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).build())
}

fn header(name: &str, description: &str) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header);
    let parameter = parameter.description(Some(description)).required(Required::False);
    parameter.schema(Some(text())).build()
}

fn describe_status(status: u16) -> &'static str {
    match status {
        200 => "Done, or found",
        201 => "Created",
        202 => "Accepted, and on disk",
        204 => "Done",
        400 => "It is well formed, and refused",
        401 => "The token is missing or does not work",
        403 => "The token is not for this",
        404 => "There is no such thing, or not for this token",
        408 => "The body came too slowly",
        409 => "Something else has that name, or its state does not allow it",
        412 => "It is not the version that the request means",
        413 => "The body is too large",
        422 => "Parts of the request make no sense",
        429 => "This application sends, asks, or is changed, faster than it may be",
        500 => "Something is wrong with the server; its log has the request's id",
        501 => "This server does not offer it",
        503 => "The server cannot do it right now; try again soon",
        504 => "The request took too long",
        _ => "The answer",
    }
}

/// Operations that are being gathered.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: Router<Shared>,
    pub(super) paths: Paths,
    pub(super) schemas: Vec<Named>,
}

impl Routes {
    /// Adds an operation.
    pub(super) fn add<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let (filter, method) = methods(&operation.method);
        let door = Arc::new(operation.door());
        let guarded = on(filter, handler)
            .layer(from_fn(move |request, next| access::check(Arc::clone(&door), request, next)));
        let path = format!("/api/v1{}", operation.path);
        self.router = self.router.route(&path, guarded);
        self.paths.add_path_operation(path, vec![method], operation.describe());
        self.schemas.extend(operation.schemas);
        self
    }
}

fn methods(method: &Method) -> (MethodFilter, HttpMethod) {
    match *method {
        Method::POST => (MethodFilter::POST, HttpMethod::Post),
        Method::PUT => (MethodFilter::PUT, HttpMethod::Put),
        Method::PATCH => (MethodFilter::PATCH, HttpMethod::Patch),
        Method::DELETE => (MethodFilter::DELETE, HttpMethod::Delete),
        _ => (MethodFilter::GET, HttpMethod::Get),
    }
}
