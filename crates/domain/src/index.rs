//! Which endpoints of an application get a message: the filters of all of them, as one index.
//!
//! A name is looked for once as it is, and once for each prefix that ends before one of its dots. So
//! an answer costs its matches and the depth of the name, however many patterns there are. Each
//! distinct name is kept once, and what an endpoint lists costs sixteen bytes more.

use std::collections::BTreeSet;

use crate::filter::EventTypePattern;
use crate::names::{Channel, EventTypeName};

/// The filters of an application's endpoints. An endpoint is a place: its position in the list that
/// the index was made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// All names that are listed, one after another.
    text: String,
    /// Endpoints that list an event type, by its name.
    exact: Vec<Entry>,
    /// Endpoints that list everything below a prefix, by the prefix.
    below: Vec<Entry>,
    /// Endpoints that list no event types, and so get all.
    all: Vec<u32>,
    /// Channels, by the endpoint that listens on them.
    channels: Vec<Entry>,
}

/// A name that an endpoint lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: usize,
    length: u16,
    place: u32,
}

impl Index {
    /// Makes an index of what endpoints list: event types, and channels.
    ///
    /// A name that no longer reads matches nothing, and an endpoint that lists nothing else gets
    /// nothing: a list of such names must not match everything.
    #[must_use]
    pub fn of<'a>(lists: impl IntoIterator<Item = (&'a [String], &'a [String])>) -> Self {
        let (mut exact, mut below, mut channels) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Vec::new();
        for (place, (event_types, own)) in (0..).zip(lists) {
            let count = channels.len();
            let read = own.iter().filter(|text| Channel::parse(text).is_ok());
            channels.extend(read.map(|text| (text.as_str(), place)));
            if channels.len() == count && !own.is_empty() {
                continue;
            }
            if event_types.is_empty() {
                all.push(place);
            }
            for text in event_types {
                match EventTypePattern::parse(text) {
                    Ok(EventTypePattern::Exact(_)) => exact.push((text.as_str(), place)),
                    Ok(EventTypePattern::Below(_)) => {
                        below.push((text.strip_suffix(".*").unwrap_or(text), place));
                    }
                    Err(_) => {}
                }
            }
        }
        let mut text = String::new();
        let (exact, below) = (entries(&mut text, exact), entries(&mut text, below));
        let mut channels = entries(&mut text, channels);
        // The sort is stable: the channels of one endpoint stay sorted by their names.
        channels.sort_by_key(|entry| entry.place);
        text.shrink_to_fit();
        Self { text, exact, below, all, channels }
    }

    /// Returns the places of the endpoints that get a message, ascending.
    #[must_use]
    pub fn matches(&self, event_type: &EventTypeName, channels: &BTreeSet<Channel>) -> Vec<u32> {
        let name = event_type.as_str();
        let mut places = self.all.clone();
        places.extend(self.named(&self.exact, name));
        for (dot, _) in name.match_indices('.') {
            // What is below a prefix is longer than it by a dot and something behind.
            if dot + 1 < name.len() {
                places.extend(self.named(&self.below, &name[..dot]));
            }
        }
        places.sort_unstable();
        places.dedup();
        if !self.channels.is_empty() {
            places.retain(|place| self.listens(*place, channels));
        }
        places
    }

    /// Returns about how many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entries = self.exact.len() + self.below.len() + self.channels.len();
        self.text.len() + entries * size_of::<Entry>() + self.all.len() * size_of::<u32>()
    }

    fn named<'a>(&'a self, entries: &'a [Entry], name: &str) -> impl Iterator<Item = u32> + 'a {
        let first = entries.partition_point(|entry| self.text_of(*entry) < name);
        let rest = entries.get(first..).unwrap_or_default();
        let count = rest.partition_point(|entry| self.text_of(*entry) == name);
        rest.iter().take(count).map(|entry| entry.place)
    }

    /// Tells whether an endpoint chooses no channels, or one of these.
    fn listens(&self, place: u32, channels: &BTreeSet<Channel>) -> bool {
        let first = self.channels.partition_point(|entry| entry.place < place);
        let rest = self.channels.get(first..).unwrap_or_default();
        let own = &rest[..rest.partition_point(|entry| entry.place == place)];
        let has = |channel: &Channel| {
            own.binary_search_by(|entry| self.text_of(*entry).cmp(channel.as_str())).is_ok()
        };
        own.is_empty() || channels.iter().any(has)
    }

    fn text_of(&self, entry: Entry) -> &str {
        let end = entry.start + usize::from(entry.length);
        self.text.get(entry.start..end).unwrap_or_default()
    }
}

