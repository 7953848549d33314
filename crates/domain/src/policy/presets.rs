//! The presets by name. Each is a document under `presets/`, read by the same code that reads a
//! policy of yours, and says only what it does differently from `redial`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::read::ROOT;
use super::{Preset, read_toml};
use crate::nearest::nearest;

/// Name and text of every preset, in the order in which they are listed to people.
const DOCUMENTS: [(&str, &str); 17] = [
    ("redial", include_str!("../../presets/redial.toml")),
    ("formspring", include_str!("../../presets/formspring.toml")),
    ("webhook-actions", include_str!("../../presets/webhook-actions.toml")),
    ("backoff-chapter", include_str!("../../presets/backoff-chapter.toml")),
    ("recuro", include_str!("../../presets/recuro.toml")),
    ("recuro-schedule", include_str!("../../presets/recuro-schedule.toml")),
    ("delivery-guarantee", include_str!("../../presets/delivery-guarantee.toml")),
    ("stripe", include_str!("../../presets/stripe.toml")),
    ("github", include_str!("../../presets/github.toml")),
    ("shopify", include_str!("../../presets/shopify.toml")),
    ("twilio", include_str!("../../presets/twilio.toml")),
    ("sendgrid", include_str!("../../presets/sendgrid.toml")),
    ("slack", include_str!("../../presets/slack.toml")),
    ("paypal", include_str!("../../presets/paypal.toml")),
    ("discord", include_str!("../../presets/discord.toml")),
    ("svix", include_str!("../../presets/svix.toml")),
    ("standard-webhooks", include_str!("../../presets/standard-webhooks.toml")),
];

static PRESETS: LazyLock<BTreeMap<&str, Preset>> = LazyLock::new(|| {
    let read = |(name, text)| match read_toml(text) {
        Ok(preset) => (name, preset),
        #[expect(
            clippy::panic,
            reason = "the documents are part of the program, and a test reads them all"
        )]
        Err(error) => panic!("the built-in preset `{name}`: {error}"),
    };
    DOCUMENTS.into_iter().map(read).collect()
});

/// A name that no preset has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPreset {
    name: String,
}

/// Finds a preset.
///
/// # Errors
/// If no preset has this name; the error suggests the nearest one.
pub fn preset(name: &str) -> Result<&'static Preset, UnknownPreset> {
    PRESETS.get(name).ok_or_else(|| UnknownPreset { name: name.to_owned() })
}

/// Lists the names of all presets, `redial` first.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.into_iter().map(|(name, _)| name)
}

/// Returns a preset's own document, completed by the one it extends.
pub(super) fn document(name: &str) -> Option<Map<String, Value>> {
    let (_, text) = DOCUMENTS.into_iter().find(|(known, _)| *known == name)?;
    let own: Map<String, Value> = toml::from_str(text).ok()?;
    if name == ROOT {
        return Some(own);
    }
    match super::read::complete(Value::Object(own)).ok()? {
        Value::Object(whole) => Some(whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

impl std::fmt::Display for UnknownPreset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no policy named `{}`", self.name)?;
        match nearest(&self.name, preset_names()) {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => {
                let names: Vec<&str> = preset_names().collect();
                write!(f, "; there are {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for UnknownPreset {}
