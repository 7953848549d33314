//! `/app/{app_id}/msg/batch`: many messages in one request.
//!
//! A JSON array, or one object per line. Each message has its own result, in their order; one that
//! makes no sense does not harm the others. The answer comes when all that were accepted are on
//! disk. With an `Idempotency-Key` each message has a key of its own, derived from it.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use domain::rights::Right;
use http::StatusCode;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shared;
use super::extract::{self, Application as NamedApplication, By, Key, RawBatch};
use super::messages::MessageIn;
use super::operation::{Operation, Routes};
use super::values::Answer;
use crate::app::messages::Draft;
use crate::app::pages::{Fill, PAGE_BYTES};
use crate::app::{Error, RefusalKind, idempotency};
use crate::problem::Problem;

const BATCH: &str = "/app/{app_id}/msg/batch";

/// The most bytes of a result without its detail, or with [`NOT_TOLD`].
const RESULT_BYTES: usize = 256;
/// What stands in for a detail that has no room.
const NOT_TOLD: &str =
    "is not told: too much is wrong with this batch; send this message alone to hear it";

pub(super) fn routes(routes: Routes) -> Routes {
    let batch = Operation::post(BATCH, "v1.message.create-batch", "Accepts many messages");
    let batch = batch.needs(Right::Send).accepts().unpaced().own_keys().body::<BatchIn>().lines();
    let batch = batch.answers::<BatchOut>(202);
    routes.add(batch, accept)
}

/// Many messages: a JSON array, or one object per line.
#[derive(ToSchema)]
#[schema(value_type = Vec<Object>)]
#[expect(dead_code, reason = "it only describes the body, which is read piece by piece")]
struct BatchIn(Vec<Value>);

/// What became of many messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BatchOut {
    /// How many are on disk.
    accepted: usize,
    /// How many are not.
    refused: usize,
    /// What became of each, in their order.
    results: Vec<ResultOut>,
}

/// What became of one message of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ResultOut {
    /// 202, or what the message alone would have been answered.
    status: u16,
    /// Its id, if it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The code of the error, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// What was wrong, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Value>,
}

/// Takes a body apart into messages: an array, or lines. What is beyond the most that there may be
/// is not looked at: millions of tiny parts would take far more memory than the body.
pub(super) fn split(body: &Bytes, most: usize) -> Result<Vec<Bytes>, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::refused(RefusalKind::Generic, "the body is not UTF-8"))?;
    let mut more = false;
    let parts: Vec<&str> = if text.trim_start().starts_with('[') {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = AtMost { most, more: &mut more }.deserialize(&mut deserializer);
        match read.and_then(|parts| deserializer.end().map(|()| parts)) {
            Ok(parts) => parts,
            Err(_) if more => Vec::new(),
            // Read once more, to say where it is wrong: not after more parts than these.
            Err(_) => {
                extract::read::<Vec<&RawValue>>(body)?.into_iter().map(RawValue::get).collect()
            }
        }
    } else {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.take(most.saturating_add(1)).collect();
        more = lines.len() > most;
        lines
    };
    if more {
        let text = format!("a batch has at most {most} messages; this one has more");
        return Err(Error::refused(RefusalKind::LimitReached, text));
    }
    Ok(parts.into_iter().map(|part| body.slice_ref(part.as_bytes())).collect())
}

/// Reads an array up to a number of elements, and stops there.
struct AtMost<'a> {
    most: usize,
    /// Becomes true if there are more.
    more: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for AtMost<'_> {
    type Value = Vec<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtMost<'_> {
    type Value = Vec<&'de str>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = elements.next_element::<&RawValue>()? {
            if parts.len() == self.most {
                *self.more = true;
                return Err(A::Error::custom("there are too many"));
            }
            parts.push(part.get());
        }
        Ok(parts)
    }
}

fn draft(part: &Bytes, index: usize, key: Option<[u8; 32]>) -> Result<Draft, Error> {
    let given: MessageIn<'_> = extract::read_object(part)?;
    let draft = given.draft(part)?;
    // A copy: a payload that waits must not keep the whole batch in memory. Each part is a slice
    // of it, so that it does not matter how much of the part is payload.
    let payload = Bytes::copy_from_slice(&draft.payload);
    Ok(Draft {
        payload,
        idempotency: key.map(|key| idempotency::hash_of_part(key, index)),
        ..draft
    })
}

