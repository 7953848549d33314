//! Lists as they are asked for and answered: by a limit and an iterator, in both directions.
//!
//! An iterator is the id of the last entry seen; with a minus in front of it the page before that
//! entry is meant. The store walks in one natural order; a list in the opposite order is the same
//! walk the other way, turned around.

use std::fmt::Display;

use domain::ids::{Id, Noun};
use store::page::{From, Listed, Page};

use super::Error;

/// How many entries a page has if nobody says.
pub const USUAL: u32 = 50;
/// The most entries a page may have.
pub const MOST: u32 = 250;
/// How many bytes of payloads end a page, also if there are more messages.
pub(super) const PAGE_BYTES: usize = 8 << 20;

/// Which page is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    limit: u32,
    from: From<String>,
    reversed: bool,
}

/// A page as it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// Where the next page begins.
    pub iterator: Option<String>,
    /// Where the page before ends.
    pub previous: Option<String>,
    /// Whether there is no further page in this direction.
    pub done: bool,
}

impl Wanted {
    /// Reads a limit and an iterator as they were given.
    ///
    /// # Errors
    /// If the limit is none.
    pub fn read(limit: Option<u64>, iterator: Option<&str>) -> Result<Self, Error> {
        let limit = limit.unwrap_or(USUAL.into());
        let limit = u32::try_from(limit).ok().filter(|limit| (1..=MOST).contains(limit));
        let limit = limit
            .ok_or_else(|| Error::parameter("limit", format!("must be between 1 and {MOST}")))?;
        let from = match iterator.filter(|text| !text.is_empty()) {
            None => From::Start,
            Some(text) => match text.strip_prefix('-') {
                Some(id) => From::Before(id.to_owned()),
                None => From::After(text.to_owned()),
            },
        };
        Ok(Self { limit, from, reversed: false })
    }

    /// Turns the list's order around.
    #[must_use]
    pub fn reversed(self, reversed: bool) -> Self {
        Self { reversed, ..self }
    }

    /// Begins at the end of the list if no iterator says where: its last page comes first.
    #[must_use]
    pub fn ending_before(self, id: Option<String>) -> Self {
        match (&self.from, id) {
            (From::Start, Some(id)) => Self { from: From::Before(id), ..self },
            _ => self,
        }
    }

    /// Returns the page for a list by name.
    #[must_use]
    pub fn by_name(&self) -> Page<String> {
        // No name begins with anything beyond ASCII.
        self.page(|text| Some(text.clone()), "\u{10ffff}".to_owned())
            .unwrap_or(Page { from: From::Start, limit: self.limit })
    }

    /// Returns the page for a list by id.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub fn by_id<N: Noun>(&self) -> Result<Page<Id<N>>, Error> {
        self.by(|text| text.parse().ok(), Id::from_bytes([0xff; 20]))
    }

    /// Returns the page for a list by something else that has a text.
    ///
    /// # Errors
    /// If the iterator is no such thing.
    pub fn by<K>(&self, parse: impl Fn(&str) -> Option<K>, end: K) -> Result<Page<K>, Error> {
        self.page(|text| parse(text), end)
            .ok_or_else(|| Error::parameter("iterator", "is not one that a page of this list gave"))
    }

    fn page<K>(&self, parse: impl Fn(&String) -> Option<K>, end: K) -> Option<Page<K>> {
        let from = match (&self.from, self.reversed) {
            (From::Start, false) => From::Start,
            (From::Start, true) => From::Before(end),
            (From::After(id), false) | (From::Before(id), true) => From::After(parse(id)?),
            (From::Before(id), false) | (From::After(id), true) => From::Before(parse(id)?),
        };
        Some(Page { from, limit: self.limit })
    }

    /// Puts the answer together from what the store listed.
    pub fn slice<T, K: Display>(
        &self,
        listed: Listed<T, K>,
        id: impl Fn(&T) -> String,
    ) -> Slice<T> {
        let Listed { mut entries, reached, done } = listed;
        if self.reversed {
            entries.reverse();
        }
        let reached = reached.map(|reached| reached.to_string()).filter(|_| !done);
        let (first, last) = (entries.first().map(&id), entries.last().map(&id));
        let minus = |id: String| format!("-{id}");
        let (iterator, previous) = match self.from {
            From::Start | From::After(_) => (reached.or(last), first.map(minus)),
            From::Before(_) => (last, reached.or(first).map(minus)),
        };
        Slice { entries, iterator, previous, done }
    }
}

