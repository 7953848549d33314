//! The one statement of the settle lane, and the items as its columns, in the order in which it names them.

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::codes;
use crate::postgres::io::columns::{Column, column};
use crate::postgres::io::partitions::number;
use crate::queue::{NextState, Running, Settle};

/// Settles a batch whose items share neither delivery nor attempt.
///
/// `fence` locks the partitions whose epoch is current, `held` the deliveries under them, sorted so
/// that two nodes wait in one direction only; nothing else is touched. A row that had to be waited
/// for is read as it is then, not as it was when the statement began. What `fence` found is asked for
/// as an array, and `held` takes everything along: the planner knows nothing about parts of a statement,
/// takes them for a row or two, and would join a batch with itself row by row.
///
/// It returns a row for each delivery that was found, by its position, and one for each partition of
/// `fence`.
///
/// `standing` is what has a running state to be written and is not being removed: it holds the rows of
/// endpoint and application, so that whoever removes them finds the state. It waits for nobody, because
/// whoever removes them may wait for what this statement holds by then.
///
/// Indexes: the primary keys of partitions, deliveries, attempts, applications, endpoints and
/// endpoint_state.
pub(crate) const STATEMENT: &str = "\
    with input as materialized ( \
        select * from unnest( \
            $1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
            $7::smallint[], $8::smallint[], $9::bigint[], $10::bigint[], $11::bigint[], \
            $12::bigint[], $13::bigint[], $14::bytea[], $15::bigint[], $16::bigint[], \
            $17::smallint[], $18::smallint[], $19::integer[], $20::bigint[], $21::bigint[], \
            $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::text[], $27::text[], \
            $28::text[], $29::bytea[], $30::smallint[], $31::bigint[], $32::bigint[], \
            $33::bigint[], $34::bigint[], $35::bigint[], $36::smallint[], $37::bigint[], \
            $38::bigint[], $39::boolean[], $40::bigint[], $41::text[], $42::text[]) \
        with ordinality as i ( \
            partition, epoch, application, endpoint, message, loaded, \
            next_state, cause, due, attempts, ambiguous, last_wait, expires_at, \
            id, began_at, ended_at, trigger, outcome, status, retry_after_seconds, retry_after_at, \
            dns, connect, tls, first_byte, error, request_headers, response_headers, response_body, \
            breaker, failures, open_until, cooldown, permanent_streak, failing_since, warned, \
            paused_until, ended_before, reused, retry_after_kept, hops, refusal, position)), \
    fence as materialized ( \
        select p.number, p.epoch from partitions p \
        where (p.number, p.epoch) in (select * from unnest($1::smallint[], $2::bigint[])) \
        order by p.number for share), \
    owned as materialized ( \
        select * from input \
        where (epoch << 8) + partition = any (array(select (epoch << 8) + number from fence))), \
    held as materialized ( \
        select i.*, d.state as old_state, d.turn as old_turn, d.ordering, d.recorded, \
               d.settled_at, d.last_attempt \
        from owned i join deliveries d using (application, endpoint, message) \
        order by application, endpoint, message \
        for update of d), \
    decided as materialized ( \
        select held.*, known.applied as applied_before, known.applied is null as records, \
               known.applied is null and held.old_state = 0 and held.recorded = held.loaded \
                   and held.settled_at is not distinct from held.ended_before as applies \
        from held left join attempts known using (application, endpoint, id)), \
    settled as ( \
        update deliveries d set \
            state = case when x.applies then x.next_state else d.state end, \
            cause = case when x.applies then x.cause else d.cause end, \
            due = case when x.applies then coalesce(x.due, d.due) else d.due end, \
            turn = case when x.applies and d.ordering = 0 then coalesce(x.due, d.turn) \
                        else d.turn end, \
            attempts = case when x.applies then x.attempts else d.attempts end, \
            ambiguous = case when x.applies then x.ambiguous else d.ambiguous end, \
            last_wait = case when x.applies then x.last_wait else d.last_wait end, \
            expires_at = case when x.applies then x.expires_at else d.expires_at end, \
            settled_at = case when x.applies and x.next_state <> 0 then x.ended_at \
                              else d.settled_at end, \
            recorded = x.recorded + 1, last_attempt = x.id, last_attempt_at = x.ended_at, \
            last_status = x.status \
        from decided x \
        where x.records and d.application = x.application and d.endpoint = x.endpoint \
          and d.message = x.message), \
    tried as ( \
        insert into attempts (application, endpoint, id, message, number, previous, applied, \
            next_due, began_at, ended_at, trigger, outcome, status, retry_after_seconds, \
            retry_after_at, dns, connect, tls, first_byte, error, request_headers, \
            response_headers, response_body, reused, retry_after_kept, hops, refusal) \
        select application, endpoint, id, message, recorded + 1, last_attempt, applies, \
            case when applies then due end, began_at, ended_at, trigger, outcome, status, \
            retry_after_seconds, retry_after_at, dns, connect, tls, first_byte, error, \
            request_headers, response_headers, response_body, reused, retry_after_kept, hops, \
            refusal \
        from decided where records), \
    standing as materialized ( \
        select x.* from owned x \
        cross join lateral ( \
            select 1 from applications where key = x.application \
            for key share skip locked) owner \
        cross join lateral ( \
            select 1 from endpoints where application = x.application and key = x.endpoint \
            for key share skip locked) own \
        where x.breaker is not null and not exists ( \
            select 1 from attempts known where known.application = x.application \
                and known.endpoint = x.endpoint and known.id = x.id)), \
    ran as ( \
        insert into endpoint_state (application, endpoint, breaker, failures, open_until, \
            cooldown, permanent_streak, failing_since, warned, paused_until) \
        select distinct on (x.application, x.endpoint) \
            x.application, x.endpoint, x.breaker, x.failures, x.open_until, x.cooldown, \
            x.permanent_streak, x.failing_since, x.warned, x.paused_until \
        from standing x \
        order by x.application, x.endpoint, x.position desc \
        on conflict (application, endpoint) do update set \
            breaker = excluded.breaker, failures = excluded.failures, \
            open_until = excluded.open_until, cooldown = excluded.cooldown, \
            permanent_streak = excluded.permanent_streak, \
            failing_since = excluded.failing_since, warned = excluded.warned, \
            paused_until = excluded.paused_until) \
    select position, null::smallint as partition, null::bigint as epoch, \
           coalesce(applied_before, applies) as applied, \
           case when applies then next_state else old_state end as state, \
           case when applies and ordering = 0 then coalesce(due, old_turn) else old_turn end \
               as turn \
    from decided \
    union all \
    select null, number, epoch, null, null, null from fence";

