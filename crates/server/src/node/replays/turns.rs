//! Whose turn it is: applications first, their tasks second.
//!
//! However many tasks an application has, it gets one chunk before everybody else has had one, too.
//! Only so many of them are kept here; what does not fit has its turn in a later look, which begins
//! behind those that had theirs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::ids::TaskId;
use store::keys::ApplicationKey;

/// The most applications whose tasks are kept.
const APPLICATIONS: usize = 256;
/// The most tasks of one application that are kept.
const EACH: usize = 8;

/// Who had a turn last.
#[derive(Debug, Default)]
pub(super) struct Served {
    last: Option<ApplicationKey>,
    /// Of those that were kept in the last look.
    tasks: BTreeMap<ApplicationKey, TaskId>,
}

/// The tasks of one look, while they are gathered. Those that had no turn for the longest time come
/// first: they have numbers behind those that were served last, or before all of them.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    tasks: BTreeMap<(bool, ApplicationKey), BTreeSet<(bool, TaskId)>>,
    /// Whether something did not fit.
    left_out: bool,
}

impl Gathered {
    /// Adds a task.
    pub(super) fn add(&mut self, served: &Served, application: ApplicationKey, task: TaskId) {
        let place = (Some(application) <= served.last, application);
        let tasks = self.tasks.entry(place).or_default();
        tasks.insert((Some(&task) <= served.tasks.get(&application), task));
        self.left_out |= tasks.len() > EACH;
        while tasks.len() > EACH {
            tasks.pop_last();
        }
        self.left_out |= self.tasks.len() > APPLICATIONS;
        while self.tasks.len() > APPLICATIONS {
            self.tasks.pop_last();
        }
    }

    /// Begins with the turns.
    pub(super) fn turns(self, served: &mut Served) -> Turns {
        let mut waiting = VecDeque::new();
        let mut before = std::mem::take(&mut served.tasks);
        for ((_, application), tasks) in self.tasks {
            served.tasks.extend(before.remove_entry(&application));
            let tasks = tasks.into_iter().map(|(_, task)| task).collect();
            waiting.push_back((application, tasks));
        }
        Turns { waiting, left_out: self.left_out }
    }
}

/// The tasks of one look, in turn.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: VecDeque<(ApplicationKey, VecDeque<TaskId>)>,
    /// Whether there are more than these.
    pub(super) left_out: bool,
}

/// The turn of an application.
#[derive(Debug)]
pub(super) struct Turn {
    application: ApplicationKey,
    /// The task whose turn it is.
    pub(super) task: TaskId,
    others: VecDeque<TaskId>,
}

impl Turns {
    /// Returns how many turns it takes until everybody has had one.
    pub(super) fn round(&self) -> usize {
        self.waiting.len()
    }

    /// Begins a turn, and notes whose it is.
    pub(super) fn next(&mut self, served: &mut Served) -> Option<Turn> {
        let (application, mut others) = self.waiting.pop_front()?;
        let task = others.pop_front()?;
        served.last = Some(application);
        served.tasks.insert(application, task);
        Some(Turn { application, task, others })
    }

    /// Ends a turn; the task has another one later if it goes on.
    pub(super) fn end(&mut self, turn: Turn, goes_on: bool) {
        let Turn { application, task, others: mut tasks } = turn;
        tasks.extend(goes_on.then_some(task));
        if !tasks.is_empty() {
            self.waiting.push_back((application, tasks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32) -> TaskId {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        TaskId::from_bytes(bytes)
    }

    /// Gathers so many tasks of each application; the tasks of application 2 begin with 2,000,000.
    fn gathered(served: &mut Served, counts: &[(i64, u32)]) -> Turns {
        let mut gathered = Gathered::default();
        for (application, count) in counts {
            let first = u32::try_from(*application).unwrap() * 1_000_000;
            for number in (first..first + count).rev() {
                gathered.add(served, ApplicationKey(*application), task(number));
            }
        }
        gathered.turns(served)
    }

    /// Gives so many turns, after which each task goes on, and returns the applications.
    fn give(turns: &mut Turns, served: &mut Served, count: usize) -> Vec<i64> {
        let mut had = Vec::new();
        for _ in 0..count {
            let Some(turn) = turns.next(served) else { break };
            had.push(turn.application.0);
            turns.end(turn, true);
        }
        had
    }

    #[test]
    fn an_application_with_many_tasks_has_no_more_turns_than_one_with_a_single_task() {
        let mut served = Served::default();
        let mut turns = gathered(&mut served, &[(1, 10_000), (2, 1), (3, 5)]);
        assert_eq!(turns.round(), 3);
        assert!(turns.left_out);
        assert_eq!(give(&mut turns, &mut served, 6), [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn applications_that_do_not_fit_have_their_turn_in_the_next_looks() {
        let (mut served, mut had) = (Served::default(), Vec::new());
        let applications: Vec<(i64, u32)> = (1..=600).map(|application| (application, 2)).collect();
        for _ in 0..3 {
            let mut turns = gathered(&mut served, &applications);
            assert!(turns.left_out);
            let round = turns.round();
            had.extend(give(&mut turns, &mut served, round));
        }
        let expected: Vec<i64> = (0..768).map(|turn| turn % 600 + 1).collect();
        assert_eq!(had, expected);
    }

    #[test]
    fn the_tasks_of_an_application_take_turns_from_look_to_look() {
        let (mut served, mut had) = (Served::default(), Vec::new());
        for _ in 0..5 {
            let mut turns = gathered(&mut served, &[(1, 20)]);
            for _ in 0..5 {
                let turn = turns.next(&mut served).unwrap();
                had.push(turn.task);
                turns.end(turn, true);
            }
        }
        let expected: Vec<TaskId> = (0..25).map(|turn| task(1_000_000 + turn % 20)).collect();
        assert_eq!(had, expected);
    }
}
