//! A batch on its way through the database: in which parts, and how often it is tried.

use std::ops::Range;
use std::time::Duration;

use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction};

/// Into how many parts a batch is cut that took too long. Each try that does costs a third of the time
/// there is to answer: what the third one is about has to be little.
const PIECES: usize = 8;

/// A batch on its way through the database, in parts. If one item is bad, halves are tried until it
/// is alone, and the others go on.
pub(crate) struct Parts(Vec<Range<usize>>);

impl Parts {
    /// Begins with the whole, unless there is nothing.
    pub(crate) fn of(items: usize) -> Self {
        Self(std::iter::once(0..items).filter(|whole| !whole.is_empty()).collect())
    }

    /// Returns what is to be tried next; nothing if all was.
    pub(crate) fn next(&mut self) -> Option<Range<usize>> {
        self.0.pop()
    }

    /// Takes back a part that the database refused, or returns the one item that it consists of.
    pub(crate) fn split(&mut self, part: Range<usize>) -> Option<usize> {
        if part.len() == 1 {
            return Some(part.start);
        }
        let middle = part.start + part.len() / 2;
        self.0.push(middle..part.end);
        self.0.push(part.start..middle);
        None
    }

    /// Takes back a part that took too long, in pieces; tells whether there are any.
    pub(crate) fn cut(&mut self, part: &Range<usize>) -> bool {
        if part.len() <= 1 {
            return false;
        }
        let size = part.len().div_ceil(PIECES);
        let starts = part.clone().step_by(size);
        self.0.extend(starts.map(|start| start..part.end.min(start + size)).rev());
        true
    }
}

/// How often a lane repeats a batch that met a conflict or lost its connection.
const REPEATS: u32 = 5;
/// The first wait before a repetition; each is twice as long as the one before, up to so many times.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 5;

/// Counts the repetitions of a batch. Once a commit of it was not answered, it is repeated for as long
/// as there is somebody to answer to: only a repetition tells what became of it, and a server that
/// restarts is not there for a while.
#[derive(Default)]
pub(crate) struct Again {
    times: u32,
    unknown: bool,
}

impl Again {
    /// Begins the next try.
    pub(crate) async fn begin<'a>(&mut self, pool: &'a Pool) -> Result<Transaction<'a>, Failure> {
        loop {
            match pool.begin(Access::Write).await {
                Err(_) if self.unknown => self.wait().await,
                begun => return begun,
            }
        }
    }

    /// Tells whether to repeat after this failure, and waits before that.
    pub(crate) async fn after(&mut self, failure: &Failure) -> bool {
        let repeats = match failure {
            Failure::Unknown(_) => {
                self.unknown = true;
                true
            }
            Failure::Lost(_) | Failure::Conflict(_) => self.unknown || self.times < REPEATS,
            Failure::Slow(_) | Failure::Data { .. } | Failure::Final(_) => false,
        };
        if repeats {
            self.wait().await;
        }
        repeats
    }

    async fn wait(&mut self) {
        tokio::time::sleep(FIRST_WAIT * 2_u32.pow(self.times.min(DOUBLINGS))).await;
        self.times = self.times.saturating_add(1);
    }

    /// Tells whether this is a repetition.
    pub(super) const fn is_repetition(&self) -> bool {
        self.times > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_item_is_found_and_the_others_are_tried_in_their_order() {
        let (mut parts, mut good, mut bad) = (Parts::of(9), Vec::new(), Vec::new());
        while let Some(part) = parts.next() {
            if part.contains(&3) || part.contains(&8) {
                bad.extend(parts.split(part));
            } else {
                good.extend(part);
            }
        }
        assert_eq!((bad, good), (vec![3, 8], vec![0, 1, 2, 4, 5, 6, 7]));
        assert_eq!(Parts::of(0).next(), None);
    }

    #[test]
    fn what_takes_too_long_is_tried_in_pieces_and_in_its_order() {
        let (mut parts, mut done) = (Parts::of(100), Vec::new());
        while let Some(part) = parts.next() {
            if part.len() > 5 {
                assert!(parts.cut(&part));
            } else {
                assert!(part.len() > 1 || !parts.cut(&part));
                done.extend(part);
            }
        }
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }
}
