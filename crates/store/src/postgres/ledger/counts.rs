//! Counting deliveries.

use std::ops::Range;

use domain::ids::MessageId;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::ledger::{Counts, MOST_COUNTED, MOST_WALKED, Tally, Within};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int8, parameters};
use crate::postgres::io::link::Access;
use crate::postgres::row::{count, field, unknown};
use crate::{codes, limits};

/// Counts an endpoint's deliveries whose message was received within some time. Ids tell when a
/// message was made, and none is on its way for long: so the walk begins and ends near that time.
///
/// Indexes: messages_id; the primary keys of deliveries and messages.
pub(super) async fn by_state(
    store: &Postgres,
    (application, endpoint): (ApplicationKey, EndpointKey),
    range: Range<Timestamp>,
) -> Result<Counts, Failure> {
    let statement = "\
        with walked as materialized ( \
            select message, state from deliveries \
            where application = $1 and endpoint = $2 \
              and message > coalesce( \
                  (select key from messages where application = $1 and id < $3 \
                   order by id desc limit 1), -9223372036854775808) \
              and message < coalesce( \
                  (select key from messages where application = $1 and id >= $4 \
                   order by id limit 1), 9223372036854775807) \
            order by message desc limit $7 + 1), \
        counted as ( \
            select w.state, count(*) as deliveries \
            from (select * from walked order by message desc limit $7) w \
            join messages m on m.application = $1 and m.key = w.message \
            where m.received_at >= $5 and m.received_at < $6 \
            group by w.state) \
        select (select count(*) from walked) <= $7 as complete, state, deliveries \
        from (select 1) always left join counted on true";
    let earliest = MessageId::first_at(range.start.before(limits::UNDER_WAY));
    let latest = MessageId::first_at(range.end.after(limits::UNDER_WAY));
    let columns = [
        int8(application.0),
        int8(endpoint.0),
        bytea(earliest.as_bytes().as_slice()),
        bytea(latest.as_bytes().as_slice()),
        int8(range.start.as_micros()),
        int8(range.end.as_micros()),
        int8(i64::from(MOST_WALKED)),
    ];
    let rows = store.query(statement, &parameters(&columns)).await?;
    let mut counts = Counts::begin();
    for row in &rows {
        counts.complete = field(row, "complete")?;
        match field::<Option<i16>>(row, "state")? {
            Some(codes::PENDING) => counts.pending = count(row, "deliveries")?,
            Some(codes::DELIVERED) => counts.delivered = count(row, "deliveries")?,
            Some(codes::DEAD) => counts.dead = count(row, "deliveries")?,
            Some(codes::CANCELLED) => counts.cancelled = count(row, "deliveries")?,
            // A state that nobody knows is counted by nobody.
            Some(_) | None => {}
        }
    }
    Ok(counts)
}

/// Counts dead letters.
///
/// Index: deliveries_dead.
pub(crate) async fn dead_letters(store: &Postgres, within: Within) -> Result<Tally, Failure> {
    let (application, endpoint) = match within {
        Within::Whole => return all_dead_letters(store).await,
        Within::Application(application) => (application, None),
        Within::Endpoint(application, endpoint) => (application, Some(endpoint)),
    };
    let statement = "\
        select count(*) as walked, \
            count(*) filter (where $3::bigint is null or endpoint = $3) as dead \
        from ( \
            select endpoint from deliveries where application = $1 and state = 2 limit $2) d";
    let columns = [
        int8(application.0),
        int8(i64::from(MOST_COUNTED) + 1),
        int8(endpoint.map(|endpoint| endpoint.0)),
    ];
    let row = store.one(statement, &parameters(&columns)).await?;
    let row = row.ok_or_else(|| unknown("a count", "none"))?;
    Ok(Tally::up_to(MOST_COUNTED, count(&row, "walked")?, count(&row, "dead")?))
}

/// Index: deliveries_dead, in its order: otherwise the planner may read the whole table.
async fn all_dead_letters(store: &Postgres) -> Result<Tally, Failure> {
    let statement = "\
        select count(*) as dead from ( \
            select 1 from deliveries where state = 2 \
            order by application, message, endpoint limit $1) d";
    let columns = [int8(i64::from(MOST_COUNTED) + 1)];
    let row = store.pool.query(Access::ReadPending, statement, &parameters(&columns)).await?.pop();
    let counted = count(&row.ok_or_else(|| unknown("a count", "none"))?, "dead")?;
    Ok(Tally::up_to(MOST_COUNTED, counted, counted))
}