/// A page that is put together entry by entry, and ends early once it has enough bytes of payloads.
pub(super) struct Filling<T, K> {
    entries: Vec<T>,
    bytes: usize,
    backward: bool,
    /// The last entry that was looked at.
    passed: Option<K>,
    /// Whether entries were left out at the end.
    early: bool,
}

impl<T, K> Filling<T, K> {
    /// Begins with nothing.
    pub(super) fn of(page: &Page<K>) -> Self {
        let backward = matches!(page.from, From::Before(_));
        Self { entries: Vec::new(), bytes: 0, backward, passed: None, early: false }
    }

    /// Puts what the store listed into the order of the walk.
    pub(super) fn ordered<U>(&self, mut entries: Vec<U>) -> Vec<U> {
        if self.backward {
            entries.reverse();
        }
        entries
    }

    /// Tells whether there is room for an entry, and passes it if there is.
    pub(super) fn passes(&mut self, place: K) -> bool {
        self.early = self.bytes >= PAGE_BYTES;
        if !self.early {
            self.passed = Some(place);
        }
        !self.early
    }

    /// Adds what became of the entry that was passed.
    pub(super) fn add(&mut self, entry: T, bytes: usize) {
        self.entries.push(entry);
        self.bytes += bytes;
    }

    /// Ends where the store did, unless the page was full before.
    pub(super) fn finish(self, reached: Option<K>, done: bool) -> Listed<T, K> {
        let Self { mut entries, backward, passed, early, .. } = self;
        if backward {
            entries.reverse();
        }
        let reached = if early { passed } else { reached };
        Listed { entries, reached, done: done && !early }
    }
}

impl<T> Slice<T> {
    /// Makes the page of a list that has nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { entries: Vec::new(), iterator: None, previous: None, done: true }
    }

    /// Makes something else of each entry.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Slice<U> {
        let Self { entries, iterator, previous, done } = self;
        Slice { entries: entries.into_iter().map(change).collect(), iterator, previous, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entries: &[&str], reached: Option<&str>, done: bool) -> Listed<String, String> {
        let entries = entries.iter().map(|it| (*it).to_owned()).collect();
        Listed { entries, reached: reached.map(str::to_owned), done }
    }

    fn slice(
        wanted: &Wanted,
        listed: Listed<String, String>,
    ) -> (String, Option<String>, Option<String>) {
        let slice = wanted.slice(listed, Clone::clone);
        (slice.entries.join(""), slice.iterator, slice.previous)
    }

    #[test]
    fn a_page_says_where_the_next_begins_and_the_one_before_ends() {
        let forward = Wanted::read(None, None).unwrap();
        let page = slice(&forward, listed(&["a", "b"], Some("b"), false));
        assert_eq!(page, ("ab".to_owned(), Some("b".to_owned()), Some("-a".to_owned())));
        let backward = Wanted::read(Some(2), Some("-c")).unwrap();
        let page = slice(&backward, listed(&["a", "b"], Some("a"), false));
        assert_eq!(page, ("ab".to_owned(), Some("b".to_owned()), Some("-a".to_owned())));
    }

    #[test]
    fn an_empty_page_that_is_not_the_last_says_how_far_it_walked() {
        let forward = Wanted::read(None, None).unwrap();
        assert_eq!(slice(&forward, listed(&[], Some("m"), false)).1, Some("m".to_owned()));
        assert_eq!(slice(&forward, listed(&[], None, true)).1, None);
    }

    #[test]
    fn a_reversed_list_walks_the_other_way() {
        let wanted = Wanted::read(Some(2), Some("c")).unwrap().reversed(true);
        assert_eq!(wanted.by_name().from, From::Before("c".to_owned()));
        assert_eq!(slice(&wanted, listed(&["a", "b"], Some("a"), false)).0, "ba");
        let first = Wanted::read(Some(2), None).unwrap().reversed(true);
        assert_eq!(first.by_name().from, From::Before("\u{10ffff}".to_owned()));
    }

    #[test]
    fn a_limit_of_none_or_too_many_is_refused() {
        for limit in [0, 251, u64::MAX] {
            assert!(Wanted::read(Some(limit), None).is_err(), "{limit}");
        }
    }
}
