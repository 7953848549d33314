-- Names that nothing may have any more, because a path cannot say them: `.` and `..`, and of the event
-- ids the words that stand at their place in a path. Each gets another name that nothing has, and is
-- listed here until a server has told of it.
create table renamed (
    number bigint generated always as identity primary key,
    -- Whose name it is: 0 an application's, 1 an endpoint's, 2 a message's, 3 an event type's, 4 a token's.
    kind smallint not null,
    application bigint,
    key bigint,
    id bytea not null,
    old text collate "C" not null,
    new text collate "C" not null
);

insert into renamed (kind, application, key, id, old, new)
select 0, it.key, it.key, it.id, it.uid, (
    with recursive tried (number, name) as (
        select 1, (it.uid || '-renamed-' || it.key) collate "C"
        union all
        select number + 1, (it.uid || '-renamed-' || it.key || '-' || (number + 1)) collate "C" from tried
        where exists (select 1 from applications other where other.uid = tried.name)
    )
    select name from tried order by number desc limit 1
)
from applications it where it.uid in ('.', '..');

insert into renamed (kind, application, key, id, old, new)
select 1, it.application, it.key, it.id, it.uid, (
    with recursive tried (number, name) as (
        select 1, (it.uid || '-renamed-' || it.key) collate "C"
        union all
        select number + 1, (it.uid || '-renamed-' || it.key || '-' || (number + 1)) collate "C" from tried
        where exists (
            select 1 from endpoints other
            where other.application = it.application and other.uid = tried.name
        )
    )
    select name from tried order by number desc limit 1
)
from endpoints it where it.uid in ('.', '..');

-- Of each application, because the index begins with it.
insert into renamed (kind, application, key, id, old, new)
select 2, it.application, it.key, it.id, it.event_id, (
    with recursive tried (number, name) as (
        select 1, (it.event_id || '-renamed-' || it.key) collate "C"
        union all
        select number + 1, (it.event_id || '-renamed-' || it.key || '-' || (number + 1)) collate "C"
        from tried
        where exists (
            select 1 from messages other
            where other.application = it.application and other.event_id = tried.name
        )
    )
    select name from tried order by number desc limit 1
)
from applications, lateral (
    select application, key, id, event_id from messages
    where application = applications.key
        and event_id in ('.', '..', 'batch', 'bulk-expunge', 'expunge-all-contents')
) it;

insert into renamed (kind, id, old, new)
select 3, ''::bytea, it.name, (
    with recursive tried (number, name) as (
        select 1, (it.name || '-renamed') collate "C"
        union all
        select number + 1, (it.name || '-renamed-' || (number + 1)) collate "C" from tried
        where exists (select 1 from event_types other where other.name = tried.name)
    )
    select name from tried order by number desc limit 1
)
from event_types it where it.name in ('.', '..');

-- Names of tokens need not differ.
insert into renamed (kind, id, old, new)
select 4, convert_to(id, 'UTF8'), name, name || '-renamed' from tokens where name in ('.', '..');

update applications set uid = renamed.new from renamed
where renamed.kind = 0 and renamed.key = applications.key;
update endpoints set uid = renamed.new from renamed
where renamed.kind = 1 and renamed.application = endpoints.application
    and renamed.key = endpoints.key;
update messages set event_id = renamed.new from renamed
where renamed.kind = 2 and renamed.application = messages.application
    and renamed.key = messages.key;
update event_types set name = renamed.new from renamed
where renamed.kind = 3 and renamed.old = event_types.name;
update tokens set name = renamed.new from renamed
where renamed.kind = 4 and renamed.id = convert_to(tokens.id, 'UTF8');

-- What is cached of these applications is not used again; that of their endpoints' filters neither.
update applications set revision = revision + 1,
    changed_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint
where key in (select application from renamed where kind in (0, 1))
    or exists (select 1 from renamed where kind = 3) and key in (
        select application from endpoints
        where settings like '%"."%' or settings like '%".."%'
    );
update endpoints set settings = jsonb_set(settings::jsonb, '{event_types}', (
    select jsonb_agg(coalesce(renamed.new, listed.value) order by listed.place)
    from jsonb_array_elements_text(endpoints.settings::jsonb -> 'event_types')
        with ordinality as listed (value, place)
    left join renamed on renamed.kind = 3 and renamed.old = listed.value
))::text
where exists (select 1 from renamed where kind = 3)
    and case when settings like '%"."%' or settings like '%".."%'
        then jsonb_typeof(settings::jsonb -> 'event_types') = 'array' end;
