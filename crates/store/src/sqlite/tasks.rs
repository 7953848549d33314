//! Replay tasks.

use domain::ids::TaskId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::applications;
use super::codec::{self, odd};
use super::reader::Reading;
use super::walk::{self, List};
use super::writer::Writing;
use crate::keys::{ApplicationKey, Cursor, EndpointKey, MessageKey};
use crate::ledger::{NewTask, Task, TaskKind, TaskState};
use crate::page::{Listed, Page};
use crate::{Error, limits};

/// Starts a task, which means everything accepted so far. Starting it again changes nothing.
pub(super) fn start(writing: &Writing<'_>, task: &NewTask) -> Result<Task, Error> {
    let connection = writing.connection;
    if let Some(known) = by_id(connection, task.id)? {
        return Ok(known);
    }
    if applications::by_key(connection, task.application)?.is_none() {
        return Err(Error::Missing("application"));
    }
    insert(connection, task, writing.memo.last_in_sequence())?;
    find(connection, task.id)
}

pub(super) fn find(connection: &Connection, id: TaskId) -> Result<Task, Error> {
    by_id(connection, id)?.ok_or(Error::Missing("task"))
}

/// Needs the primary key of `replay_tasks`, or the index `replay_tasks_application`.
pub(super) fn list(
    reading: &Reading<'_>,
    application: Option<ApplicationKey>,
    page: &Page<TaskId>,
) -> Result<Listed<Task, TaskId>, Error> {
    let (onwards, backwards) = match application {
        None => (
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks WHERE id > ?1 ORDER BY id LIMIT ?2",
        ),
        Some(_) => (
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks WHERE application = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks WHERE application = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        ),
    };
    let list = List {
        onwards,
        backwards,
        whose: application.map(|application| application.0),
        beginning: walk::behind_all_ids(),
        at: walk::at_id,
        page,
    };
    walk::page(reading.connection, reading.notes, list, |row| {
        let task = of(row)?;
        Ok((task.id, Some(task)))
    })
}

/// Forgets tasks that finished long enough ago. Their ids tell when they were started, so that
/// younger ones are not looked at. Needs the primary key of `replay_tasks`.
pub(super) fn forget(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let sql = "DELETE FROM replay_tasks WHERE id IN (
            SELECT id FROM replay_tasks WHERE id < ?1 AND state = 1 AND updated_at < ?2
            ORDER BY id LIMIT ?3)";
    let before = now.before(limits::TASKS);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let first = TaskId::first_at(before);
    let parameters = params![first.as_bytes(), before.as_micros(), most];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}

/// Needs the primary key of `replay_tasks`.
fn by_id(connection: &Connection, id: TaskId) -> Result<Option<Task>, Error> {
    let sql = "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
            state, started_by, created_at, updated_at
        FROM replay_tasks WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([id.as_bytes()], of).optional()?)
}

fn insert(connection: &Connection, task: &NewTask, upper: i64) -> Result<(), Error> {
    let sql = "INSERT INTO replay_tasks (
            id, application, endpoint, kind, selection, upper, cursor, replayed, skipped, state,
            started_by, created_at, updated_at
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, 0, 0, 0, ?7, ?8, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        task.id.as_bytes(),
        task.application.0,
        task.endpoint.map(|endpoint| endpoint.0),
        kind(task.kind),
        codec::text_of(&task.selection)?,
        upper,
        task.by,
        task.at.as_micros(),
    ])?;
    Ok(())
}

const fn kind(kind: TaskKind) -> i64 {
    match kind {
        TaskKind::Recover => 0,
        TaskKind::ReplayMissing => 1,
        TaskKind::BulkReplay => 2,
    }
}

fn of(row: &Row<'_>) -> rusqlite::Result<Task> {
    let kind = match row.get("kind")? {
        0 => TaskKind::Recover,
        1 => TaskKind::ReplayMissing,
        2 => TaskKind::BulkReplay,
        number => return Err(odd("kind", number)),
    };
    let state = match row.get("state")? {
        0 => TaskState::Running,
        1 => TaskState::Finished,
        number => return Err(odd("state", number)),
    };
    Ok(Task {
        id: codec::id(row, "id")?,
        application: ApplicationKey(row.get("application")?),
        endpoint: row.get::<_, Option<i64>>("endpoint")?.map(EndpointKey),
        kind,
        selection: codec::document(row, "selection")?,
        upper: MessageKey(row.get("upper")?),
        cursor: row.get::<_, Option<i64>>("cursor")?.map(Cursor),
        replayed: row.get("replayed")?,
        skipped: row.get("skipped")?,
        state,
        by: row.get("started_by")?,
        created_at: codec::time(row, "created_at")?,
        updated_at: codec::time(row, "updated_at")?,
    })
}
