//! The picture of a ramp: the whole outage above, the first seconds after the recovery below.

use std::time::Duration;

use svg::{MARGIN, Place, card, line, rect, text};

use super::Ramp;

const TITLE: &str = "The load on a receiver that is back after an hour";
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 1_040.0;

/// A stretch of time, drawn as columns.
struct Panel<'a> {
    name: &'a str,
    top: f64,
    height: f64,
    from: Duration,
    to: Duration,
    columns: u32,
    /// How a moment is written below the axis.
    tick: fn(f64) -> String,
    ticks: u32,
}

impl Ramp {
    /// Draws it.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let recovery = self.recovery();
        let last = self.arrivals.last().map_or(recovery, |(at, _)| *at);
        let subtitle = format!(
            "{} deliveries waiting; {} requests while it was down; the endpoint's settings are the \
             defaults",
            self.waiting,
            self.wasted()
        );
        let mut out = text("title", Place::left(MARGIN, 56.0), TITLE);
        out.push_str(&text("", Place::left(MARGIN, 82.0), &subtitle));
        self.panel(
            &mut out,
            &Panel {
                name: "the whole outage: requests per second",
                top: 130.0,
                height: 170.0,
                from: Duration::ZERO,
                to: last + Duration::from_secs(60),
                columns: 240,
                tick: |seconds| format!("{:.0} min", seconds / 60.0),
                ticks: 8,
            },
        );
        self.panel(
            &mut out,
            &Panel {
                name: "the first seconds after a probe succeeded: requests per second",
                top: 380.0,
                height: 190.0,
                from: recovery.saturating_sub(Duration::from_secs(1)),
                to: recovery + Duration::from_secs(7),
                columns: 64,
                tick: |seconds| format!("{seconds:+.0} s"),
                ticks: 8,
            },
        );
        card(TITLE, &self.to_string(), &out, HEIGHT)
    }

    fn panel(&self, out: &mut String, panel: &Panel<'_>) {
        let span = (panel.to - panel.from).as_secs_f64();
        let column = span / f64::from(panel.columns);
        let mut counts = vec![(0_u32, 0_u32); usize::try_from(panel.columns).unwrap_or(0)];
        for (at, good) in &self.arrivals {
            let Some(since) = at.checked_sub(panel.from) else { continue };
            let place = (since.as_secs_f64() / column).floor();
            let mut index = (0..).zip(counts.iter_mut());
            if let Some((_, count)) = index.find(|(number, _)| f64::from(*number) == place) {
                if *good { count.0 += 1 } else { count.1 += 1 }
            }
        }
        let rate = |count: u32| f64::from(count) / column;
        let most = counts.iter().map(|it| rate(it.0 + it.1)).fold(0.01, f64::max);
        let bottom = panel.top + panel.height;
        let x = |seconds: f64| LEFT + (RIGHT - LEFT) * seconds / span;
        self.shade(out, panel, &x);
        out.push_str(&text("name", Place::left(LEFT, panel.top - 14.0), panel.name));
        for part in 0..=4_u32 {
            let share = f64::from(part) / 4.0;
            let y = bottom - panel.height * share;
            out.push_str(&line("grid", (LEFT, y), (RIGHT, y)));
            let label = format!("{:.1}", most * share);
            out.push_str(&text("tick", Place::right(LEFT - 8.0, y + 4.0), &label));
        }
        for (number, (good, bad)) in (0..panel.columns).zip(&counts) {
            let left = x(f64::from(number) * column);
            let width = (x(f64::from(number + 1) * column) - left - 0.6).max(0.6);
            let (high, low) = (panel.height * rate(*good) / most, panel.height * rate(*bad) / most);
            for (class, height, base) in [
                ("succeeded", high, bottom),
                ("failed", low.max(f64::from((*bad).min(1)) * 3.0), bottom - high),
            ] {
                if height > 0.0 {
                    out.push_str(&rect(class, (left, base - height), (width, height)));
                }
            }
        }
        self.axis(out, panel, &x);
    }

    /// The time while the receiver is down.
    fn shade(&self, out: &mut String, panel: &Panel<'_>, x: &dyn Fn(f64) -> f64) {
        let from = self.outage.0.max(panel.from).saturating_sub(panel.from);
        let to = self.outage.1.min(panel.to).saturating_sub(panel.from);
        if to > from {
            let (left, right) = (x(from.as_secs_f64()), x(to.as_secs_f64()));
            let size = (right - left, panel.height);
            out.push_str(&rect("outage", (left, panel.top), size));
        }
    }

    fn axis(&self, out: &mut String, panel: &Panel<'_>, x: &dyn Fn(f64) -> f64) {
        let span = (panel.to - panel.from).as_secs_f64();
        let zero = match panel.from {
            Duration::ZERO => 0.0,
            _ => (self.recovery() - panel.from).as_secs_f64(),
        };
        for number in 0..=panel.ticks {
            let at = span * f64::from(number) / f64::from(panel.ticks);
            let place = Place::middle(x(at), panel.top + panel.height + 20.0);
            out.push_str(&text("tick", place, &(panel.tick)(at - zero)));
        }
    }
}
