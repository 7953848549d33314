//! Replay tasks.

use domain::ids::TaskId;

use crate::keys::{ApplicationKey, MessageKey};
use crate::ledger::{NewTask, RunningTask, Task, TaskState};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};
use crate::{Error, limits};

impl State {
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
        let running = self.running_ones().filter(|running| running.application == task.application);
        if running.count() >= limits::RUNNING_TASKS {
            return Err(limits::too_many_tasks());
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

    fn running_ones(&self) -> impl DoubleEndedIterator<Item = RunningTask> {
        let running = self.tasks.values().filter(|task| task.state == TaskState::Running);
        running.map(|task| RunningTask { id: task.id, application: task.application })
    }

    /// Lists the tasks that are running, newest first.
    #[must_use]
    pub fn running_tasks(&self, page: &Page<TaskId>) -> Listed<RunningTask, TaskId> {
        let rows = self.running_ones().map(|task| (task.id, task));
        page::page(rows, (Direction::Descending, |_: &RunningTask| 0), page, |_, task| Some(task))
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
        let list = (Direction::Descending, Task::bytes as fn(&_) -> _);
        page::page(theirs, list, page, |_, task| Some(task.clone()))
    }
}
