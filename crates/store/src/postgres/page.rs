//! Walking an index for a page, chunk by chunk.
//!
//! What is not wanted is passed over while walking, so that one statement serves every filter; the
//! walk ends with the page, with the list, or when it has looked at [`MOST_WALKED`] rows.
//!
//! A chunk is in memory as a whole. So a statement whose rows may be large sums up their bytes as
//! `so_far`, and ends its chunk with the row with which that reaches [`Walk::most_bytes`].

use tokio_postgres::Row;

use crate::Error;
use crate::damage::Notes;
use crate::ledger::MOST_WALKED;
use crate::limits::PAGE_BYTES;
use crate::page::{Direction, Fill, From, Listed, Page, direct};
use crate::postgres::row;

/// How many rows are fetched at a time once the first ones did not fill the page.
const CHUNK: usize = 1_000;
/// How many bytes of rows are fetched at a time; the last row may have more.
const MOST_BYTES: i64 = PAGE_BYTES as i64;

/// A page in the making.
pub(crate) struct Walk<'a, Entry, Id> {
    notes: &'a Notes,
    upwards: bool,
    backwards: bool,
    limit: usize,
    walked: usize,
    bytes: fn(&Entry) -> usize,
    fill: Fill,
    /// How many rows were asked for last, and how many bytes.
    asked: usize,
    most_bytes: i64,
    place: Option<Id>,
    ended: bool,
    listed: Listed<Entry, Id>,
}

impl<'a, Entry, Id: Clone> Walk<'a, Entry, Id> {
    pub(crate) fn new(
        notes: &'a Notes,
        page: Page<Id>,
        (direction, bytes): (Direction, fn(&Entry) -> usize),
    ) -> Self {
        let upwards = direction.is_upwards(&page.from);
        let (place, backwards) = match page.from {
            From::Start => (None, false),
            From::After(id) => (Some(id), false),
            From::Before(id) => (Some(id), true),
        };
        Self {
            notes,
            upwards,
            backwards,
            limit: usize::try_from(page.limit).unwrap_or(usize::MAX),
            walked: 0,
            bytes,
            fill: Fill::default(),
            asked: 0,
            most_bytes: MOST_BYTES,
            place,
            ended: false,
            listed: Listed { entries: Vec::new(), reached: None, done: true },
        }
    }

    /// Writes the way of the walk into a statement, for `{compare}` and `{direction}`.
    pub(crate) fn direct(&self, statement: &str) -> String {
        direct(statement, self.upwards)
    }

    /// Returns behind which row to go on and how many to fetch; nothing if the page is made.
    pub(crate) fn next(&mut self) -> Option<(Option<Id>, i64)> {
        if self.ended {
            return None;
        }
        let most = usize::try_from(MOST_WALKED).unwrap_or(usize::MAX);
        let missing = self.limit.saturating_sub(self.listed.entries.len());
        let rows = if missing == 0 || self.walked >= most {
            // Only to see whether there is anything more.
            1
        } else if self.walked == 0 {
            missing.saturating_add(1).min(most)
        } else {
            CHUNK.min(most - self.walked)
        };
        self.asked = rows;
        Some((self.place.clone(), i64::try_from(rows).unwrap_or(i64::MAX)))
    }

    /// Returns with how many bytes the next chunk ends.
    pub(crate) fn most_bytes(&self) -> i64 {
        self.most_bytes
    }

    /// Takes the rows that were fetched. A row that does not read as what it should be is passed
    /// over and noted.
    pub(crate) fn take(
        &mut self,
        rows: &[Row],
        read: impl Fn(&Row) -> Result<(Id, Option<Entry>), Error>,
    ) -> Result<(), Error> {
        let named = |row| read(row).map_err(|error| row::at_row(row, error));
        let read: Result<Vec<_>, _> =
            rows.iter().map(|row| self.notes.readable(named(row))).collect();
        let so_far = rows.last().and_then(|row| row.try_get::<_, i64>("so_far").ok());
        let is_cut = so_far.is_some_and(|bytes| bytes >= self.most_bytes);
        self.take_read(read?, is_cut);
        Ok(())
    }

