use super::*;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::subject::Subject;

fn report(figures: Vec<Figure>) -> Report {
    let mut report = Report::new(Subject::example(), Machine::example(), Plan::FULL);
    report.add(figures);
    report
}

fn pictures(figures: Vec<Figure>) -> Vec<(&'static str, String)> {
    draw(&report(figures))
}

#[test]
fn without_figures_there_is_no_picture() {
    assert_eq!(pictures(Vec::new()), []);
}

#[test]
fn a_share_is_a_bar_and_what_it_should_be_is_marked() {
    let ratio = |name: &str, value| Figure::once(Scenario::EndToEnd, name, Unit::Ratio, value);
    let good = ratio("good ÷ bare", 0.5).within(Bound::AtLeast(0.4));
    let bad = ratio("bad ÷ bare", 0.2).within(Bound::AtLeast(0.4));
    let drawn = pictures(vec![good, bad, ratio("plain ÷ bare", 1.5), ratio("a ÷ health", 1.0)]);
    let ("throughput.svg", picture) = &drawn[0] else { panic!("{drawn:?}") };
    assert_eq!(picture.matches("<rect class=\"succeeded\"").count(), 2);
    assert_eq!(picture.matches("<rect class=\"failed\"").count(), 1);
    assert_eq!(picture.matches("<path class=\"mark\"").count(), 2);
    assert!(picture.contains(">good ÷ bare</text>") && picture.contains(">0.50</text>"));
    assert!(!picture.contains("÷ health"), "it is no share of a bare exchange");
    assert!(
        picture.contains("release build; SQLite;") && picture.contains(">2 cores of a processor")
    );
}

#[test]
fn quantiles_of_a_rate_stand_on_one_line() {
    let time = |name: &str, value| Figure::once(Scenario::Latency, name, Unit::Time, value);
    let crowd = |name: &str, value| Figure::once(Scenario::Hanging, name, Unit::Time, value);
    let drawn = pictures(vec![
        time("idle, p50 until it arrives", 0.0007),
        time("idle, p99 until it arrives", 0.0011),
        time("idle, p99 until it is acknowledged", 0.0009),
        time("at 100/s, p50 until it arrives", 500.0),
        crowd("5 endpoints hanging: p99 of others without", 0.001),
        crowd("5 endpoints hanging: p99 of others with", 0.002),
    ]);
    let [("latency.svg", picture)] = &drawn[..] else { panic!("{drawn:?}") };
    assert_eq!(picture.matches("<circle class=\"summit\"").count(), 5);
    assert!(
        picture.contains(">idle</text>") && picture.contains(">p50 700 µs, p99 1.10 ms</text>")
    );
    assert!(picture.contains(">without 1.00 ms, with 2.00 ms</text>"), "{picture}");
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn whatever_should_lie_somewhere_is_drawn_as_what_it_uses_of_that() {
    let figure = |name: &str, unit, value| Figure::once(Scenario::Backlog, name, unit, value);
    let drawn = pictures(vec![
        figure("start", Unit::Time, 1.0).within(Bound::AtMost(2.0)),
        figure("memory", Unit::Bytes, 1e9).within(Bound::AtMost(250e6)),
        figure("two ÷ one", Unit::Ratio, 0.8).within(Bound::AtLeast(0.4)),
        figure("none ÷ one", Unit::Ratio, f64::NAN).within(Bound::AtLeast(0.4)),
        figure("rate", Unit::PerSecond, 9.0),
    ]);
    let [("bounds.svg", picture)] = &drawn[..] else { panic!("{drawn:?}") };
    let width = |share: f64| format!("width=\"{}\" height=\"{BAR}\"", (RIGHT - LEFT) * share);
    assert_eq!(picture.matches(&width(0.25)).count(), 2, "half of what is allowed: {picture}");
    assert_eq!(picture.matches(&width(1.0)).count(), 2, "as much as there is room for: {picture}");
    assert_eq!(picture.matches("<rect class=\"failed\"").count(), 2);
    assert!(picture.contains(">1.00 s (≤ 2.00 s)</text>"), "{picture}");
    assert!(!picture.contains(">rate</text>"));
}
