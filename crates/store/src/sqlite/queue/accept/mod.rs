//! Accepting: three or four inserts for a message, and no reads unless something is in its way.
//!
//! The message is inserted first. If its id or its event id is taken, nothing happens, and only
//! then is it looked up what was there before. The idempotency key comes next; if it is taken, the
//! message is removed again. Nothing that follows can fail for the message's own sake. If what was
//! there before cannot be read, this message is refused and the others of the batch go on.

mod look;
pub(crate) mod write;

use crate::Error;
use crate::keys::{EndpointKey, MessageKey};
use crate::queue::{Accept, Accepted};
use crate::sqlite::failure::is_about_the_item;
use crate::sqlite::io::hot::Hot;
use crate::sqlite::io::writer::Writing;

pub(crate) fn accept(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    accept: &Accept,
) -> Result<Accepted, Error> {
    let connection = writing.connection;
    let Some(known) = writing.memo.application(connection, accept.application)? else {
        return Ok(Accepted::ApplicationMissing);
    };
    if accept.named.is_some() && accept.named != known.uid {
        // A batch that is given again finds its own message whatever it is called by now.
        return Ok(look::own(connection, accept)?.unwrap_or(Accepted::NameMoved));
    }
    let hindrance = if known.revision == accept.revision {
        unknown_endpoint(writing, accept)?
    } else {
        Some(Accepted::Stale(known.revision))
    };
    if let Some(hindrance) = hindrance {
        // What was accepted before counts, whatever has changed since.
        return Ok(earlier(writing, accept)?.unwrap_or(hindrance));
    }
    let number = writing.memo.next_in_sequence(connection)?;
    match write::insert_message(&mut hot.message, number, accept) {
        Ok(0) => {}
        Ok(_) => match accept.idempotency {
            Some(hash) if write::insert_key(connection, accept, &hash)? == 0 => {
                write::remove_message(connection, number)?;
            }
            Some(_) | None => return new(writing, hot, number, accept),
        },
        Err(error) if is_about_the_item(&error) => {
            writing.memo.take_back(number);
            return Ok(Accepted::Refused(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    }
    writing.memo.take_back(number);
    let conflict = || Accepted::Refused("it collides with a message that is not there".to_owned());
    Ok(earlier(writing, accept)?.unwrap_or_else(conflict))
}

fn unknown_endpoint(writing: &mut Writing<'_>, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let mut seen: Vec<_> = accept.deliveries.iter().map(|delivery| delivery.endpoint).collect();
    let application = accept.application;
    if let Some(unknown) = writing.memo.unknown(writing.connection, application, &seen)? {
        return Ok(Some(Accepted::Refused(format!("endpoint {} is not there", unknown.0))));
    }
    seen.sort_unstable();
    let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
    let text = |pair: &[EndpointKey]| format!("endpoint {} is named twice", pair[0].0);
    Ok(twice.map(|pair| Accepted::Refused(text(pair))))
}

fn new(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    number: i64,
    accept: &Accept,
) -> Result<Accepted, Error> {
    let mut turns = Vec::with_capacity(accept.deliveries.len());
    for delivery in &accept.deliveries {
        let turn = match delivery.turn(accept.message.received_at) {
            Some(turn) => turn,
            None => writing.memo.next_in_sequence(writing.connection)?,
        };
        write::insert_delivery(&mut hot.delivery, (number, turn), accept, delivery)?;
        turns.push(turn);
    }
    Ok(Accepted::New { message: MessageKey(number), turns })
}

/// Finds what the message collides with. If that cannot be read, nobody knows whether the message is
/// a repetition: it is refused, and nothing else of the batch is.
fn earlier(writing: &Writing<'_>, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let found = writing.notes.readable(look::find_earlier(writing.connection, accept))?;
    let damaged = || Accepted::Refused("what it collides with cannot be read".to_owned());
    Ok(found.unwrap_or_else(|| Some(damaged())))
}
