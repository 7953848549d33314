use std::time::Duration;

use domain::policy::preset;

use super::*;
use crate::lab::scenario::{Answer, Outage, Scenario};
use crate::lab::simulate;

fn picture(name: &str, events: u32, outage_hours: u64) -> String {
    picture_over(10, name, events, outage_hours)
}

fn picture_over(over: u64, name: &str, events: u32, outage_hours: u64) -> String {
    let hours = |count| Duration::from_secs(3_600 * count);
    let outage =
        Outage { starts: hours(1), lasts: hours(outage_hours), answer: Answer::Unavailable };
    let scenario = Scenario { events, over: hours(over), outage, seed: 1 };
    draw(name, &simulate(preset("redial").unwrap(), scenario).unwrap())
}

#[test]
fn every_variant_has_a_panel_with_the_outage_shaded() {
    let drawn = picture("redial", 10_000, 3);
    for label in ["as it is", "without jitter", "without breaker", "without both"] {
        assert!(drawn.contains(&format!(">{label}</text>")), "{label}");
    }
    assert_eq!(drawn.matches("<rect class=\"outage\"").count(), 1 + 4);
    assert_eq!(drawn.matches("<path class=\"succeeded\"").count(), 4);
    assert_eq!(drawn.matches("<path class=\"failed\"").count(), 4);
}

#[test]
fn it_says_in_words_what_it_shows() {
    let drawn = picture("redial", 10_000, 3);
    assert!(drawn.contains("role=\"img\" aria-labelledby=\"title desc\""));
    let title = "<title id=\"title\">What redial does to a receiver that is down for 3h</title>";
    assert!(drawn.contains(title));
    assert!(drawn.contains(" attempts wasted on the outage; the busiest second after it had "));
}

#[test]
fn a_policys_name_cannot_become_markup() {
    let drawn = picture("<script>&", 10, 1);
    assert!(!drawn.contains("<script>"));
    assert!(drawn.contains("What &lt;script&gt;&amp; does"));
}

#[test]
fn a_disabled_endpoint_is_marked() {
    let drawn = picture_over(480, "redial", 1_000, 240);
    assert!(drawn.contains("endpoint disabled"));
    assert!(drawn.contains("no delayed event arrived"));
}

#[test]
fn no_number_is_missing_or_endless() {
    for (events, hours) in [(1, 1), (2, 100), (50_000, 9)] {
        let drawn = picture("redial", events, hours);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{events} {hours}");
    }
}

#[test]
fn all_panels_are_equally_high() {
    let drawn = picture("redial", 10_000, 3);
    let shades = drawn.lines().filter(|line| line.starts_with("<rect class=\"outage\""));
    let heights: Vec<_> = shades.filter_map(|line| line.split("height=").nth(1)).skip(1).collect();
    assert_eq!(heights, ["\"124\"/>"; 4]);
}

#[test]
fn a_long_name_is_shortened() {
    let drawn = picture(&"very-".repeat(100), 10, 1);
    assert!(drawn.contains("What very-very-very-very-ver… does"), "{drawn}");
}

#[test]
fn the_time_axis_holds_all_events_even_if_none_is_sent_anymore() {
    // Disabled after five days; the events go on for twenty.
    assert!(picture_over(480, "redial", 1_000, 240).contains(">20d</text>"));
}

#[test]
fn the_busiest_second_is_marked_at_its_height() {
    let drawn = picture("redial", 100_000, 3);
    assert_eq!(drawn.matches("<circle class=\"summit\"").count(), 1 + 4);
    assert!(drawn.contains(">peak 200/s</text>"));
    // The highest of all reaches the top of its panel, but for the rounding of the line of zero.
    let heights = drawn.split("cy=\"").skip(1).filter_map(|it| it.split('"').next());
    let heights: Vec<f64> = heights.map(|it| it.parse().unwrap()).collect();
    assert!(heights.iter().any(|y| (y - PLOTS_TOP).abs() < 1.0), "{heights:?}");
}

#[test]
fn without_an_outage_nothing_is_shaded() {
    let drawn = picture("redial", 1, 0);
    assert!(drawn.contains("What redial does to a receiver that is never down"));
    assert!(drawn.contains(">1 event over 10h; the receiver is never down; seed 1<"));
    assert!(drawn.contains("As it is: 1 attempt; the busiest second had"));
    assert!(!drawn.contains("class=\"outage\"") && !drawn.contains("after the outage"));
}
