use super::*;
use crate::lab::scenario::{Answer, Outage};

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

fn outage(starts: f64, lasts: f64) -> Outage {
    Outage { starts: seconds(starts), lasts: seconds(lasts), answer: Answer::Unavailable }
}

/// One attempt each tenth of a second, and what becomes of it.
fn ten_a_second(outage: &Outage, tenths: u32) -> Timeline {
    let mut timeline = Timeline::new(outage);
    for tenth in 0..tenths {
        let began = START.after(seconds(0.1) * tenth);
        timeline.count(began, !outage.covers(began));
    }
    timeline
}

#[test]
fn time_has_at_most_ten_steps_and_starts_at_zero() {
    for hours in [1_u64, 5, 24, 36, 100, 1_000] {
        let end_micros = hours * 3_600_000_000;
        let time = TimeScale { column_micros: 1_000_000, end_micros, width: 700.0 };
        let ticks = time.ticks();
        assert!((3..=11).contains(&ticks.len()), "{hours}: {ticks:?}");
        assert_eq!(ticks[0].0, 0.0);
        assert!(ticks.iter().all(|(share, _)| *share <= 1.0));
    }
}

#[test]
fn columns_begin_and_end_with_the_outage_and_keep_their_rate() {
    let outage = outage(1.5, 2.2);
    let time = TimeScale { column_micros: 1_000_000, end_micros: 5_000_000, width: 500.0 };
    let columns = time.columns_of(&ten_a_second(&outage, 50));
    let edges: Vec<(i32, i32)> = columns
        .iter()
        .map(|it| {
            // Whole pixels here: a hundred to the second.
            #[expect(clippy::cast_possible_truncation, reason = "the numbers are small")]
            let whole = |length: f64| length.round() as i32;
            (whole(it.left), whole(it.right))
        })
        .collect();
    // What is left of a phase is a column of its own from half a column on.
    assert_eq!(edges, [(0, 100), (100, 150), (150, 250), (250, 370), (370, 500)]);
    for (column, down) in columns.iter().zip([false, false, true, true, false]) {
        let (rate, other) = if down {
            (column.failed, column.succeeded)
        } else {
            (column.succeeded, column.failed)
        };
        assert!((rate - 10.0).abs() < 1e-9 && other == 0.0, "{column:?}");
    }
}

#[test]
fn a_phase_without_attempts_is_empty_columns_and_one_without_time_is_none() {
    let time = TimeScale { column_micros: 1_000_000, end_micros: 4_000_000, width: 400.0 };
    let columns = time.columns_of(&ten_a_second(&outage(0.0, 3.0), 5));
    assert_eq!(columns.len(), 4);
    assert!(columns[1..].iter().all(|it| it.succeeded == 0.0 && it.failed == 0.0));
    let never_down = time.columns_of(&ten_a_second(&outage(0.0, 0.0), 40));
    assert_eq!(never_down.len(), 4);
}

#[test]
fn ticks_of_a_rate_keep_their_distance() {
    for (succeeded, everyday) in [(200.0, 1.0), (1.0, 0.0001), (3.0, 0.9)] {
        let rate = RateScale::new(succeeded, succeeded / 5.0, everyday);
        let mut places: Vec<f64> = rate.ticks(200.0).into_iter().map(|(place, _)| place).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.len() >= 3, "{places:?}");
        assert!(places.windows(2).all(|two| two[1] - two[0] >= TICK_DISTANCE), "{places:?}");
    }
}

#[test]
fn what_arrived_and_what_failed_fill_the_height_together() {
    let rate = RateScale::new(100.0, 25.0, 10.0);
    let (up, down) = (rate.y(100.0, 90.0), rate.y(25.0, 90.0));
    assert!((up + down - 90.0).abs() < 1e-9);
    assert!((rate.zero(90.0) - up).abs() < 1e-9);
}

#[test]
fn everyday_traffic_is_seen_beside_any_peak() {
    for everyday in [0.000_04, 0.01, 1.0, 100.0] {
        let rate = RateScale::new(1_000.0, 0.0, everyday);
        assert!(rate.y(everyday, 120.0) > 5.0, "{everyday}");
    }
    assert_eq!(RateScale::new(0.0, 0.0, 0.0).y(0.0, 120.0), 0.0);
}

#[test]
fn numbers_are_written_shortly() {
    let texts =
        [(1, Unit::Day), (10, Unit::Minute), (5_000, Unit::Second), (2_000_000, Unit::Second)]
            .map(|(count, unit)| rate_text(count, unit));
    assert_eq!(texts, ["1/d", "10/min", "5k/s", "2M/s"]);
    assert_eq!(moment_text(172_800, 86_400), "2d");
    assert_eq!(moment_text(5_400, 1_800), "1h30m");
}
