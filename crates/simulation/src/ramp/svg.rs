//! The picture of a ramp: the whole outage above, the first seconds after the recovery below.

use std::fmt::Write as _;
use std::time::Duration;

use super::Ramp;

const STYLE: &str = "
  svg { color-scheme: light dark; }
  .card { fill: #ffffff; stroke: #dfe3e8; }
  text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif;
         font-size: 13px; fill: #5c6773; font-variant-numeric: tabular-nums; }
  .title { font-size: 24px; font-weight: 650; fill: #1b2430; letter-spacing: -0.2px; }
  .name { font-size: 14px; font-weight: 650; fill: #1b2430; }
  .tick { font-size: 11.5px; fill: #7b8794; }
  .grid { stroke: #e8ebef; fill: none; }
  .succeeded { fill: #2b8a8a; }
  .failed { fill: #d9593d; }
  .outage { fill: #d9593d; fill-opacity: 0.10; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #2b323c; }
    text { fill: #a3afbd; }
    .title, .name { fill: #eef2f6; }
    .tick { fill: #8593a3; }
    .grid { stroke: #262d37; }
    .succeeded { fill: #4fb8b0; }
    .failed { fill: #f0795c; }
    .outage { fill: #f0795c; fill-opacity: 0.14; }
  }
";

const WIDTH: f64 = 1_080.0;
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
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">\n\
             <title id=\"title\">The load on a receiver that is back after an hour</title>\n\
             <desc id=\"desc\">{self}</desc>\n<style>{STYLE}</style>\n\
             <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"14\"/>\n\
             <text class=\"title\" x=\"40\" y=\"56\">The load on a receiver that is back after an \
             hour</text>\n\
             <text x=\"40\" y=\"82\">{} deliveries waiting; {} requests while it was down; the \
             endpoint's settings are the defaults</text>\n",
            WIDTH - 1.0,
            HEIGHT - 1.0,
            self.waiting,
            self.wasted()
        );
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
        out.push_str("</svg>\n");
        out
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
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"{LEFT}\" y=\"{}\">{}</text>",
            panel.top - 14.0,
            panel.name
        );
        for part in 0..=4_u32 {
            let share = f64::from(part) / 4.0;
            let y = bottom - panel.height * share;
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}L{RIGHT} {y:.1}\"/>\n<text class=\"tick\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.1}</text>",
                LEFT - 8.0,
                y + 4.0,
                most * share
            );
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
                    let y = base - height;
                    let _ = writeln!(
                        out,
                        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                         height=\"{height:.1}\"/>"
                    );
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
            let _ = writeln!(
                out,
                "<rect class=\"outage\" x=\"{left:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"/>",
                panel.top,
                right - left,
                panel.height
            );
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
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x(at),
                panel.top + panel.height + 20.0,
                (panel.tick)(at - zero)
            );
        }
    }
}
