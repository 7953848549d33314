//! A batch: all of it in one transaction, and an answer for each of its items.
//!
//! Usually nothing tells the items apart, and what one of them meets would fail all. If that is a row
//! or a page that cannot be read, the batch is written again without whoever needs it. SQLite commits
//! nothing of a transaction that has met such a page, so that savepoints would not do.

use std::collections::BTreeMap;

use crate::Error;
use crate::damage::Damage;
use crate::queue::{Accepted, Batch, Committed, Done, Settle, Settled};
use crate::sqlite::io::hot::Hot;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::queue::{accept, settle};
use crate::sqlite::{failure, upkeep};

/// Items that are left out, by their place in the batch, and what they met.
#[derive(Default)]
struct LeftOut {
    accepts: BTreeMap<usize, Error>,
    settles: BTreeMap<usize, Error>,
    upkeep: BTreeMap<usize, Error>,
}

impl LeftOut {
    fn count(&self) -> usize {
        self.accepts.len() + self.settles.len() + self.upkeep.len()
    }
}

/// Writes a batch.
pub(crate) fn write(writing: &mut Writing<'_>, batch: &Batch) -> Result<Committed, Error> {
    match write_all(writing, batch) {
        Err(error) if failure::is_damage(&error) => write_what_can_be(writing, batch),
        committed => committed,
    }
}

fn write_all(writing: &mut Writing<'_>, batch: &Batch) -> Result<Committed, Error> {
    let mut committed = Committed::default();
    let mut hot = Hot::find(writing.connection)?;
    for item in &batch.accepts {
        committed.accepts.push(accept::accept(writing, &mut hot, item)?);
    }
    for item in &batch.settles {
        committed.settles.push(settle::settle(writing, &mut hot, item)?);
    }
    for step in &batch.upkeep {
        committed.upkeep.push(upkeep::keep_up_alone(writing, step)?);
    }
    Ok(committed)
}

/// Writes a batch without those of its items that cannot be written. The first time around finds nearly
/// all of them, and each further one leaves out more.
fn write_what_can_be(writing: &mut Writing<'_>, batch: &Batch) -> Result<Committed, Error> {
    let mut left_out = LeftOut::default();
    loop {
        writing.begin_again()?;
        let before = left_out.count();
        let committed = write_others(writing, batch, &mut left_out)?;
        if left_out.count() == before {
            note(writing, batch, &left_out);
            return Ok(committed);
        }
    }
}

/// Writes what is not left out. Whoever meets something that cannot be read is left out next time: what
/// was written before it is taken back.
fn write_others(
    writing: &mut Writing<'_>,
    batch: &Batch,
    left_out: &mut LeftOut,
) -> Result<Committed, Error> {
    let accepts = each(writing, &batch.accepts, &mut left_out.accepts, accept::accept)?;
    let settles = each(writing, &batch.settles, &mut left_out.settles, settle::settle)?;
    let keep_up =
        |writing: &mut Writing<'_>, _: &mut Hot<'_>, step: &_| upkeep::keep_up_alone(writing, step);
    let upkeep = each(writing, &batch.upkeep, &mut left_out.upkeep, keep_up)?;
    let accepts = accepts.into_iter().map(|it| it.unwrap_or_else(Accepted::Refused)).collect();
    let settles = settles.into_iter().map(|it| it.unwrap_or(Settled::Refused)).collect();
    let upkeep = upkeep.into_iter().map(|it| it.unwrap_or_else(Done::Refused)).collect();
    Ok(Committed { accepts, settles, upkeep })
}

/// Does the same with each of some items, and returns for those that are left out what they met.
fn each<I, A>(
    writing: &mut Writing<'_>,
    items: &[I],
    left_out: &mut BTreeMap<usize, Error>,
    mut work: impl FnMut(&mut Writing<'_>, &mut Hot<'_>, &I) -> Result<A, Error>,
) -> Result<Vec<Result<A, String>>, Error> {
    let mut hot = Hot::find(writing.connection)?;
    let mut answers = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if let Some(error) = left_out.get(&place) {
            answers.push(Err(error.to_string()));
            continue;
        }
        match work(writing, &mut hot, item) {
            Ok(answer) => answers.push(Ok(answer)),
            Err(error) if failure::is_damage(&error) => {
                writing.begin_again()?;
                answers.push(Err(error.to_string()));
                left_out.insert(place, error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

/// Notes which attempts could not be recorded: the answer to a settle has no words for it.
fn note(writing: &Writing<'_>, batch: &Batch, left_out: &LeftOut) {
    for (place, error) in &left_out.settles {
        if let Some(Settle { key, .. }) = batch.settles.get(*place) {
            let (endpoint, message) = (key.endpoint.0, key.message.0);
            let what = format!("what a settle of endpoint {endpoint}, message {message} needs");
            writing.notes.note(Damage { what, text: error.to_string() });
        }
    }
}
