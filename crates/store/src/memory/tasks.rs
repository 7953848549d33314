//! Sums, remembered answers and replay tasks.

use domain::ids::TaskId;
use domain::time::Timestamp;

use super::State;
use super::walk::{self, Direction};
use crate::Error;
use crate::keys::{ApplicationKey, MessageKey};
use crate::ledger::{NewTask, StoredAnswer, Task, TaskState};
use crate::limits;
use crate::page::{Listed, Page};
use crate::queue::{Minute, Rollup, Subject};

impl State {
    /// Returns a subject's sums from one minute up to, but without, another.
    #[must_use]
    pub fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Vec<Rollup> {
        let rows = self.rollups.iter();
        let theirs = rows
            .filter(|((whose, minute), _)| *whose == subject && *minute >= from && *minute < to);
        theirs.map(|(_, rollup)| rollup.clone()).collect()
    }

    /// Remembers an answer, unless another one is remembered; returns the one that is.
    pub fn remember_answer(
        &mut self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> StoredAnswer {
        if let Some(known) = self.answer(hash, at) {
            return known;
        }
        self.answers.insert(hash, (answer.clone(), at));
        answer
    }

    /// Returns the answer that is remembered under a hash.
    #[must_use]
    pub fn answer(&self, hash: [u8; 32], now: Timestamp) -> Option<StoredAnswer> {
        let (answer, at) = self.answers.get(&hash)?;
        (now.since(*at) < limits::IDEMPOTENCY).then(|| answer.clone())
    }

    /// Forgets what was remembered under a hash at a moment or before it.
    pub fn forget_answer(&mut self, hash: [u8; 32], until: Timestamp) {
        if self.answers.get(&hash).is_some_and(|(_, at)| *at <= until) {
            self.answers.remove(&hash);
        }
    }

    /// Starts a replay task, which means everything accepted so far.
    ///
    /// # Errors
    /// If its application is not there.
    pub fn start_task(&mut self, task: NewTask) -> Result<Task, Error> {
        if let Some(known) = self.tasks.get(&task.id) {
            return Ok(known.clone());
        }
        if self.living(task.application).is_none() {
            return Err(Error::Missing("application"));
        }
        let task = Task {
            id: task.id,
            application: task.application,
            endpoint: task.endpoint,
            kind: task.kind,
            selection: task.selection,
            upper: MessageKey(self.sequence),
            cursor: None,
            replayed: 0,
            skipped: 0,
            state: TaskState::Running,
            by: task.by,
            created_at: task.at,
            updated_at: task.at,
        };
        self.tasks.insert(task.id, task.clone());
        Ok(task)
    }

    /// Finds a task.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn task(&self, id: TaskId) -> Result<Task, Error> {
        self.tasks.get(&id).cloned().ok_or(Error::Missing("task"))
    }

    /// Lists tasks, newest first.
    #[must_use]
    pub fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: &Page<TaskId>,
    ) -> Listed<Task, TaskId> {
        let rows = self.tasks.iter().map(|(id, task)| (*id, task));
        let theirs = rows.filter(|(_, task)| {
            application.is_none_or(|application| task.application == application)
        });
        walk::page(theirs, Direction::Descending, page, |_, task| Some(task.clone()))
    }
}
