//! How far it is: on a terminal one line with a bar that is written over and over, elsewhere a line
//! for each thing that was found out.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use host::clock::Clock;
use host::words::shortened;

/// How often the time is told. The thread that draws is the one that sends.
const TICK: Duration = Duration::from_secs(1);
/// How long the bar is.
const BAR: usize = 20;
/// How long the whole line may be: what does not fit would not be overwritten.
const LINE: usize = 79;
/// Goes back to where the line began, and empties it.
const OVER: &str = "\r\u{1b}[K";

/// How it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// One line that changes.
    Bar,
    /// Line after line.
    Lines,
}

/// Tells how far it is. If nobody listens, it goes on.
pub(super) struct Progress<'a> {
    style: Style,
    out: RefCell<&'a mut dyn Write>,
    clock: Arc<dyn Clock>,
    began: Timestamp,
    place: RefCell<Place>,
}

/// Where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    /// Which scenario, counted from one, of how many.
    scenario: usize,
    scenarios: usize,
    title: &'static str,
    /// Which of its steps, counted from one, of how many.
    step: u32,
    steps: u32,
    /// What this step is.
    what: String,
}

impl<'a> Progress<'a> {
    /// Begins to tell.
    pub(super) fn new(style: Style, out: &'a mut dyn Write, clock: Arc<dyn Clock>) -> Self {
        let (began, place) = (clock.now(), RefCell::default());
        Self { style, out: RefCell::new(out), clock, began, place }
    }

    /// Tells that a scenario begins, counted from one.
    pub(super) fn begin(&self, scenario: usize, scenarios: usize, title: &'static str) {
        *self.place.borrow_mut() = Place { scenario, scenarios, title, ..Place::default() };
        match self.style {
            Style::Bar => self.draw(),
            Style::Lines => self.write(&format!("[{scenario}/{scenarios}] {title}\n")),
        }
    }

    /// Tells how many steps the scenario has.
    pub(super) fn steps(&self, steps: u32) {
        self.place.borrow_mut().steps = steps;
    }

    /// Tells that its next step begins.
    pub(super) fn step(&self, what: &str) {
        let mut place = self.place.borrow_mut();
        place.step += 1;
        what.clone_into(&mut place.what);
        drop(place);
        self.draw();
    }

    /// Tells what was found out. A bar has no room for it.
    pub(super) fn say(&self, text: &str) {
        match self.style {
            Style::Bar => {}
            Style::Lines => self.write(&format!("    {text}\n")),
        }
    }

    /// Tells what must not be missed, in a line that stays.
    pub(super) fn complain(&self, text: &str) {
        match self.style {
            Style::Bar => {
                self.write(&format!("{OVER}{text}\n"));
                self.draw();
            }
            Style::Lines => self.write(&format!("    {text}\n")),
        }
    }

    /// Lets the time go on, for ever.
    pub(super) async fn tick(&self) {
        loop {
            match self.style {
                Style::Bar => tokio::time::sleep(TICK).await,
                Style::Lines => std::future::pending().await,
            }
            self.draw();
        }
    }

    /// Leaves the line empty for what comes next.
    pub(super) fn end(&self) {
        match self.style {
            Style::Bar => self.write(OVER),
            Style::Lines => {}
        }
    }

    fn draw(&self) {
        match self.style {
            Style::Bar => {
                let elapsed = self.clock.now().since(self.began);
                self.write(&format!("{OVER}{}", self.place.borrow().line(elapsed)));
            }
            Style::Lines => {}
        }
    }

    fn write(&self, text: &str) {
        let mut out = self.out.borrow_mut();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

impl Place {
    fn line(&self, elapsed: Duration) -> String {
        let percent = self.percent();
        let full = BAR * percent / 100;
        let bar = "#".repeat(full) + &"-".repeat(BAR - full);
        let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
        let Self { scenario, scenarios, title, what, .. } = self;
        let line = format!(
            "[{bar}] {percent:>3} % {minutes:>3}:{seconds:02} [{scenario}/{scenarios}] {title}"
        );
        let line = if what.is_empty() { line } else { format!("{line}: {what}") };
        shortened(&line, LINE)
    }

    /// Returns how much is done, as if all scenarios took as long: nobody knows before.
    fn percent(&self) -> usize {
        let steps = usize::try_from(self.steps).unwrap_or(usize::MAX).max(1);
        let done = usize::try_from(self.step.saturating_sub(1)).unwrap_or(usize::MAX).min(steps);
        let before = self.scenario.saturating_sub(1) * steps;
        (100 * (before + done) / (self.scenarios * steps).max(1)).min(100)
    }
}

#[cfg(test)]
mod tests {
    use host::clock::SystemClock;

    use super::*;

    fn told(style: Style) -> String {
        let mut out = Vec::new();
        let progress = Progress::new(style, &mut out, Arc::new(SystemClock::start()));
        progress.begin(2, 4, "end to end");
        progress.steps(2);
        progress.step("pair 1 of 2");
        progress.say("1: 20/s");
        progress.step("pair 2 of 2");
        progress.complain("failed: it is full");
        progress.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_bar_is_one_line_that_is_written_over() {
        let told = told(Style::Bar);
        let lines: Vec<&str> = told.split(OVER).collect();
        assert_eq!(lines[1], "[#####---------------]  25 %   0:00 [2/4] end to end");
        assert_eq!(lines[2], "[#####---------------]  25 %   0:00 [2/4] end to end: pair 1 of 2");
        assert_eq!(lines[3], "[#######-------------]  37 %   0:00 [2/4] end to end: pair 2 of 2");
        assert_eq!(lines[4], "failed: it is full\n");
        assert_eq!((lines[5], lines[6]), (lines[3], ""), "{told:?}");
    }

    #[test]
    fn elsewhere_there_is_line_after_line() {
        let expected = "[2/4] end to end\n    1: 20/s\n    failed: it is full\n";
        assert_eq!(told(Style::Lines), expected);
    }

    #[test]
    fn a_line_never_wraps() {
        let what = "x".repeat(200);
        let place =
            Place { scenario: 1, scenarios: 1, step: 9, steps: 2, what, ..Place::default() };
        let line = place.line(Duration::from_secs(3_725));
        assert_eq!(line.chars().count(), LINE);
        assert!(line.starts_with("[####################] 100 %  62:05 [1/1]"), "{line}");
    }
}
