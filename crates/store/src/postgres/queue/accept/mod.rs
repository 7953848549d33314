//! The accept lane.
//!
//! A batch is one transaction of a few statements: look at what decides about each item, then write
//! the winners. What other items of the same batch decide is resolved in memory (`rounds`); what
//! other transactions decide, by the unique keys. Losers look again and find the winner.

pub(crate) mod look;
mod write;

use domain::ids::MessageId;

use crate::Error;
use crate::damage::Notes;
use crate::postgres::failure::{Failure, said};
use crate::postgres::io::gate;
use crate::postgres::io::link::{Pool, Transaction};
use crate::postgres::io::partitions::Partitions;
use crate::postgres::io::rounds::Rounds;
use crate::postgres::queue::accept::look::{Seen, Used};
use crate::postgres::queue::batch::{Again, Parts};
use crate::queue::{Accept, Accepted, FirstState, NewDelivery};

/// How many more rounds than items a transaction may take before somebody has to look at it.
const SPARE_ROUNDS: usize = 16;

/// Accepts a batch. Returns the answers, and the partitions that have new work.
pub(crate) async fn commit(
    pool: &Pool,
    notes: &Notes,
    accepts: &[Accept],
) -> Result<(Vec<Accepted>, Partitions), Failure> {
    let mut answers = vec![Accepted::ApplicationMissing; accepts.len()];
    let mut parts = Parts::of(accepts.len());
    while let Some(part) = parts.next() {
        match repeat(pool, notes, &accepts[part.clone()]).await {
            Ok(accepted) => answers[part].clone_from_slice(&accepted),
            Err(Failure::Data { source, .. }) => {
                if let Some(bad) = parts.split(part) {
                    answers[bad] = Accepted::Refused(said(&source));
                }
            }
            Err(Failure::Slow(_)) if parts.cut(&part) => {}
            Err(failure) => return Err(failure),
        }
    }
    let touched = touched(accepts, &answers);
    Ok((answers, touched))
}

/// Repeats after conflicts and lost connections. What had taken effect all the same is recognised
/// by its ids.
async fn repeat(pool: &Pool, notes: &Notes, accepts: &[Accept]) -> Result<Vec<Accepted>, Failure> {
    let mut again = Again::default();
    loop {
        let mut transaction = again.begin(pool).await?;
        gate::pass(&mut transaction, accepts.iter().map(|accept| accept.application));
        let result = answer(&mut transaction, notes, accepts).await;
        match transaction.end(result).await {
            Err(failure) if again.after(&failure).await => {}
            result => return result,
        }
    }
}

async fn answer(
    transaction: &mut Transaction<'_>,
    notes: &Notes,
    accepts: &[Accept],
) -> Result<Vec<Accepted>, Failure> {
    let mut rounds = Rounds::new(accepts);
    let mut numbered = Vec::new();
    for _ in 0..accepts.len() + SPARE_ROUNDS {
        let round = rounds.next();
        if round.is_empty() {
            return Ok(rounds.finish());
        }
        // All numbers are taken at once, so that keys and turns follow the order of the batch
        // whatever the order of the rounds.
        let missing = if numbered.is_empty() { numbers(accepts) } else { 0 };
        let (seen, taken) = look::look(transaction, accepts, &round, missing).await?;
        if missing > 0 {
            numbered = assign(accepts, taken);
        }
        let mut winners = Vec::new();
        for (position, seen) in round.into_iter().zip(seen) {
            rounds.bears(position, seen.uid.as_deref());
            match decide(notes, &accepts[position], seen)? {
                Decision::Answer(answer) => rounds.answer(position, answer),
                Decision::Repeated(first) => rounds.repeated(position, first),
                Decision::Own(message) => {
                    let answer = look::own(transaction, &accepts[position], message).await?;
                    rounds.answer(position, answer);
                }
                Decision::Write => winners.push(position),
            }
        }
        for (position, answer) in write::write(transaction, &numbered, &winners).await? {
            rounds.answer(position, answer);
        }
    }
    let text = "messages with the same keys kept getting in each other's way".to_owned();
    Err(Error::Unavailable { text, source: None }.into())
}

