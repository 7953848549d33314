//! What a replay task means, as a document: written by whoever starts it, read by whoever runs it.

use std::collections::BTreeSet;

use domain::delivery::Cause;
use domain::replay::{Candidate, Selection, States, StatusClass, Tried};
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::ledger::DeliveryEntry;

/// What a task means beyond a [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// Which deliveries.
    pub selection: Selection,
    /// Only of these event types; empty for all.
    pub event_types: BTreeSet<String>,
    /// Only of messages on this channel.
    pub channel: Option<String>,
}

impl Wish {
    /// Tells whether a delivery to an endpoint is meant. Channels are looked at elsewhere: a
    /// delivery does not know them.
    pub(crate) fn means(&self, entry: &DeliveryEntry, endpoint: domain::ids::EndpointId) -> bool {
        let by_type = self.event_types.is_empty() || self.event_types.contains(&entry.event_type);
        let candidate = Candidate {
            id: entry.id,
            endpoint,
            delivery: &entry.state,
            accepted_at: entry.received_at,
            attempts: entry.recorded,
            last_status: entry.last_status,
        };
        by_type && self.selection.selects(&candidate)
    }

    /// Tells whether nothing received at a moment or later is meant.
    pub(crate) fn is_over_at(&self, received_at: Timestamp) -> bool {
        self.selection.until.is_some_and(|until| received_at >= until)
    }
}

/// Writes what a task means as a document.
#[must_use]
pub(crate) fn write_selection(wish: &Wish) -> Value {
    let Wish { selection, event_types, channel } = wish;
    let ids: Vec<String> = selection.ids.iter().map(ToString::to_string).collect();
    let causes: Vec<&str> = selection.causes.iter().map(|cause| cause.word()).collect();
    json!({
        "ids": ids,
        "endpoint": selection.endpoint.map(|id| id.to_string()),
        "causes": causes,
        "status_class": selection.status_class.map(class_number),
        "since": selection.since.map(Timestamp::as_micros),
        "until": selection.until.map(Timestamp::as_micros),
        "states": states_word(selection.states),
        "never_tried": selection.tried == Tried::Never,
        "event_types": event_types,
        "channel": channel,
    })
}

/// Reads what a task means from its document. What cannot be read restricts to nothing at all, so
/// that a task from another version never replays more than was meant.
#[must_use]
pub(crate) fn read_selection(document: &Value) -> Option<Wish> {
    let texts = |name: &str| -> Option<Vec<String>> {
        let list = document.get(name)?.as_array()?;
        list.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let moment = |name: &str| document.get(name)?.as_i64().map(Timestamp::from_micros);
    let ids: Result<BTreeSet<_>, _> = texts("ids")?.iter().map(|text| text.parse()).collect();
    let causes: Option<BTreeSet<_>> =
        texts("causes")?.iter().map(|word| Cause::from_word(word)).collect();
    let endpoint = match document.get("endpoint")?.as_str() {
        Some(text) => Some(text.parse().ok()?),
        None => None,
    };
    let status_class = match document.get("status_class")?.as_u64() {
        Some(number) => Some(read_class(number)?),
        None => None,
    };
    let word = document.get("states")?.as_str()?;
    let never = document.get("never_tried")?.as_bool()?;
    let selection = Selection {
        ids: ids.ok()?,
        endpoint,
        causes: causes?,
        status_class,
        since: moment("since"),
        until: moment("until"),
        states: STATES.into_iter().find(|states| states_word(*states) == word)?,
        tried: if never { Tried::Never } else { Tried::Whatever },
    };
    let channel = document.get("channel")?.as_str().map(str::to_owned);
    let event_types = texts("event_types")?.into_iter().collect();
    Some(Wish { selection, event_types, channel })
}

/// Returns the number that the SDKs have for a class of statuses.
#[must_use]
pub const fn class_number(class: StatusClass) -> u16 {
    match class {
        StatusClass::NoAnswer => 0,
        StatusClass::Informational => 100,
        StatusClass::Success => 200,
        StatusClass::Redirect => 300,
        StatusClass::ClientError => 400,
        StatusClass::ServerError => 500,
    }
}

/// Reads the number that the SDKs have for a class of statuses.
#[must_use]
pub const fn read_class(number: u64) -> Option<StatusClass> {
    match number {
        0 => Some(StatusClass::NoAnswer),
        100 => Some(StatusClass::Informational),
        200 => Some(StatusClass::Success),
        300 => Some(StatusClass::Redirect),
        400 => Some(StatusClass::ClientError),
        500 => Some(StatusClass::ServerError),
        _ => None,
    }
}

/// All of them: what is missing here is written and never read again.
const STATES: [States; 5] =
    [States::Dead, States::Undelivered, States::Cancelled, States::Delivered, States::Settled];

const fn states_word(states: States) -> &'static str {
    match states {
        States::Dead => "dead",
        States::Undelivered => "undelivered",
        States::Cancelled => "cancelled",
        States::Delivered => "delivered",
        States::Settled => "settled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_means_is_read_as_it_was_written() {
        let selection = Selection {
            causes: BTreeSet::from([Cause::Exhausted, Cause::Permanent]),
            status_class: Some(StatusClass::ServerError),
            since: Some(Timestamp::from_seconds(5)),
            states: States::Settled,
            tried: Tried::Never,
            ..Selection::default()
        };
        let event_types = BTreeSet::from(["invoice.paid".to_owned()]);
        let wish = Wish { selection, event_types, channel: Some("a".to_owned()) };
        assert_eq!(read_selection(&write_selection(&wish)), Some(wish));
        assert_eq!(read_selection(&write_selection(&Wish::default())), Some(Wish::default()));
        assert_eq!(read_selection(&json!({ "ids": [] })), None);
    }

    #[test]
    fn each_choice_of_states_is_read_by_its_word() {
        // The words are in tasks that an older version began: they never change their meaning.
        let table = [
            (States::Dead, "dead"),
            (States::Undelivered, "undelivered"),
            (States::Cancelled, "cancelled"),
            (States::Delivered, "delivered"),
            (States::Settled, "settled"),
        ];
        for (states, word) in table {
            let selection = Selection { states, ..Selection::default() };
            let wish = Wish { selection, ..Wish::default() };
            let document = write_selection(&wish);
            assert_eq!(document["states"], word);
            assert_eq!(read_selection(&document), Some(wish));
        }
    }
}
