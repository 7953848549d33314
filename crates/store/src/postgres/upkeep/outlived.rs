//! What need not be kept of some messages whose time is over.
//!
//! Their deliveries are looked at first, and what stays is not locked: settling it goes on. What is to
//! go is locked then, and looked at again, as it may have been replayed meanwhile.

use std::collections::BTreeSet;

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{count, field};
use crate::postgres::upkeep::messages::{Place, Walked};
use crate::postgres::upkeep::prune::Limits;
use crate::postgres::upkeep::removal;

/// Returns the deliveries of some messages, of each within a part of its list, and tells whether they
/// need not be kept. Each row is looked up by its key: left to itself the planner may read more.
pub(crate) const LOOK: &str = "\
    select o.application, o.message, o.passed + sent.place as place, sent.endpoint, \
           d.recorded, d.goes \
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
        o (application, message, passed, up_to, settled_before) \
    cross join lateral ( \
        select fan_out[(o.passed + 1)::int : o.up_to::int] as part from messages \
        where application = o.application and key = o.message limit 1) m \
    cross join lateral unnest(m.part) with ordinality sent (endpoint, place) \
    cross join lateral ( \
        select recorded, \
               case state when 0 then false \
                          when 2 then coalesce(settled_at < $6, true) \
                          else coalesce(settled_at < o.settled_before, true) end as goes \
        from deliveries \
        where application = o.application and endpoint = sent.endpoint and message = o.message \
        limit 1) d \
    order by o.application, o.message, place";

/// A message whose time is over.
#[derive(Clone, Copy)]
struct Over<'a> {
    message: &'a Walked,
    settled_before: Timestamp,
}

/// A delivery as the walk sees it.
struct Seen {
    application: i64,
    message: i64,
    endpoint: i64,
    /// Its number on its message's list, from one on.
    place: u32,
    /// How many rows go with it.
    rows: u32,
    goes: bool,
}

/// A delivery that is to go.
struct Doomed {
    /// Its application, message and endpoint.
    place: [i64; 3],
    settled_before: Timestamp,
}

/// What a step removes.
struct Plan<'a> {
    doomed: Vec<Doomed>,
    /// Messages of which no delivery is left then.
    empty: Vec<&'a Walked>,
    /// How many rows may still be removed, and how many might be at first.
    left: u32,
    most: u32,
    /// Where the walk has to go on, if it cannot pass all of the messages.
    stopped: Option<Place>,
}

