//! Pages of a list, for every kind of row alike.

use crate::ledger::MOST_WALKED;
use crate::page::{Direction, From, Listed, Page};

/// Walks rows that are given by ascending id, and keeps those that `keep` makes an entry of.
pub(super) fn page<Id: Ord + Clone, Row, Entry>(
    rows: impl DoubleEndedIterator<Item = (Id, Row)>,
    direction: Direction,
    page: &Page<Id>,
    keep: impl Fn(&Id, Row) -> Option<Entry>,
) -> Listed<Entry, Id> {
    let backwards = matches!(page.from, From::Before(_));
    let upwards = direction.is_upwards(&page.from);
    let ahead = |id: &Id| match &page.from {
        From::Start => true,
        From::After(start) | From::Before(start) if upwards => id > start,
        From::After(start) | From::Before(start) => id < start,
    };
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let most = usize::try_from(MOST_WALKED).unwrap_or(usize::MAX);
    let mut rows: Box<dyn Iterator<Item = (Id, Row)> + '_> =
        if upwards { Box::new(rows) } else { Box::new(rows.rev()) };
    let mut listed = Listed { entries: Vec::new(), reached: None, done: true };
    for (walked, (id, row)) in rows.by_ref().filter(|(id, _)| ahead(id)).enumerate() {
        if walked == most || listed.entries.len() == limit {
            listed.done = false;
            break;
        }
        listed.entries.extend(keep(&id, row));
        listed.reached = Some(id);
    }
    if backwards {
        listed.entries.reverse();
    }
    listed
}
