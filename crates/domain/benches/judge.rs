//! What one decision costs. It is taken once per attempt, so it should not be noticed.

#![expect(clippy::expect_used, reason = "a benchmark stops when its preset is missing")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use domain::delivery::Pending;
use domain::dice::Dice;
use domain::ids::MessageId;
use domain::judge;
use domain::outcome::Outcome;
use domain::policy::preset;
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn decisions(c: &mut Criterion) {
    let redial = &preset("redial").expect("a built-in preset").policy;
    let exponential = &preset("backoff-chapter").expect("a built-in preset").policy;
    let delivery = Pending::fresh(&redial.limits, NOW);
    let asked = Some(RetryAfter::Seconds(30));
    let cases = [
        ("delivered", redial, Outcome::answered(200)),
        ("retry, fixed schedule", redial, Outcome::answered(500)),
        ("retry, exponential schedule", exponential, Outcome::TimedOut),
        ("retry with Retry-After", redial, Outcome::Answered { status: 429, retry_after: asked }),
        ("permanent", redial, Outcome::answered(400)),
    ];
    let mut group = c.benchmark_group("judge");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for (name, policy, outcome) in cases {
        let mut bits = 1_u64;
        group.bench_function(name, |b| {
            b.iter(|| {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let dice = Dice::thrown(bits);
                judge(black_box(policy), black_box(&delivery), black_box(outcome), NOW, dice)
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("ids");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    group.bench_function("write", |b| {
        let id = MessageId::new(NOW, [0xa5; 16]);
        b.iter(|| black_box(id).to_string());
    });
    group.bench_function("read", |b| {
        let text = MessageId::new(NOW, [0xa5; 16]).to_string();
        b.iter(|| black_box(&text).parse::<MessageId>());
    });
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
