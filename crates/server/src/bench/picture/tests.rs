use super::*;
use crate::bench::figure::Bound;
use crate::bench::machine::Machine;
use crate::bench::plan::Plan;

fn report(figures: Vec<Figure>) -> Report {
    let machine = Machine {
        cores: 2,
        processor: "a processor".to_owned(),
        kernel: "6.1".to_owned(),
        sync_seconds: 0.000_5,
        release: true,
    };
    let mut report = Report::new(machine, Plan::FULL, false);
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
    let drawn = pictures(vec![good, bad, ratio("plain", 1.5)]);
    let [("throughput.svg", picture)] = &drawn[..] else { panic!("{drawn:?}") };
    assert_eq!(picture.matches("<rect class=\"succeeded\"").count(), 2);
    assert_eq!(picture.matches("<rect class=\"failed\"").count(), 1);
    assert_eq!(picture.matches("<path class=\"mark\"").count(), 2);
    assert!(picture.contains(">good ÷ bare</text>") && picture.contains(">0.50</text>"));
    assert!(picture.contains("SQLite, release build, 2 cores of a processor, Linux 6.1"));
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
