//! Writing the winners: idempotency key, message and deliveries, or none of them.

use std::collections::BTreeSet;

use domain::delivery::Budget;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::keys::MessageKey;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{Column, column, int8, parameters, text_array};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions::number;
use crate::postgres::queue::accept::Numbered;
use crate::postgres::row::{field, write as document};
use crate::queue::{Accept, Accepted, FirstState, NewDelivery};
use crate::{codes, limits};

/// The one statement that writes.
///
/// Indexes: the primary key of idempotency and the unique indexes of messages decide who wins. Rows
/// go in sorted by them, so that two nodes wait for each other in one direction only.
const STATEMENT: &str = "\
    with input as materialized ( \
        select * \
        from unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::text[], \
                    $7::text[], $8::bigint[], $9::bigint[], $10::bytea[], $11::text[], \
                    $12::bytea[], $13::bigint[], $27::bigint[], $28::bigint[]) \
            i (application, id, event_type, event_id, channels, content_type, policy, received_at, \
               retained_until, hash, fan_out, payload, key, deliver_at, only_endpoint)), \
    keys as ( \
        insert into idempotency as k (application, hash, message, received_at) \
        select application, hash, id, received_at from input where hash is not null \
        order by application, hash \
        on conflict (application, hash) do update \
        set message = excluded.message, received_at = excluded.received_at \
        where excluded.received_at - k.received_at >= $26 \
        returning application, hash), \
    written as ( \
        insert into messages (application, key, id, event_type, event_id, channels, \
            content_type, policy, received_at, retained_until, idempotency, fan_out, payload, \
            deliver_at, only_endpoint) \
        select application, key, id, event_type, event_id, channels::jsonb, content_type, \
            policy, received_at, retained_until, hash, fan_out::bigint[], payload, deliver_at, \
            only_endpoint \
        from input \
        where hash is null or (application, hash) in (select application, hash from keys) \
        order by application, event_id, id \
        on conflict do nothing \
        returning application, key, received_at), \
    sent as ( \
        insert into deliveries (application, endpoint, message, partition, ordering, state, \
            cause, due, turn, attempts, ambiguous, last_wait, expires_at, recorded, settled_at) \
        select written.application, d.endpoint, written.key, d.partition, d.ordering, d.state, \
            d.cause, d.due, d.turn, d.attempts, d.ambiguous, d.last_wait, d.expires_at, 0, \
            case when d.state <> 0 then written.received_at end \
        from unnest($14::bigint[], $15::bigint[], $16::smallint[], $17::smallint[], \
                    $18::smallint[], $19::smallint[], $20::bigint[], $21::bigint[], \
                    $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[]) \
            d (message, endpoint, partition, ordering, state, cause, due, turn, attempts, \
               ambiguous, last_wait, expires_at) \
        join written on written.key = d.message) \
    select key from written";