/// Lease, delivery, and where it goes.
pub(super) fn verdicts(settles: &[Settle]) -> Vec<Column<'_>> {
    vec![
        column(settles, Type::INT2_ARRAY, |settle| number(settle.lease.partition)),
        column(settles, Type::INT8_ARRAY, |settle| settle.lease.epoch.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.application.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.endpoint.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.message.0),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.recorded)),
        column(settles, Type::INT2_ARRAY, |settle| next(settle.next).0),
        column(settles, Type::INT2_ARRAY, |settle| next(settle.next).1),
        column(settles, Type::INT8_ARRAY, |settle| next(settle.next).2),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.budget.attempts)),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.budget.ambiguous)),
        column(settles, Type::INT8_ARRAY, |settle| codes::micros(settle.budget.last_wait)),
        column(settles, Type::INT8_ARRAY, |settle| {
            settle.budget.expires_at.map(Timestamp::as_micros)
        }),
    ]
}

/// Returns state, cause and due time.
fn next(next: NextState) -> (i16, Option<i16>, Option<i64>) {
    match next {
        NextState::Pending { due } => (codes::PENDING, None, Some(due.as_micros())),
        NextState::Delivered => (codes::DELIVERED, None, None),
        NextState::Dead(cause) => (codes::DEAD, Some(codes::cause(cause)), None),
    }
}

/// The attempts.
pub(crate) fn attempts(settles: &[Settle]) -> Vec<Column<'_>> {
    let outcome = |settle: &Settle| codes::outcome(settle.attempt.outcome);
    let micros = |span: Option<std::time::Duration>| span.map(codes::micros);
    vec![
        column(settles, Type::BYTEA_ARRAY, |settle| settle.attempt.id.as_bytes().as_slice()),
        column(settles, Type::INT8_ARRAY, |settle| settle.attempt.began_at.as_micros()),
        column(settles, Type::INT8_ARRAY, |settle| settle.attempt.ended_at.as_micros()),
        column(settles, Type::INT2_ARRAY, |settle| codes::trigger(settle.attempt.trigger)),
        column(settles, Type::INT2_ARRAY, move |settle| outcome(settle).outcome),
        column(settles, Type::INT4_ARRAY, move |settle| outcome(settle).status.map(i32::from)),
        column(settles, Type::INT8_ARRAY, move |settle| outcome(settle).retry_after),
        column(settles, Type::INT8_ARRAY, move |settle| outcome(settle).retry_after_at),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.dns)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.connect)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.tls)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.first_byte)),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.error.as_deref().map(keepable)),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.request_headers.stored()),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.response_headers.stored()),
        column(settles, Type::BYTEA_ARRAY, |settle| settle.attempt.kept_body()),
    ]
}

/// PostgreSQL keeps no text with a NUL character. An attempt is recorded all the same.
fn keepable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// When the deliveries had ended before they were replayed.
pub(crate) fn ended_before(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::INT8_ARRAY, |settle| settle.ended_before.map(Timestamp::as_micros))
}

/// Whether their connections had been used before.
pub(crate) fn reused(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::BOOL_ARRAY, |settle| settle.attempt.phases.reused)
}

/// How long those of their Retry-Afters count that asked for more.
pub(crate) fn retry_after_kept(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::INT8_ARRAY, |settle| settle.attempt.retry_after_kept.map(codes::micros))
}

/// The redirects that were followed.
pub(crate) fn hops(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::TEXT_ARRAY, |settle| {
        let hops = Some(&settle.attempt.hops).filter(|hops| !hops.is_empty());
        hops.and_then(|hops| serde_json::to_string(hops).ok())
    })
}

/// Why the address guard refused, for the operator.
pub(crate) fn refusal(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.refusal.as_deref().map(keepable))
}

/// The running states; without one, all of them are missing.
pub(crate) fn running(settles: &[Settle]) -> Vec<Column<'_>> {
    let breaker = |settle: &Settle| settle.running.map(|running| codes::breaker(running.breaker));
    let health = |settle: &Settle| settle.running.map(|Running { health, .. }| health);
    vec![
        column(settles, Type::INT2_ARRAY, move |settle| breaker(settle).map(|b| b.0)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).map(|b| b.1)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).and_then(|b| b.2)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).and_then(|b| b.3)),
        column(settles, Type::INT8_ARRAY, move |settle| {
            health(settle).map(|health| i64::from(health.permanent_streak))
        }),
        column(settles, Type::INT8_ARRAY, move |settle| {
            health(settle).and_then(|health| health.failing_since).map(Timestamp::as_micros)
        }),
        column(settles, Type::INT2_ARRAY, move |settle| {
            health(settle).and_then(|health| health.warned).map(codes::level)
        }),
        column(settles, Type::INT8_ARRAY, |settle| {
            settle.running.and_then(|running| running.paused_until).map(Timestamp::as_micros)
        }),
    ]
}
