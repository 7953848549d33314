//! What a replay task means, as a document: written by whoever starts it, read by whoever runs it.

use std::collections::BTreeSet;

use domain::delivery::Cause;
use domain::ids::DeliveryId;
use domain::replay::{Candidate, Selection, States, StatusClass, Tried};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use store::ledger::DeliveryEntry;

/// A selection of deliveries that can be kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Choice {
    /// Only these deliveries.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) ids: BTreeSet<String>,
    /// Only dead letters with one of these causes, by their words.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) causes: BTreeSet<String>,
    /// Only those last answered in this class: 0 for none, 100, 200 … 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status_class: Option<u16>,
    /// Only those of these event types.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) event_types: BTreeSet<String>,
    /// Only those received at this moment or later, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<i64>,
    /// Only those received before this moment, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
    /// In which states.
    pub(crate) states: Covered,
    /// Only those of which no attempt was ever made.
    pub(crate) never_attempted: bool,
}

/// The settled states that a choice covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Covered {
    /// Dead letters.
    #[default]
    Dead,
    /// Dead letters and what was cancelled.
    Undelivered,
    /// What was delivered.
    Delivered,
    /// Everything that is settled.
    Settled,
}

impl Choice {
    /// Tells whether a delivery is meant.
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
        by_type && self.selection().selects(&candidate)
    }

    /// Tells whether everything received before a moment is out of the question.
    pub(crate) fn ends_before(&self, received_at: Timestamp) -> bool {
        self.since.is_some_and(|since| received_at.as_micros() < since)
    }

    fn selection(&self) -> Selection {
        Selection {
            ids: self.ids.iter().filter_map(|id| id.parse::<DeliveryId>().ok()).collect(),
            endpoint: None,
            causes: self.causes.iter().filter_map(|word| Cause::from_word(word)).collect(),
            status_class: self.status_class.map(|class| StatusClass::of(Some(class))),
            since: self.since.map(Timestamp::from_micros),
            until: self.until.map(Timestamp::from_micros),
            states: match self.states {
                Covered::Dead => States::Dead,
                Covered::Undelivered => States::Undelivered,
                Covered::Delivered => States::Delivered,
                Covered::Settled => States::Settled,
            },
            tried: if self.never_attempted { Tried::Never } else { Tried::Whatever },
        }
    }
}