impl<'a> Plan<'a> {
    /// Goes through the messages and their deliveries, both in the order of their keys.
    fn of(over: &[Over<'a>], seen: Vec<Seen>, (left, most): (u32, u32)) -> Self {
        let mut plan = Self { doomed: Vec::new(), empty: Vec::new(), left, most, stopped: None };
        let mut seen = seen.into_iter().peekable();
        for &Over { message, settled_before } in over {
            let mut place = message.place;
            let is_its = |delivery: &Seen| {
                (delivery.application, delivery.message) == (place.application, place.message)
            };
            let its: Vec<Seen> = std::iter::from_fn(|| seen.next_if(is_its)).collect();
            for delivery in its {
                if !delivery.goes {
                    place.stays = true;
                } else if plan.take(delivery.rows) {
                    let place = [delivery.application, delivery.message, delivery.endpoint];
                    plan.doomed.push(Doomed { place, settled_before });
                } else {
                    place.passed = delivery.place.saturating_sub(1);
                    plan.stopped = Some(place);
                    return plan;
                }
            }
            place.passed = message.up_to;
            let goes = message.up_to >= message.deliveries && !place.stays;
            if message.up_to < message.deliveries || (goes && !plan.take(1)) {
                plan.stopped = Some(place);
                return plan;
            }
            if goes {
                plan.empty.push(message);
            }
        }
        plan
    }

    /// Uses the allowance for something that goes as a whole; the first thing of a step always fits.
    fn take(&mut self, rows: u32) -> bool {
        let fits = self.left > 0 && (rows <= self.left || self.left == self.most);
        if fits {
            self.left = self.left.saturating_sub(rows);
        }
        fits
    }

    /// Lets those messages stay of which a delivery was replayed before it was locked.
    fn keep(&mut self, held: &[[i64; 3]]) {
        let held: BTreeSet<_> = held.iter().copied().collect();
        let changed = self.doomed.iter().filter(|doomed| !held.contains(&doomed.place));
        let changed: BTreeSet<_> = changed.map(|it| (it.place[0], it.place[1])).collect();
        let is_changed = |place: Place| changed.contains(&(place.application, place.message));
        self.empty.retain(|message| !is_changed(message.place));
        if let Some(place) = &mut self.stopped {
            place.stays |= is_changed(*place);
        }
    }
}

/// Removes what need not be kept of some messages, and those of which nothing is left. Returns how many
/// rows may still be removed, and where the walk has to go on if it could not pass all of them.
pub(super) async fn prune(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    messages: &[Walked],
    left: u32,
) -> Result<(u32, Option<Place>), Failure> {
    let over = messages.iter().filter_map(|message| {
        let settled_before = message.term.settled_before(limits.now)?;
        Some(Over { message, settled_before })
    });
    let over: Vec<Over<'_>> = over.collect();
    if over.is_empty() {
        return Ok((left, None));
    }
    let seen = look(transaction, limits, &over).await?;
    let mut plan = Plan::of(&over, seen, (left, limits.most));
    let held = hold(transaction, limits, &plan.doomed).await?;
    plan.keep(&held);
    removal::deliveries(transaction, &held).await?;
    let place =
        |message: &&Walked| (message.place.application, message.place.message, message.deliveries);
    removal::messages(transaction, &plan.empty.iter().map(place).collect::<Vec<_>>()).await?;
    Ok((plan.left, plan.stopped))
}

/// Indexes: the primary keys of messages and deliveries.
async fn look(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    over: &[Over<'_>],
) -> Result<Vec<Seen>, Failure> {
    let columns = [
        column(over, Type::INT8_ARRAY, |one| one.message.place.application),
        column(over, Type::INT8_ARRAY, |one| one.message.place.message),
        column(over, Type::INT8_ARRAY, |one| i64::from(one.message.place.passed)),
        column(over, Type::INT8_ARRAY, |one| i64::from(one.message.up_to)),
        column(over, Type::INT8_ARRAY, |one| one.settled_before.as_micros()),
        int8(dead_before(limits)),
    ];
    let rows = transaction.query(LOOK, &parameters(&columns)).await?;
    let seen = |row: &Row| {
        Ok(Seen {
            application: field(row, "application")?,
            message: field(row, "message")?,
            endpoint: field(row, "endpoint")?,
            place: count(row, "place")?,
            rows: count(row, "recorded")?.saturating_add(1),
            goes: field(row, "goes")?,
        })
    };
    Ok(rows.iter().map(seen).collect::<Result<_, Error>>()?)
}

/// Locks deliveries, in the order in which a settle locks them, and returns those that are still to
/// go. In a statement of its own: the next one sees the attempts of whoever was waited for.
///
/// Index: the primary key of deliveries.
async fn hold(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    doomed: &[Doomed],
) -> Result<Vec<[i64; 3]>, Failure> {
    if doomed.is_empty() {
        return Ok(Vec::new());
    }
    let statement = "\
        select d.application, d.message, d.endpoint \
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) \
            i (application, message, endpoint, settled_before) \
        join deliveries d using (application, endpoint, message) \
        where case d.state when 0 then false \
                           when 2 then coalesce(d.settled_at < $5, true) \
                           else coalesce(d.settled_at < i.settled_before, true) end \
        order by d.application, d.endpoint, d.message for update of d";
    let columns = [
        column(doomed, Type::INT8_ARRAY, |one| one.place[0]),
        column(doomed, Type::INT8_ARRAY, |one| one.place[1]),
        column(doomed, Type::INT8_ARRAY, |one| one.place[2]),
        column(doomed, Type::INT8_ARRAY, |one| one.settled_before.as_micros()),
        int8(dead_before(limits)),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let place = |row: &Row| {
        Ok([field(row, "application")?, field(row, "message")?, field(row, "endpoint")?])
    };
    Ok(rows.iter().map(place).collect::<Result<_, Error>>()?)
}

/// Returns the moment before which a dead letter must have been buried so that it goes now.
fn dead_before(limits: Limits) -> i64 {
    limits.now.before(limits.dead_letters_kept).as_micros()
}