/// A message with its key, and its deliveries with their turns.
struct Numbered<'a> {
    accept: &'a Accept,
    key: i64,
    turns: Vec<i64>,
}

/// Returns how many numbers of the sequence a batch takes at the most.
fn numbers(accepts: &[Accept]) -> usize {
    let numbered = |accept: &Accept| {
        let now = accept.message.received_at;
        accept.deliveries.iter().filter(|delivery| delivery.turn(now).is_none()).count()
    };
    accepts.iter().map(|accept| 1 + numbered(accept)).sum()
}

fn assign(accepts: &[Accept], numbers: Vec<i64>) -> Vec<Numbered<'_>> {
    let mut numbers = numbers.into_iter();
    let mut next = || numbers.next().unwrap_or_default();
    let numbered = accepts.iter().map(|accept| {
        let key = next();
        let now = accept.message.received_at;
        let turn = |one: &NewDelivery| one.turn(now).unwrap_or_else(&mut next);
        let turns = accept.deliveries.iter().map(turn).collect();
        Numbered { accept, key, turns }
    });
    numbered.collect()
}

enum Decision {
    Answer(Accepted),
    Repeated(Used),
    Own(crate::keys::MessageKey),
    Write,
}

/// Decides about one item, in the order of checks that all stores share.
fn decide(notes: &Notes, accept: &Accept, seen: Seen) -> Result<Decision, Error> {
    let Some(revision) = seen.revision else {
        return Ok(Decision::Answer(Accepted::ApplicationMissing));
    };
    if let Some(message) = seen.own {
        return Ok(Decision::Own(message));
    }
    if accept.named.is_some() && accept.named.as_deref() != seen.uid.as_deref() {
        return Ok(Decision::Answer(Accepted::NameMoved));
    }
    if let Some(decision) = earlier(notes, seen.same_key, seen.same_event_id)? {
        return Ok(decision);
    }
    let answer = if revision != accept.revision {
        Accepted::Stale(revision)
    } else if let Some(endpoint) = seen.unknown_endpoint {
        Accepted::Refused(format!("endpoint {endpoint} is not there"))
    } else if has_nul(accept) {
        Accepted::Refused("PostgreSQL keeps no text with a NUL character".to_owned())
    } else {
        return Ok(Decision::Write);
    };
    Ok(Decision::Answer(answer))
}

/// Answers an item that collides with an earlier one. If that cannot be read, nobody knows whether the
/// item is a repetition: it is refused, and nothing else of the batch is.
fn earlier(
    notes: &Notes,
    same_key: Result<Option<Used>, Error>,
    same_event_id: Result<Option<MessageId>, Error>,
) -> Result<Option<Decision>, Error> {
    let damaged = || Accepted::Refused("what it collides with cannot be read".to_owned());
    let answer = match notes.readable(same_key)? {
        None => Some(damaged()),
        Some(Some(first)) => return Ok(Some(Decision::Repeated(first))),
        Some(None) => match notes.readable(same_event_id)? {
            None => Some(damaged()),
            Some(taken) => taken.map(Accepted::EventIdTaken),
        },
    };
    Ok(answer.map(Decision::Answer))
}

fn has_nul(accept: &Accept) -> bool {
    let message = &accept.message;
    let options = [&message.event_id, &message.content_type, &message.policy];
    let texts = options.into_iter().flatten().chain(&message.channels);
    texts.chain([&message.event_type]).any(|text| text.contains('\0'))
}

/// Returns the partitions of what is to be sent.
fn touched(accepts: &[Accept], answers: &[Accepted]) -> Partitions {
    let written = accepts.iter().zip(answers).filter(|(_, answer)| match answer {
        Accepted::New { .. } => true,
        Accepted::Repeated(_)
        | Accepted::EventIdTaken(_)
        | Accepted::Stale(_)
        | Accepted::ApplicationMissing
        | Accepted::NameMoved
        | Accepted::Refused(_) => false,
    });
    let deliveries = written.flat_map(|(accept, _)| &accept.deliveries);
    let pending = deliveries.filter(|delivery| match delivery.state {
        FirstState::Pending(_) => true,
        FirstState::Dead(_) => false,
    });
    pending.map(|delivery| delivery.partition).collect()
}
