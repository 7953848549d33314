//! Applications.

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::catalog::{
    Application, Change, Changed, Changes, Check, Edit, Name, NewApplication, Touches, edit,
};
use crate::codes::micros;
use crate::keys::ApplicationKey;
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters, single, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::wake::{CHANGED, call};
use crate::postgres::page::Walk;
use crate::postgres::row::{document, field, id, moment, unknown, write};
use crate::{Error, limits};

const MISSING: Error = Error::Missing("application");

/// Creates an application. The same one again is found, not made again.
///
/// Indexes: applications_id, applications_uid.
pub(crate) async fn create(store: &Postgres, new: NewApplication) -> Result<Application, Failure> {
    let statement = "\
        insert into applications (id, uid, settings, created_at, updated_at) \
        values ($1, $2, $3, $4, $4) \
        on conflict (id) do update set id = excluded.id where applications.deleted_at is null \
        returning *";
    let columns = [
        single(new.id.as_bytes().as_slice(), Type::BYTEA),
        single(new.uid.as_deref(), Type::TEXT),
        single(write("settings", &new.settings)?, Type::TEXT),
        single(new.at.as_micros(), Type::INT8),
    ];
    let mut transaction = store.write().await?;
    let result = transaction.one(statement, &parameters(&columns)).await;
    let row =
        transaction.end(result).await.map_err(|failure| taken(failure, new.uid.as_deref()))?;
    Ok(application(&row.ok_or(MISSING)?)?)
}

/// Finds an application that is not deleted.
///
/// Indexes: applications_id, applications_uid.
pub(crate) async fn find(
    store: &Postgres,
    name: Name<ApplicationId>,
) -> Result<Application, Failure> {
    let mut transaction = store.look_up().await?;
    let result = match &name {
        Name::Id(id) => {
            let statement = "select * from applications where id = $1 and deleted_at is null";
            transaction.one(statement, &[(&id.as_bytes().as_slice(), Type::BYTEA)]).await
        }
        Name::Uid(uid) => {
            let statement = "select * from applications where uid = $1 and deleted_at is null";
            transaction.one(statement, &[(uid, Type::TEXT)]).await
        }
    };
    let row = transaction.end(result).await?;
    Ok(application(&row.ok_or(MISSING)?)?)
}

/// Changes an application by a function of its row as it is.
pub(super) async fn change(
    store: &Postgres,
    key: ApplicationKey,
    change: Edit<Application>,
    at: Timestamp,
) -> Result<Changed<Application>, Failure> {
    let mut turn = store.turn(key).await?;
    loop {
        let mut transaction = turn.begin().await?;
        let result = change_in(&mut transaction, key, &change, at).await;
        match transaction.end(result).await {
            Err(failure) if turn.again(&failure) => {}
            result => return result,
        }
    }
}

async fn change_in(
    transaction: &mut Transaction<'_>,
    key: ApplicationKey,
    change: &Edit<Application>,
    at: Timestamp,
) -> Result<Changed<Application>, Failure> {
    let before = application(&hold(transaction, key).await?)?;
    let Some((after, touches)) = edit::application(&before, change, at)? else {
        return Ok(Changed::nothing(before));
    };
    let rewritten = rewrite(transaction, &after).await;
    rewritten.map_err(|failure| taken(failure, after.uid.as_deref()))?;
    let (revision, version) = changed(transaction, key, touches).await?;
    Ok(Changed { before, after: Application { revision, version, ..after } })
}

