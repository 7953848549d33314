//! Lists as they are asked for and answered: by a limit and an iterator, in both directions.
//!
//! An iterator is the id of the last entry seen; with a minus in front of it the page before that
//! entry is meant. Where entries have no id of their own, `places` makes one. The store walks in one
//! natural order; a list in the opposite order is the same walk the other way, turned around.

use std::fmt::Display;

use domain::ids::{Id, Noun};
pub use store::limits::PAGE_BYTES;
pub use store::page::Fill;
use store::page::{From, Listed, Page};

use super::Error;

/// How many entries a page has if nobody says.
pub const USUAL: u32 = 50;
/// The most entries a page may have.
pub const MOST: u32 = 250;

/// A text behind all names: none begins with anything beyond ASCII.
pub(super) const BEHIND_ALL: &str = "\u{10ffff}";

/// In which order a list shows its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Smallest id or name first.
    Ascending,
    /// Largest first.
    Descending,
}

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
    /// The iterator of each entry.
    places: Vec<String>,
    /// Whether the page ends just before what its iterator names.
    backward: bool,
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

    /// Turns a list around whose natural order is another one than is wanted.
    #[must_use]
    pub fn ordered(self, natural: Order, wanted: Option<Order>) -> Self {
        Self { reversed: wanted.is_some_and(|wanted| wanted != natural), ..self }
    }

    /// Begins at the end of the list if no iterator says where: its last page comes first.
    #[must_use]
    pub fn ending_before(self, id: Option<String>) -> Self {
        match (&self.from, id) {
            (From::Start, Some(id)) => Self { from: From::Before(id), ..self },
            _ => self,
        }
    }

    /// Returns the page for a list by id, of a natural order.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub fn by_id<N: Noun>(&self, natural: Order) -> Result<Page<Id<N>>, Error> {
        let end = match natural {
            Order::Ascending => [0xff; 20],
            Order::Descending => [0; 20],
        };
        self.by(|text| text.parse().ok(), Id::from_bytes(end))
    }

    /// Returns the page for a list by something else that has a text. Behind `end` there is nothing.
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
        let places: Vec<_> = entries.iter().map(id).collect();
        let (first, last) = (places.first().cloned(), places.last().cloned());
        let backward = matches!(self.from, From::Before(_));
        // What was walked over lies between a page without entries and the next ones, both ways.
        let reached = reached.map(|reached| reached.to_string());
        let on = reached.clone().filter(|_| !done);
        let (iterator, previous) = match self.from {
            From::Start | From::After(_) => (on.or(last), first.or(reached)),
            From::Before(_) => (last.or(reached), on.or(first)),
        };
        let previous = previous.map(backwards);
        Slice { entries, iterator, previous, done, places, backward }
    }
}

/// Writes an iterator that means the page before a place.
fn backwards(place: String) -> String {
    format!("-{place}")
}

