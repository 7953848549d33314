//! The one statement of the settle lane.

/// Settles a batch whose items share neither delivery nor attempt.
///
/// `fence` locks the partitions whose epoch is current, `held` the deliveries under them, sorted so
/// that two nodes wait in one direction only; nothing else is touched. A row that had to be waited
/// for is read as it is then, not as it was when the statement began.
///
/// `standing` is what has a running state to be written and is not being removed: it holds the rows of
/// endpoint and application, so that whoever removes them finds the state. It waits for nobody, because
/// whoever removes them may wait for what this statement holds by then.
///
/// Indexes: the primary keys of partitions, deliveries, attempts, applications, endpoints and
/// endpoint_state.
pub(super) const STATEMENT: &str = "\
    with input as materialized ( \
        select * from unnest( \
            $1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
            $7::smallint[], $8::smallint[], $9::bigint[], $10::bigint[], $11::bigint[], \
            $12::bigint[], $13::bigint[], $14::bytea[], $15::bigint[], $16::bigint[], \
            $17::smallint[], $18::smallint[], $19::integer[], $20::bigint[], $21::bigint[], \
            $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::text[], $27::text[], \
            $28::text[], $29::bytea[], $30::smallint[], $31::bigint[], $32::bigint[], \
            $33::bigint[], $34::bigint[], $35::bigint[], $36::smallint[], $37::bigint[], \
            $38::bigint[], $39::boolean[]) \
        with ordinality as i ( \
            partition, epoch, application, endpoint, message, loaded, \
            next_state, cause, due, attempts, ambiguous, last_wait, expires_at, \
            id, began_at, ended_at, trigger, outcome, status, retry_after_seconds, retry_after_at, \
            dns, connect, tls, first_byte, error, request_headers, response_headers, response_body, \
            breaker, failures, open_until, cooldown, permanent_streak, failing_since, warned, \
            paused_until, ended_before, reused, position)), \
    fence as materialized ( \
        select p.number, p.epoch from partitions p \
        where (p.number, p.epoch) in (select * from unnest($1::smallint[], $2::bigint[])) \
        order by p.number for share), \
    held as materialized ( \
        select d.application, d.endpoint, d.message, d.state, d.turn, d.ordering, d.recorded, \
               d.settled_at, d.last_attempt, i.position \
        from input i \
        join fence f on f.number = i.partition and f.epoch = i.epoch \
        join deliveries d using (application, endpoint, message) \
        order by d.application, d.endpoint, d.message \
        for update of d), \
    decided as materialized ( \
        select i.*, f.number is not null as current, held.message is not null as there, \
               held.state as old_state, held.turn as old_turn, held.ordering, held.recorded, \
               held.last_attempt, known.applied as applied_before, \
               held.message is not null and known.applied is null as records, \
               known.applied is null and held.state = 0 and held.recorded = i.loaded \
                   and held.settled_at is not distinct from i.ended_before as applies \
        from input i \
        left join fence f on f.number = i.partition and f.epoch = i.epoch \
        left join held on held.position = i.position \
        left join attempts known on known.application = i.application \
            and known.endpoint = i.endpoint and known.id = i.id), \
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
            response_headers, response_body, reused) \
        select application, endpoint, id, message, recorded + 1, last_attempt, applies, \
            case when applies then due end, began_at, ended_at, trigger, outcome, status, \
            retry_after_seconds, retry_after_at, dns, connect, tls, first_byte, error, \
            request_headers, response_headers, response_body, reused \
        from decided where records), \
    standing as materialized ( \
        select x.* from decided x \
        cross join lateral ( \
            select 1 from applications where key = x.application \
            for key share skip locked) owner \
        cross join lateral ( \
            select 1 from endpoints where application = x.application and key = x.endpoint \
            for key share skip locked) own \
        where x.current and x.applied_before is null and x.breaker is not null), \
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
    select current, there, \
           coalesce(applied_before, applies, false) as applied, \
           case when applies then next_state else old_state end as state, \
           case when applies and ordering = 0 then coalesce(due, old_turn) else old_turn end \
               as turn \
    from decided order by position";
