//! Replay tasks.

use domain::ids::TaskId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::keys::{ApplicationKey, Cursor, EndpointKey, MessageKey};
use crate::ledger::{NewTask, RunningTask, Task};
use crate::page::{Direction, Listed, Page};
use crate::sqlite::catalog::application;
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;
use crate::{Error, codes, limits};

/// Starts a task, which means everything accepted so far. Starting it again changes nothing.
pub(crate) fn start(writing: &Writing<'_>, task: &NewTask) -> Result<Task, Error> {
    let connection = writing.connection;
    if let Some(known) = by_id(connection, task.id)? {
        return Ok(known);
    }
    if application::by_key(connection, task.application)?.is_none() {
        return Err(Error::Missing("application"));
    }
    if count_running(connection, task.application)? >= limits::RUNNING_TASKS {
        return Err(limits::too_many_tasks());
    }
    insert(connection, task, writing.memo.last_in_sequence())?;
    find(connection, task.id)
}

pub(crate) fn find(connection: &Connection, id: TaskId) -> Result<Task, Error> {
    by_id(connection, id)?.ok_or(Error::Missing("task"))
}

/// Needs the primary key of `replay_tasks`, or the index `replay_tasks_application`.
pub(crate) fn list(
    reading: &Reading<'_>,
    application: Option<ApplicationKey>,
    page: &Page<TaskId>,
) -> Result<Listed<Task, TaskId>, Error> {
    let statement = match application {
        None => {
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks WHERE id {compare} ?1 ORDER BY id {direction} LIMIT ?2"
        }
        Some(_) => {
            "SELECT id, application, endpoint, kind, selection, upper, cursor, replayed, skipped,
                state, started_by, created_at, updated_at
            FROM replay_tasks
            WHERE application = ?1 AND id {compare} ?2 ORDER BY id {direction} LIMIT ?3"
        }
    };
    let list = List {
        statement,
        direction: Direction::Descending,
        whose: application.map(|application| application.0),
        beginning: page::behind_all_ids(),
        at: page::at_id,
        bytes: Task::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let task = of(row)?;
        Ok((task.id, Some(task)))
    })
}

/// Needs the index `replay_tasks_running`.
pub(crate) fn running(
    reading: &Reading<'_>,
    page: &Page<TaskId>,
) -> Result<Listed<RunningTask, TaskId>, Error> {
    let list = List {
        statement: "SELECT id, application FROM replay_tasks
            WHERE state = 0 AND id {compare} ?1 ORDER BY id {direction} LIMIT ?2",
        direction: Direction::Descending,
        whose: None,
        beginning: page::behind_all_ids(),
        at: page::at_id,
        bytes: |_| 0,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let application = ApplicationKey(row.get("application")?);
        let task = RunningTask { id: row::id(row, "id")?, application };
        Ok((task.id, Some(task)))
    })
}

/// Needs the index `replay_tasks_running_of`.
fn count_running(connection: &Connection, application: ApplicationKey) -> Result<usize, Error> {
    let sql = "SELECT count(*) FROM replay_tasks WHERE application = ?1 AND state = 0";
    Ok(connection.prepare_cached(sql)?.query_row([application.0], |row| row.get(0))?)
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
        codes::task_kind(task.kind),
        row::text_of(&task.selection)?,
        upper,
        task.by,
        task.at.as_micros(),
    ])?;
    Ok(())
}

fn of(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: row::id(row, "id")?,
        application: ApplicationKey(row.get("application")?),
        endpoint: row.get::<_, Option<i64>>("endpoint")?.map(EndpointKey),
        kind: codes::read_task_kind(row.get("kind")?)?,
        selection: row::document(row, "selection")?,
        upper: MessageKey(row.get("upper")?),
        cursor: row.get::<_, Option<i64>>("cursor")?.map(Cursor),
        replayed: row.get("replayed")?,
        skipped: row.get("skipped")?,
        state: codes::read_task_state(row.get("state")?)?,
        by: row.get("started_by")?,
        created_at: row::time(row, "created_at")?,
        updated_at: row::time(row, "updated_at")?,
    })
}
