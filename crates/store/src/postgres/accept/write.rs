//! Writing the winners: idempotency key, message and deliveries, or none of them.

use std::collections::BTreeMap;

use domain::delivery::Budget;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use super::super::codes;
use super::super::columns::{Column, column, parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::queue::number;
use super::super::row::{field, write as document};
use crate::keys::MessageKey;
use crate::limits;
use crate::queue::{Accept, Accepted, FirstState, NewDelivery, Order};

/// The one statement that writes.
const STATEMENT: &str = "\
    with input as materialized ( \
        select i.*, nextval('numbers') as key \
        from unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::text[], \
                    $7::text[], $8::bigint[], $9::bigint[], $10::bytea[], $11::text[], \
                    $12::bytea[]) \
            with ordinality as i (application, id, event_type, event_id, channels, \
                    content_type, policy, received_at, retained_until, hash, fan_out, payload, \
                    position)), \
    keys as ( \
        insert into idempotency as k (application, hash, message, received_at) \
        select application, hash, id, received_at from input where hash is not null \
        order by application, hash \
        on conflict (application, hash) do update \
        set message = excluded.message, received_at = excluded.received_at \
        where excluded.received_at - k.received_at >= $25 \
        returning application, hash), \
    written as ( \
        insert into messages (application, key, id, event_type, event_id, channels, \
            content_type, policy, received_at, retained_until, idempotency, fan_out, payload) \
        select application, key, id, event_type, event_id, channels::jsonb, content_type, \
            policy, received_at, retained_until, hash, fan_out::bigint[], payload \
        from input \
        where hash is null or (application, hash) in (select application, hash from keys) \
        order by application, event_id, id \
        on conflict do nothing \
        returning key), \
    sent as ( \
        insert into deliveries (application, endpoint, message, partition, ordering, state, \
            cause, due, turn, attempts, ambiguous, last_wait, expires_at, recorded, settled_at) \
        select input.application, d.endpoint, input.key, d.partition, d.ordering, d.state, \
            d.cause, d.due, coalesce(d.turn, nextval('numbers')), d.attempts, d.ambiguous, \
            d.last_wait, d.expires_at, 0, \
            case when d.state <> 0 then input.received_at end \
        from unnest($13::bigint[], $14::bigint[], $15::smallint[], $16::smallint[], \
                    $17::smallint[], $18::smallint[], $19::bigint[], $20::bigint[], \
                    $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[]) \
            with ordinality as d (position, endpoint, partition, ordering, state, cause, due, \
                    turn, attempts, ambiguous, last_wait, expires_at, place) \
        join input on input.position = d.position \
        join written on written.key = input.key \
        order by d.place \
        returning message, endpoint, turn) \
    select input.position, input.key, sent.endpoint, sent.turn \
    from written join input on input.key = written.key \
    left join sent on sent.message = written.key";

/// Writes these items of a batch. Those that lost a race for one of their keys are not answered.
///
/// Indexes: the primary key of idempotency and the unique indexes of messages decide who wins. Rows
/// go in sorted by them, so that two nodes wait for each other in one direction only.
pub(super) async fn write(
    transaction: &mut Transaction<'_>,
    accepts: &[Accept],
    winners: &[usize],
) -> Result<Vec<(usize, Accepted)>, Failure> {
    if winners.is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<&Accept> = winners.iter().map(|position| &accepts[*position]).collect();
    let deliveries = deliveries(&items);
    let mut columns = messages(&items)?;
    columns.extend(delivery_columns(&deliveries));
    columns.push(single(codes::micros(limits::IDEMPOTENCY), Type::INT8));
    let rows = transaction.query(STATEMENT, &parameters(&columns)).await?;
    let mut written: BTreeMap<usize, (i64, BTreeMap<i64, i64>)> = BTreeMap::new();
    for row in &rows {
        let position: i64 = field(row, "position")?;
        let position = usize::try_from(position - 1).unwrap_or(usize::MAX);
        let message = written.entry(position).or_insert((field(row, "key")?, BTreeMap::new()));
        if let Some(endpoint) = field::<Option<i64>>(row, "endpoint")? {
            message.1.insert(endpoint, field(row, "turn")?);
        }
    }
    undo_keys(transaction, &items, &written).await?;
    Ok(answers(&items, winners, &written))
}

fn answers(
    items: &[&Accept],
    winners: &[usize],
    written: &BTreeMap<usize, (i64, BTreeMap<i64, i64>)>,
) -> Vec<(usize, Accepted)> {
    let answer = |(index, (key, turns)): (&usize, &(i64, BTreeMap<i64, i64>))| {
        let (item, position) = (items.get(*index)?, winners.get(*index)?);
        let turns = item.deliveries.iter().map(|delivery| turns.get(&delivery.endpoint.0).copied());
        let turns = turns.map(Option::unwrap_or_default).collect();
        Some((*position, Accepted::New { message: MessageKey(*key), turns }))
    };
    written.iter().filter_map(answer).collect()
}

/// Removes the keys of items whose message lost a race for its event id: nothing of them stays.
///
/// Index: the primary key of idempotency.
async fn undo_keys(
    transaction: &mut Transaction<'_>,
    items: &[&Accept],
    written: &BTreeMap<usize, (i64, BTreeMap<i64, i64>)>,
) -> Result<(), Failure> {
    let lost = items.iter().enumerate().filter(|(index, _)| !written.contains_key(index));
    let lost: Vec<&Accept> =
        lost.map(|(_, item)| *item).filter(|item| item.idempotency.is_some()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let statement = "\
        delete from idempotency k \
        using unnest($1::bigint[], $2::bytea[], $3::bytea[]) i (application, hash, id) \
        where k.application = i.application and k.hash = i.hash and k.message = i.id";
    let columns = [
        column(&lost, Type::INT8_ARRAY, |item| item.application.0),
        column(&lost, Type::BYTEA_ARRAY, |item| item.idempotency.as_ref().map(|k| k.as_slice())),
        column(&lost, Type::BYTEA_ARRAY, |item| item.message.id.as_bytes().as_slice()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

fn messages<'a>(items: &'a [&'a Accept]) -> Result<Vec<Column<'a>>, Failure> {
    let channels: Vec<String> = items
        .iter()
        .map(|item| document("channels", &item.message.channels))
        .collect::<Result<_, _>>()?;
    Ok(vec![
        column(items, Type::INT8_ARRAY, |item| item.application.0),
        column(items, Type::BYTEA_ARRAY, |item| item.message.id.as_bytes().as_slice()),
        column(items, Type::TEXT_ARRAY, |item| item.message.event_type.as_str()),
        column(items, Type::TEXT_ARRAY, |item| item.message.event_id.as_deref()),
        single(channels, Type::TEXT_ARRAY),
        column(items, Type::TEXT_ARRAY, |item| item.message.content_type.as_deref()),
        column(items, Type::TEXT_ARRAY, |item| item.message.policy.as_deref()),
        column(items, Type::INT8_ARRAY, |item| item.message.received_at.as_micros()),
        column(items, Type::INT8_ARRAY, |item| item.message.retained_until.as_micros()),
        column(items, Type::BYTEA_ARRAY, |item| item.idempotency.as_ref().map(|k| k.as_slice())),
        column(items, Type::TEXT_ARRAY, |item| fan_out(&item.deliveries)),
        column(items, Type::BYTEA_ARRAY, |item| item.message.payload.as_ref()),
    ])
}

/// Writes an array as text: arrays of arrays do not unnest.
fn fan_out(deliveries: &[NewDelivery]) -> String {
    let keys: Vec<String> = deliveries.iter().map(|d| d.endpoint.0.to_string()).collect();
    format!("{{{}}}", keys.join(","))
}

/// A delivery with its message's place among the items, counted from 1.
struct Placed<'a> {
    position: i64,
    delivery: &'a NewDelivery,
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

    /// Returns the turn, if it is not to be taken from the sequence.
    fn turn(&self) -> Option<i64> {
        match (self.delivery.state, self.delivery.order) {
            (FirstState::Dead(_), Order::Due | Order::Fifo) => Some(0),
            (FirstState::Pending(pending), Order::Due) => Some(pending.due.as_micros()),
            (FirstState::Pending(_), Order::Fifo) => None,
        }
    }

    fn budget(&self) -> Option<Budget> {
        match self.delivery.state {
            FirstState::Pending(pending) => Some(pending.budget),
            FirstState::Dead(_) => None,
        }
    }
}

fn deliveries<'a>(items: &[&'a Accept]) -> Vec<Placed<'a>> {
    let placed = (1..).zip(items).flat_map(|(position, item)| {
        item.deliveries.iter().map(move |delivery| Placed { position, delivery })
    });
    placed.collect()
}

fn delivery_columns<'a>(placed: &'a [Placed<'a>]) -> Vec<Column<'a>> {
    let counted = |count: Option<u32>| i64::from(count.unwrap_or(0));
    vec![
        column(placed, Type::INT8_ARRAY, |p| p.position),
        column(placed, Type::INT8_ARRAY, |p| p.delivery.endpoint.0),
        column(placed, Type::INT2_ARRAY, |p| number(p.delivery.partition)),
        column(placed, Type::INT2_ARRAY, |p| codes::order(p.delivery.order)),
        column(placed, Type::INT2_ARRAY, |p| p.state().0),
        column(placed, Type::INT2_ARRAY, |p| p.state().1),
        column(placed, Type::INT8_ARRAY, |p| p.due().as_micros()),
        column(placed, Type::INT8_ARRAY, Placed::turn),
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