/// Sorts names and the places that list them, and writes each distinct name once.
fn entries(text: &mut String, mut listed: Vec<(&str, u32)>) -> Vec<Entry> {
    listed.sort_unstable();
    listed.dedup();
    let mut entries: Vec<Entry> = Vec::with_capacity(listed.len());
    let mut before = "";
    for (name, place) in listed {
        // No name is longer than 256 characters.
        let Ok(length) = u16::try_from(name.len()) else { continue };
        let same = entries.last().filter(|_| name == before).map(|entry| entry.start);
        let start = same.unwrap_or_else(|| {
            text.push_str(name);
            text.len() - name.len()
        });
        entries.push(Entry { start, length, place });
        before = name;
    }
    entries
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Lists = (Vec<String>, Vec<String>);

    /// Few enough names that most of them meet, with dots where they may surprise; some do not read.
    fn lists() -> impl Strategy<Value = Vec<Lists>> {
        let pattern = ("[ab.]{1,6}", prop_oneof![2 => Just(""), 2 => Just(".*"), 1 => Just("*")])
            .prop_map(|(name, end)| format!("{name}{end}"));
        let channel = prop_oneof![9 => "[abc]", 1 => Just("no channel".to_owned())];
        vec((vec(pattern, 0..5), vec(channel, 0..3)), 0..12)
    }

    fn index(lists: &[Lists]) -> Index {
        Index::of(lists.iter().map(|(types, channels)| (&types[..], &channels[..])))
    }

    /// Tells of one endpoint whether it gets a message. Names that do not read match nothing, and a
    /// list of such names alone matches no message.
    fn fits(lists: &Lists, event_type: &EventTypeName, channels: &BTreeSet<Channel>) -> bool {
        let (types, own) = lists;
        let read = types.iter().filter_map(|text| EventTypePattern::parse(text).ok());
        let by_type = types.is_empty()
            || read.into_iter().any(|pattern| match pattern {
                EventTypePattern::Exact(name) => name == *event_type,
                EventTypePattern::Below(prefix) => {
                    let rest = event_type.as_str().strip_prefix(prefix.as_str());
                    rest.is_some_and(|rest| rest.starts_with('.') && rest.len() > 1)
                }
            });
        let mut own_channels = own.iter().filter_map(|text| Channel::parse(text).ok());
        by_type && (own.is_empty() || own_channels.any(|channel| channels.contains(&channel)))
    }

    /// Event types and channels of the endpoint; event type and channels of the message; fits?
    type Row = (
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
        &'static [&'static str],
        bool,
    );

    #[test]
    fn a_message_must_fit_both_lists_and_an_empty_list_fits_all() {
        let table: [Row; 17] = [
            (&[], &[], "invoice.paid", &[], true),
            (&["invoice.paid"], &[], "invoice.paid", &[], true),
            (&["invoice.paid"], &[], "invoice.paid.late", &[], false),
            (&["invoice.paid"], &[], "Invoice.paid", &[], false),
            (&["invoice.*"], &[], "invoice.paid", &[], true),
            (&["invoice.*"], &[], "invoice.paid.late", &[], true),
            (&["invoice.*"], &[], "invoice", &[], false),
            (&["invoice.*"], &[], "invoice.", &[], false),
            (&["invoice.*"], &[], "invoices.paid", &[], false),
            (&["user.*", "invoice.paid"], &[], "invoice.paid", &[], true),
            (&["in*voice"], &[], "invoice.paid", &[], false),
            (&[], &["a"], "x", &[], false),
            (&[], &["a"], "x", &["b"], false),
            (&[], &["a", "b"], "x", &["b", "c"], true),
            (&[], &[], "x", &["b"], true),
            (&["y"], &["b"], "x", &["b"], false),
            (&[], &["no channel"], "x", &["b"], false),
        ];
        for (types, own, event_type, channels, expected) in table {
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
            let lists: Lists = (texts(types), texts(own));
            let event_type = EventTypeName::parse(event_type).unwrap();
            let channels = channels.iter().map(|text| Channel::parse(text).unwrap()).collect();
            let case = format!("{types:?} {own:?} {event_type} {channels:?}");
            assert_eq!(fits(&lists, &event_type, &channels), expected, "{case}");
            let found = index(&[lists]).matches(&event_type, &channels);
            assert_eq!(found == [0], expected, "{case}");
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_what_each_list_by_itself_fits(
            lists in lists(),
            event_type in "[ab.]{1,6}",
            channels in vec("[abc]", 0..3),
        ) {
            prop_assume!(!crate::names::is_dot_segment(&event_type));
            let event_type = EventTypeName::parse(&event_type).unwrap();
            let channels = channels.iter().map(|text| Channel::parse(text).unwrap()).collect();
            let walked = (0..).zip(&lists).filter(|(_, lists)| fits(lists, &event_type, &channels));
            let walked: Vec<u32> = walked.map(|(place, _)| place).collect();
            prop_assert_eq!(index(&lists).matches(&event_type, &channels), walked);
        }
    }

    #[test]
    fn a_name_that_many_endpoints_list_is_kept_once() {
        let patterns: Vec<String> = (0..500).map(|number| format!("{number:0250}")).collect();
        let one = (patterns, Vec::new());
        let alone = index(std::slice::from_ref(&one)).bytes();
        assert_eq!(alone, 500 * (250 + 16));
        assert_eq!(index(&vec![one; 100]).bytes() - alone, 99 * 500 * 16);
    }
}
