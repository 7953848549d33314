//! Replay tasks.

use domain::ids::TaskId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::keys::{ApplicationKey, Cursor, EndpointKey, MessageKey};
use crate::ledger::{NewTask, RunningTask, Task, TaskState};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int2, int8, parameters, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
use crate::postgres::row::{document, field, id, moment, write};
use crate::{Error, codes, limits};

const MISSING: Error = Error::Missing("task");

/// Starts a task, which means everything accepted so far. The same one again is found, not started
/// again.
pub(crate) async fn start(store: &Postgres, new: NewTask) -> Result<Task, Failure> {
    store.writing(async |transaction| start_in(transaction, &new).await).await
}

async fn start_in(transaction: &mut Transaction<'_>, new: &NewTask) -> Result<Task, Failure> {
    if let Some(row) = find_in(transaction, new.id).await? {
        return Ok(task(&row)?);
    }
    if count_running(transaction, new.application).await? >= limits::RUNNING_TASKS {
        return Err(limits::too_many_tasks().into());
    }
    insert(transaction, new).await?;
    let row = find_in(transaction, new.id).await?;
    Ok(task(&row.ok_or(Error::Missing("application"))?)?)
}

/// Indexes: the primary keys of applications and replay_tasks.
async fn insert(transaction: &mut Transaction<'_>, new: &NewTask) -> Result<(), Failure> {
    let statement = "\
        insert into replay_tasks (id, application, endpoint, kind, selection, upper, cursor, \
            replayed, state, started_by, created_at, updated_at) \
        select $1, a.key, $3, $4, $5, case when n.is_called then n.last_value else 0 end, null, \
            0, $6, $7, $8, $8 \
        from applications a, numbers n \
        where a.key = $2 and a.deleted_at is null \
        on conflict (id) do nothing";
    let columns = [
        bytea(new.id.as_bytes().as_slice()),
        int8(new.application.0),
        int8(new.endpoint.map(|endpoint| endpoint.0)),
        int2(codes::task_kind(new.kind)),
        text(write("selection", &new.selection)?),
        int2(codes::task_state(TaskState::Running)),
        text(new.by.as_str()),
        int8(new.at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Finds a task.
pub(crate) async fn find(store: &Postgres, id: TaskId) -> Result<Task, Failure> {
    let row = store.reading(async |transaction| find_in(transaction, id).await).await?;
    Ok(task(&row.ok_or(MISSING)?)?)
}

/// Index: the primary key of replay_tasks.
async fn find_in(transaction: &mut Transaction<'_>, id: TaskId) -> Result<Option<Row>, Failure> {
    let statement = "select * from replay_tasks where id = $1";
    transaction.one(statement, &[(&id.as_bytes().as_slice(), Type::BYTEA)]).await
}

/// Lists tasks, newest first.
///
/// Indexes: the primary key of replay_tasks, or replay_tasks_application.
pub(crate) async fn list(
    store: &Postgres,
    application: Option<ApplicationKey>,
    page: Page<TaskId>,
) -> Result<Listed<Task, TaskId>, Failure> {
    let statement = "\
        select * from ( \
            select t.*, sum(t.row_bytes) over (order by t.id {direction}) as so_far \
            from ( \
                select *, octet_length(selection) as row_bytes from replay_tasks \
                where ($1::bigint is null or application = $1) \
                    and ($2::bytea is null or id {compare} $2) \
                order by id {direction} limit $3) t) t \
        where so_far - row_bytes < $4 order by id {direction}";
    let newest_first = (Direction::Descending, Task::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, newest_first);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            int8(application.map(|application| application.0)),
            bytea(place.as_ref().map(|id| id.as_bytes().as_slice())),
            int8(rows),
            int8(walk.most_bytes()),
        ];
        let rows = store.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            let entry = task(row)?;
            Ok((entry.id, Some(entry)))
        })?;
    }
    Ok(walk.finish())
}

/// Lists the tasks that are running, newest first.
///
/// Index: replay_tasks_running.
pub(crate) async fn running(
    store: &Postgres,
    page: Page<TaskId>,
) -> Result<Listed<RunningTask, TaskId>, Failure> {
    let statement = "\
        select id, application from replay_tasks \
        where state = 0 and ($1::bytea is null or id {compare} $1) \
        order by id {direction} limit $2";
    let mut walk = Walk::new(&store.notes, page, (Direction::Descending, |_: &RunningTask| 0));
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [bytea(place.as_ref().map(|id| id.as_bytes().as_slice())), int8(rows)];
        let rows = store.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            let application = ApplicationKey(field(row, "application")?);
            let task = RunningTask { id: id(row, "id")?, application };
            Ok((task.id, Some(task)))
        })?;
    }
    Ok(walk.finish())
}

/// Counts an application's running tasks. Its row is held first, so that two that are started at the same
/// moment are counted one after the other.
///
/// Indexes: the primary key of applications, replay_tasks_running_of.
async fn count_running(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
) -> Result<usize, Failure> {
    let hold = "select 1 from applications where key = $1 for no key update";
    transaction.execute(hold, &parameters(&[int8(application.0)])).await?;
    let statement = "\
        select count(*) as running from replay_tasks where application = $1 and state = 0";
    let row = transaction.one(statement, &parameters(&[int8(application.0)])).await?;
    let running: i64 = row.as_ref().map_or(Ok(0), |row| field(row, "running"))?;
    Ok(usize::try_from(running).unwrap_or(usize::MAX))
}

fn task(row: &Row) -> Result<Task, Error> {
    let (replayed, skipped): (i64, i64) = (field(row, "replayed")?, field(row, "skipped")?);
    Ok(Task {
        id: id(row, "id")?,
        application: ApplicationKey(field(row, "application")?),
        endpoint: field::<Option<i64>>(row, "endpoint")?.map(EndpointKey),
        kind: codes::read_task_kind(field(row, "kind")?)?,
        selection: document(row, "selection")?,
        upper: MessageKey(field(row, "upper")?),
        cursor: field::<Option<i64>>(row, "cursor")?.map(Cursor),
        replayed: u64::try_from(replayed).unwrap_or(0),
        skipped: u64::try_from(skipped).unwrap_or(0),
        state: codes::read_task_state(field(row, "state")?)?,
        by: field(row, "started_by")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}