/// Index: the primary key of applications.
async fn rewrite(
    transaction: &mut Transaction<'_>,
    application: &Application,
) -> Result<(), Failure> {
    let statement = "\
        update applications set uid = $2, settings = $3, updated_at = $4 where key = $1";
    let columns = [
        int8(application.key.0),
        text(application.uid.as_deref()),
        text(write("settings", &application.settings)?),
        int8(application.updated_at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Makes an application a tombstone without a uid, and revokes its tokens.
pub(crate) async fn delete(
    store: &Postgres,
    key: ApplicationKey,
    check: Check<Application>,
    at: Timestamp,
) -> Result<(), Failure> {
    let mut turn = store.turn(key).await?;
    loop {
        let mut transaction = turn.begin().await?;
        let result = delete_in(&mut transaction, key, &check, at).await;
        match transaction.end(result).await {
            Err(failure) if turn.again(&failure) => {}
            result => return result,
        }
    }
}

/// Indexes: the primary key of applications, tokens_application.
async fn delete_in(
    transaction: &mut Transaction<'_>,
    key: ApplicationKey,
    check: &Check<Application>,
    at: Timestamp,
) -> Result<(), Failure> {
    let row = application(&hold(transaction, key).await?)?;
    check(&row).map_err(Error::Declined)?;
    let statement = "\
        with gone as ( \
            update applications \
            set uid = null, deleted_at = $2, updated_at = $2, revision = revision + 1, \
                changed_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint \
            where key = $1 and deleted_at is null returning id), \
        revoked as ( \
            update tokens set revoked_at = $2 from gone \
            where tokens.application = gone.id and tokens.revoked_at is null) \
        select 1 from gone";
    let columns = [int8(key.0), int8(at.as_micros())];
    let gone = transaction.one(statement, &parameters(&columns)).await?;
    gone.ok_or(MISSING)?;
    call(transaction, CHANGED).await
}

/// Reads an application's row and holds it until the transaction ends, as each change of the catalog
/// does first.
///
/// Index: the primary key of applications.
pub(crate) async fn hold(
    transaction: &mut Transaction<'_>,
    key: ApplicationKey,
) -> Result<Row, Failure> {
    let statement = "\
        select * from applications where key = $1 and deleted_at is null for no key update";
    let row = transaction.one(statement, &[(&key.0, Type::INT8)]).await?;
    row.ok_or_else(|| MISSING.into())
}

/// Lists applications by id.
///
/// Index: applications_id.
pub(crate) async fn list(
    store: &Postgres,
    page: Page<ApplicationId>,
) -> Result<Listed<Application, ApplicationId>, Failure> {
    let statement = "\
        select * from ( \
            select a.*, sum(a.row_bytes) over (order by a.id {direction}) as so_far \
            from ( \
                select *, octet_length(settings) as row_bytes from applications \
                where deleted_at is null and ($1::bytea is null or id {compare} $1) \
                order by id {direction} limit $2) a) a \
        where so_far - row_bytes < $3 order by id {direction}";
    let by_id = (Direction::Ascending, Application::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, by_id);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let place = place.as_ref().map(|id| id.as_bytes().as_slice());
        let mut transaction = store.read().await?;
        let most_bytes = walk.most_bytes();
        let parameters =
            [(&place as _, Type::BYTEA), (&rows as _, Type::INT8), (&most_bytes as _, Type::INT8)];
        let result = transaction.query(&statement, &parameters).await;
        let rows = transaction.end(result).await?;
        walk.take(&rows, |row| {
            let entry = application(row)?;
            Ok((entry.id, Some(entry)))
        })?;
    }
    Ok(walk.finish())
}

/// Notes that an application that is not deleted, or anything that is its, is changed by this
/// transaction, and holds its row until the transaction ends. The moment is the server's: the clocks
/// of nodes differ. With its commit the other nodes are called. Returns the application's revision and
/// version.
///
/// Index: the primary key of applications.
pub(super) async fn changed(
    transaction: &mut Transaction<'_>,
    key: ApplicationKey,
    touches: Touches,
) -> Result<(i64, i64), Failure> {
    let statement = "\
        update applications \
        set revision = revision + $2, other_changes = other_changes + $3, \
            changed_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint \
        where key = $1 and deleted_at is null \
        returning revision, version";
    let (revision, others) = touches.raises();
    let columns =
        [single(key.0, Type::INT8), single(revision, Type::INT8), single(others, Type::INT8)];
    let row = transaction.one(statement, &parameters(&columns)).await?.ok_or(MISSING)?;
    call(transaction, CHANGED).await?;
    Ok((field(&row, "revision")?, field(&row, "version")?))
}

/// Returns what has changed since a moment. The time is that of the statement's arrival, before anything
/// is read: all that was committed before it is seen.
///
/// Indexes: applications_changed, the primary key of counters.
pub(super) async fn changes(
    store: &Postgres,
    since: Option<Timestamp>,
    after: Option<Change>,
) -> Result<Changes, Failure> {
    let statement = "\
        select c.key, c.version, c.changed_at, n.now, n.event_types \
        from (select (extract(epoch from statement_timestamp()) * 1000000)::bigint as now, \
                value as event_types from counters where name = 'event_types') n \
        left join lateral ( \
            select key, version, changed_at from applications \
            where changed_at >= coalesce($1, n.now - $5) and (changed_at, key) > ($2, $3) \
            order by changed_at, key limit $4) c on true";
    let (at, key) =
        after.map_or((i64::MIN, i64::MIN), |last| (last.at.as_micros(), last.application.0));
    let most = i64::try_from(limits::CHANGES).unwrap_or(i64::MAX);
    let columns = [
        single(since.map(Timestamp::as_micros), Type::INT8),
        single(at, Type::INT8),
        single(key, Type::INT8),
        single(most, Type::INT8),
        single(micros(limits::CHANGING), Type::INT8),
    ];
    let mut transaction = store.look_up().await?;
    let result = transaction.query(statement, &parameters(&columns)).await;
    let rows = transaction.end(result).await?;
    let first = rows.first().ok_or_else(|| unknown("the count of changes", "none"))?;
    let (now, event_types) = (moment(first, "now")?, field(first, "event_types")?);
    // Without any change there is one row, of the time alone.
    let changed = rows.iter().filter(|row| !matches!(field::<Option<i64>>(row, "key"), Ok(None)));
    let applications = changed.map(change_of).collect::<Result<_, _>>()?;
    Ok(Changes { now, event_types, applications })
}

fn change_of(row: &Row) -> Result<Change, Error> {
    Ok(Change {
        application: ApplicationKey(field(row, "key")?),
        version: field(row, "version")?,
        at: moment(row, "changed_at")?,
    })
}

fn application(row: &Row) -> Result<Application, Error> {
    Ok(Application {
        key: ApplicationKey(field(row, "key")?),
        id: id(row, "id")?,
        uid: field(row, "uid")?,
        revision: field(row, "revision")?,
        version: field(row, "version")?,
        settings: document(row, "settings")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

fn taken(failure: Failure, uid: Option<&str>) -> Failure {
    if failure.violates("applications_uid") {
        let name = uid.unwrap_or_default().to_owned();
        return Error::Taken { what: "uid", name }.into();
    }
    failure
}