    /// Takes what was read; what is not wanted comes without an entry, what is damaged not at all.
    fn take_read(&mut self, rows: Vec<Option<(Id, Option<Entry>)>>, is_cut: bool) {
        let most = usize::try_from(MOST_WALKED).unwrap_or(usize::MAX);
        if rows.len() < self.asked && !is_cut {
            self.ended = true;
        }
        // Damaged rows alone lead no further: the next chunk has to hold more than these.
        let leads_on = rows.iter().any(Option::is_some);
        self.most_bytes = if leads_on { MOST_BYTES } else { self.most_bytes.saturating_mul(4) };
        for row in rows {
            if self.listed.entries.len() >= self.limit || self.walked >= most {
                self.listed.done = false;
                self.ended = true;
                return;
            }
            self.walked += 1;
            let Some((id, entry)) = row else {
                continue;
            };
            if entry.as_ref().is_some_and(|entry| !self.fill.takes((self.bytes)(entry))) {
                self.listed.done = false;
                self.ended = true;
                return;
            }
            self.listed.entries.extend(entry);
            self.listed.reached = Some(id.clone());
            self.place = Some(id);
        }
    }

    /// Returns the page.
    pub(crate) fn finish(mut self) -> Listed<Entry, Id> {
        if self.backwards {
            self.listed.entries.reverse();
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the numbers from 1 to 3,000, of which the multiples of `wanted` are wanted.
    fn page(from: From<i64>, limit: u32, wanted: i64) -> (Listed<i64, i64>, usize) {
        let notes = Notes::default();
        let numbers = (Direction::Ascending, (|_| 0) as fn(&i64) -> usize);
        let mut walk = Walk::new(&notes, Page { from, limit }, numbers);
        let mut fetches = 0;
        while let Some((place, rows)) = walk.next() {
            fetches += 1;
            let rows = usize::try_from(rows).unwrap();
            let entry = |id: i64| Some((id, (id % wanted == 0).then_some(id)));
            let fetched = if walk.upwards {
                (1..=3_000)
                    .filter(|id| place.is_none_or(|place| *id > place))
                    .take(rows)
                    .map(entry)
                    .collect()
            } else {
                (1..=3_000)
                    .rev()
                    .filter(|id| place.is_none_or(|place| *id < place))
                    .take(rows)
                    .map(entry)
                    .collect()
            };
            walk.take_read(fetched, false);
        }
        (walk.finish(), fetches)
    }

    #[test]
    fn a_page_without_filters_takes_one_fetch() {
        let (listed, fetches) = page(From::Start, 3, 1);
        assert_eq!((listed.entries, listed.reached, listed.done), (vec![1, 2, 3], Some(3), false));
        assert_eq!(fetches, 1);
    }

    #[test]
    fn the_last_page_says_so() {
        let (listed, _) = page(From::After(2_998), 2, 1);
        assert_eq!((listed.entries, listed.done), (vec![2_999, 3_000], true));
        let (listed, _) = page(From::After(3_000), 2, 1);
        assert_eq!((listed.entries, listed.reached, listed.done), (vec![], None, true));
    }

    #[test]
    fn a_page_before_an_entry_ends_just_before_it_in_natural_order() {
        let (listed, _) = page(From::Before(10), 3, 1);
        assert_eq!((listed.entries, listed.reached, listed.done), (vec![7, 8, 9], Some(7), false));
        let (listed, _) = page(From::Before(3), 3, 1);
        assert_eq!((listed.entries, listed.done), (vec![1, 2], true));
    }

    #[test]
    fn a_filtered_page_goes_on_fetching_until_it_is_full() {
        let (listed, fetches) = page(From::Start, 2, 900);
        assert_eq!((listed.entries, listed.reached), (vec![900, 1_800], Some(1_800)));
        assert!(!listed.done && fetches == 3, "{fetches}");
        let (listed, _) = page(From::Start, 9, 1_000);
        assert_eq!((listed.entries, listed.done), (vec![1_000, 2_000, 3_000], true));
    }

    #[test]
    fn an_entry_at_the_very_end_of_a_fetch_is_not_taken_for_the_last() {
        let (listed, _) = page(From::Start, 1, 1_002);
        assert_eq!(
            (listed.entries, listed.reached, listed.done),
            (vec![1_002], Some(1_002), false)
        );
    }
}