/// Writes these items of a batch. Those that lost a race for one of their keys are not answered.
pub(crate) async fn write(
    transaction: &mut Transaction<'_>,
    numbered: &[Numbered<'_>],
    winners: &[usize],
) -> Result<Vec<(usize, Accepted)>, Failure> {
    if winners.is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<&Numbered<'_>> = winners.iter().map(|position| &numbered[*position]).collect();
    let deliveries = deliveries(&items);
    let mut columns = messages(&items)?;
    columns.extend(delivery_columns(&deliveries));
    columns.push(int8(codes::micros(limits::IDEMPOTENCY)));
    columns.push(column(&items, Type::INT8_ARRAY, |item| {
        item.accept.message.deliver_at.map(Timestamp::as_micros)
    }));
    columns.push(column(&items, Type::INT8_ARRAY, |item| {
        item.accept.message.only.map(|endpoint| endpoint.0)
    }));
    let rows = transaction.query(STATEMENT, &parameters(&columns)).await?;
    let written = rows.iter().map(|row| field(row, "key"));
    let written: BTreeSet<i64> = written.collect::<Result<_, _>>()?;
    let lost = items.iter().filter(|item| !written.contains(&item.key));
    undo_keys(transaction, &lost.map(|item| item.accept).collect::<Vec<_>>()).await?;
    let won = winners.iter().zip(&items).filter(|(_, item)| written.contains(&item.key));
    let answers = won.map(|(position, item)| {
        let (message, turns) = (MessageKey(item.key), item.turns.clone());
        (*position, Accepted::New { message, turns })
    });
    Ok(answers.collect())
}

/// Removes the keys of items whose message lost a race for its event id: nothing of them stays. An
/// item whose message is there by now lost to its own first try, whose commit was not answered: the
/// key is that one's, and stays.
///
/// Indexes: the primary key of idempotency, messages_id.
async fn undo_keys(transaction: &mut Transaction<'_>, lost: &[&Accept]) -> Result<(), Failure> {
    let lost: Vec<&Accept> =
        lost.iter().copied().filter(|item| item.idempotency.is_some()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let statement = "\
        delete from idempotency k \
        using unnest($1::bigint[], $2::bytea[], $3::bytea[]) i (application, hash, id) \
        where k.application = i.application and k.hash = i.hash and k.message = i.id \
          and not exists ( \
              select 1 from messages m where m.application = i.application and m.id = i.id)";
    let columns = [
        column(&lost, Type::INT8_ARRAY, |item| item.application.0),
        column(&lost, Type::BYTEA_ARRAY, |item| item.idempotency.as_ref().map(|k| k.as_slice())),
        column(&lost, Type::BYTEA_ARRAY, |item| item.message.id.as_bytes().as_slice()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

fn messages<'a>(items: &'a [&'a Numbered<'a>]) -> Result<Vec<Column<'a>>, Failure> {
    let channels: Vec<String> = items
        .iter()
        .map(|item| document("channels", &item.accept.message.channels))
        .collect::<Result<_, _>>()?;
    Ok(vec![
        column(items, Type::INT8_ARRAY, |item| item.accept.application.0),
        column(items, Type::BYTEA_ARRAY, |item| item.accept.message.id.as_bytes().as_slice()),
        column(items, Type::TEXT_ARRAY, |item| item.accept.message.event_type.as_str()),
        column(items, Type::TEXT_ARRAY, |item| item.accept.message.event_id.as_deref()),
        text_array(channels),
        column(items, Type::TEXT_ARRAY, |item| item.accept.message.content_type.as_deref()),
        column(items, Type::TEXT_ARRAY, |item| item.accept.message.policy.as_deref()),
        column(items, Type::INT8_ARRAY, |item| item.accept.message.received_at.as_micros()),
        column(items, Type::INT8_ARRAY, |item| item.accept.message.retained_until.as_micros()),
        column(items, Type::BYTEA_ARRAY, |item| {
            item.accept.idempotency.as_ref().map(|k| k.as_slice())
        }),
        column(items, Type::TEXT_ARRAY, |item| fan_out(&item.accept.deliveries)),
        column(items, Type::BYTEA_ARRAY, |item| item.accept.message.payload.as_ref()),
        column(items, Type::INT8_ARRAY, |item| item.key),
    ])
}

/// Writes an array as text: arrays of arrays do not unnest.
fn fan_out(deliveries: &[NewDelivery]) -> String {
    let keys: Vec<String> = deliveries.iter().map(|d| d.endpoint.0.to_string()).collect();
    format!("{{{}}}", keys.join(","))
}

/// A delivery with its message's key and its turn.
struct Placed<'a> {
    message: i64,
    delivery: &'a NewDelivery,
    turn: i64,
}

impl Placed<'_> {
    fn state(&self) -> (i16, Option<i16>) {
        match self.delivery.state {
            FirstState::Pending(_) => (codes::PENDING, None),
            FirstState::Dead(cause) => (codes::DEAD, Some(codes::cause(cause))),
        }
    }

    fn due(&self) -> Timestamp {
        match self.delivery.state {
            FirstState::Pending(pending) => pending.due,
            FirstState::Dead(_) => Timestamp::EPOCH,
        }
    }

    fn budget(&self) -> Option<Budget> {
        match self.delivery.state {
            FirstState::Pending(pending) => Some(pending.budget),
            FirstState::Dead(_) => None,
        }
    }
}

fn deliveries<'a>(items: &[&'a Numbered<'a>]) -> Vec<Placed<'a>> {
    let placed = items.iter().flat_map(|item| {
        let deliveries = item.accept.deliveries.iter().zip(&item.turns);
        let message = item.key;
        deliveries.map(move |(delivery, turn)| Placed { message, delivery, turn: *turn })
    });
    placed.collect()
}

fn delivery_columns<'a>(placed: &'a [Placed<'a>]) -> Vec<Column<'a>> {
    let counted = |count: Option<u32>| i64::from(count.unwrap_or(0));
    vec![
        column(placed, Type::INT8_ARRAY, |p| p.message),
        column(placed, Type::INT8_ARRAY, |p| p.delivery.endpoint.0),
        column(placed, Type::INT2_ARRAY, |p| number(p.delivery.partition)),
        column(placed, Type::INT2_ARRAY, |p| codes::order(p.delivery.order)),
        column(placed, Type::INT2_ARRAY, |p| p.state().0),
        column(placed, Type::INT2_ARRAY, |p| p.state().1),
        column(placed, Type::INT8_ARRAY, |p| p.due().as_micros()),
        column(placed, Type::INT8_ARRAY, |p| p.turn),
        column(placed, Type::INT8_ARRAY, move |p| counted(p.budget().map(|b| b.attempts))),
        column(placed, Type::INT8_ARRAY, move |p| counted(p.budget().map(|b| b.ambiguous))),
        column(placed, Type::INT8_ARRAY, |p| {
            p.budget().map_or(0, |budget| codes::micros(budget.last_wait))
        }),
        column(placed, Type::INT8_ARRAY, |p| {
            p.budget().and_then(|budget| budget.expires_at).map(Timestamp::as_micros)
        }),
    ]
}