async fn accept(
    State(shared): State<Shared>,
    By(caller): By,
    (NamedApplication(application), Key(key)): (NamedApplication, Key),
    RawBatch(body): RawBatch,
) -> Answer<Response> {
    let parts = split(&body, shared.limits.batch_messages)?;
    // A message may be no larger in company than alone.
    let most = shared.limits.body_bytes;
    let read = |(index, part): (usize, &Bytes)| match part.len() {
        size if size > most => Err(Error::TooLarge(most)),
        _ => draft(part, index, key),
    };
    let drafts = parts.iter().enumerate().map(read).collect();
    let accepted = shared.app.accept_all(&caller, &application, drafts).await?;
    let results = results(accepted, PAGE_BYTES);
    let accepted = results.iter().filter(|result| result.id.is_some()).count();
    let refused = results.len() - accepted;
    Ok((StatusCode::ACCEPTED, Json(BatchOut { accepted, refused, results })).into_response())
}

/// Tells what became of each message. Details are told as long as they have room: some of them repeat what
/// was sent, and a batch may be much larger than an answer.
fn results(accepted: Vec<Result<String, Error>>, most: usize) -> Vec<ResultOut> {
    let mut room = Fill::up_to(most.saturating_sub(accepted.len() * RESULT_BYTES));
    let told = accepted.into_iter().map(|result| {
        let mut result = ResultOut::from(result);
        let bytes = result.detail.as_ref().map_or(0, |detail| detail.to_string().len());
        if bytes > 0 && !room.takes(bytes) {
            result.detail = Some(NOT_TOLD.into());
        }
        result
    });
    told.collect()
}

impl From<Result<String, Error>> for ResultOut {
    fn from(accepted: Result<String, Error>) -> Self {
        match accepted {
            Ok(id) => Self { status: 202, id: Some(id), code: None, detail: None },
            Err(error) => {
                let (status, code, detail) = Problem::App(error).told();
                Self { status, id: None, code: Some(code), detail: Some(detail) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &'static str) -> Vec<Bytes> {
        split(&Bytes::from_static(text.as_bytes()), 2).unwrap()
    }

    #[test]
    fn nothing_is_read_beyond_the_most_messages_of_a_batch() {
        // Whoever read on would find that the rest is not JSON.
        for text in ["[1, 2, 3, }", "[1,2,3", "1\n2\n\n3\n}"] {
            let error = split(&Bytes::from_static(text.as_bytes()), 2).unwrap_err();
            let expected = "a batch has at most 2 messages; this one has more";
            assert_eq!(error.to_string(), expected, "{text}");
        }
        for text in ["[1, 2, }", "[1, 2] 3", "[1"] {
            let error = split(&Bytes::from_static(text.as_bytes()), 2).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{text}: {error}");
        }
    }

    #[test]
    fn details_are_told_as_long_as_they_have_room() {
        let refused = |_| Err(Error::Conflict("x".repeat(1_000)));
        let mut all: Vec<_> = (0..100).map(refused).collect();
        all.push(Ok("msg_".to_owned()));
        let results = results(all, 40_000);
        let told = results.iter().filter(|result| result.code == Some("conflict")).count();
        let detailed = results.iter().filter(|result| {
            result.detail.as_ref().is_some_and(|detail| detail.to_string().len() > 1_000)
        });
        assert_eq!((told, detailed.count(), results.len()), (100, 14, 101));
        assert!(serde_json::to_string(&results).unwrap().len() < 40_000);
        assert_eq!(results[100].id.as_deref(), Some("msg_"));
    }

    #[test]
    fn an_array_and_lines_are_the_same_batch() {
        let expected = [r#"{"a": 1}"#, r#"{"b":[2]}"#];
        assert_eq!(parts(" [ {\"a\": 1},\n{\"b\":[2]} ] "), expected);
        assert_eq!(parts("{\"a\": 1}\r\n\n{\"b\":[2]}\n"), expected);
        assert!(parts("[]").is_empty() && parts("").is_empty());
    }
}