/// A page that is put together entry by entry, with something that is read for each, and ends before it has
/// too many bytes.
pub(super) struct Filling<T, K> {
    entries: Vec<T>,
    fill: Fill,
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
        let fill = Fill::default();
        Self { entries: Vec::new(), fill, backward, passed: None, early: false }
    }

    /// Puts what the store listed into the order of the walk.
    pub(super) fn ordered<U>(&self, mut entries: Vec<U>) -> Vec<U> {
        if self.backward {
            entries.reverse();
        }
        entries
    }

    /// Passes an entry over.
    pub(super) fn pass(&mut self, place: K) {
        self.passed = Some(place);
    }

    /// Adds what became of an entry, and tells whether it had room; otherwise the page ends before it.
    pub(super) fn add(&mut self, place: K, entry: T, bytes: usize) -> bool {
        self.early = !self.fill.takes(bytes);
        if !self.early {
            self.entries.push(entry);
            self.passed = Some(place);
        }
        !self.early
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
        let (entries, places) = (Vec::new(), Vec::new());
        Self { entries, iterator: None, previous: None, done: true, places, backward: false }
    }

    /// Makes something else of each entry.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Slice<U> {
        let Self { entries, iterator, previous, done, places, backward } = self;
        let entries = entries.into_iter().map(change).collect();
        Slice { entries, iterator, previous, done, places, backward }
    }

    /// Makes something else of each entry, as long as that has room, and leaves the others to the next
    /// page.
    ///
    /// # Errors
    /// If nothing can be made of an entry.
    pub fn within<U, E>(
        self,
        mut fill: Fill,
        mut show: impl FnMut(T) -> Result<U, E>,
        bytes: impl Fn(&U) -> usize,
    ) -> Result<Slice<U>, E> {
        let Self { mut entries, mut iterator, mut previous, mut done, mut places, backward } = self;
        let count = entries.len();
        if backward {
            entries.reverse();
        }
        let mut kept = Vec::with_capacity(count);
        for entry in entries {
            let shown = show(entry)?;
            if !fill.takes(bytes(&shown)) {
                break;
            }
            kept.push(shown);
        }
        if backward {
            kept.reverse();
            places.drain(..count - kept.len());
        } else {
            places.truncate(kept.len());
        }
        if kept.len() < count {
            done = false;
            if backward {
                previous = places.first().cloned().map(backwards);
            } else {
                iterator = places.last().cloned();
            }
        }
        Ok(Slice { entries: kept, iterator, previous, done, places, backward })
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::noun;

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
    fn an_empty_page_says_how_far_it_walked_in_both_directions() {
        let (m, back) = (Some("m".to_owned()), Some("-m".to_owned()));
        let nothing = String::new();
        let forward = Wanted::read(None, Some("c")).unwrap();
        let page = slice(&forward, listed(&[], Some("m"), false));
        assert_eq!(page, (nothing.clone(), m.clone(), back.clone()));
        let page = slice(&forward, listed(&[], Some("m"), true));
        assert_eq!(page, (nothing.clone(), None, back.clone()));
        assert_eq!(slice(&forward, listed(&[], None, true)), (nothing.clone(), None, None));
        let backward = Wanted::read(None, Some("-z")).unwrap();
        let page = slice(&backward, listed(&[], Some("m"), false));
        assert_eq!(page, (nothing.clone(), m.clone(), back));
        let page = slice(&backward, listed(&[], Some("m"), true));
        assert_eq!(page, (nothing, m, None));
    }

    #[test]
    fn a_reversed_list_walks_the_other_way() {
        let up = |iterator| {
            let wanted = Wanted::read(Some(2), iterator).unwrap();
            wanted.ordered(Order::Descending, Some(Order::Ascending))
        };
        let from = |wanted: Wanted| wanted.by(|text| Some(text.to_owned()), String::new());
        assert_eq!(from(up(Some("c"))).unwrap().from, From::Before("c".to_owned()));
        assert_eq!(from(up(Some("-c"))).unwrap().from, From::After("c".to_owned()));
        assert_eq!(slice(&up(Some("c")), listed(&["a", "b"], Some("a"), false)).0, "ba");
        // It begins where the list ends.
        assert_eq!(from(up(None)).unwrap().from, From::Before(String::new()));
        let first = up(None).by_id::<noun::Endpoint>(Order::Descending).unwrap();
        assert_eq!(first.from, From::Before(Id::from_bytes([0; 20])));
        let down = Wanted::read(None, None).unwrap();
        let down = down.ordered(Order::Ascending, Some(Order::Descending));
        let first = down.by_id::<noun::Endpoint>(Order::Ascending).unwrap();
        assert_eq!(first.from, From::Before(Id::from_bytes([0xff; 20])));
        assert!(up(Some("c")).by_id::<noun::Endpoint>(Order::Descending).is_err());
    }

    #[test]
    fn a_page_that_shows_too_much_is_cut_where_it_leads_on() {
        let cut = |iterator: Option<&str>, done| {
            let wanted = Wanted::read(None, iterator).unwrap();
            let reached = if wanted.from == From::Start { "d" } else { "a" };
            let slice =
                wanted.slice(listed(&["a", "b", "c", "d"], Some(reached), done), Clone::clone);
            let show = |entry: String| Ok::<_, ()>(entry.repeat(2));
            let cut = slice.within(Fill::up_to(5), show, String::len).unwrap();
            (cut.entries.join(" "), cut.iterator.unwrap(), cut.previous.unwrap(), cut.done)
        };
        let page = |entries: &str, iterator: &str, previous: &str| {
            (entries.to_owned(), iterator.to_owned(), previous.to_owned(), false)
        };
        for done in [false, true] {
            assert_eq!(cut(None, done), page("aa bb", "b", "-a"));
            assert_eq!(cut(Some("-e"), done), page("cc dd", "d", "-c"));
        }
    }

    #[test]
    fn a_limit_of_none_or_too_many_is_refused() {
        for limit in [0, 251, u64::MAX] {
            assert!(Wanted::read(Some(limit), None).is_err(), "{limit}");
        }
    }
}
