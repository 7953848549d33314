//! Figures: what came of deliveries, for an endpoint, an application and everything.

use http::Method;
use serde_json::{Value, json};

use super::Running;
use crate::sdk::receiver::{Receiver, eventually};

const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];

/// Returns the figures of an endpoint, once so many attempts are in them.
async fn figures(server: &Running, path: &str, attempts: u64) -> Value {
    eventually("the figures have all attempts", async || {
        let figures = server.get(&format!("{path}/figures")).await.expect(200);
        (figures["attempts"] == attempts).then_some(figures)
    })
    .await
}

#[tokio::test]
async fn what_came_of_deliveries_is_summed_up_at_once_and_alike_for_all() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    let app = server.application().await;
    let body = json!({ "url": receiver.url("all") });
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    let endpoint = format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap());
    // One is delivered, one is refused for good, one is to be tried again.
    for (number, status) in [(1, 204), (2, 400), (3, 503)] {
        receiver.answer("all", &[status]);
        if status == 503 {
            receiver.retry_after("all", "3600");
        }
        server.message(&app).await;
        figures(&server, &endpoint, number).await;
    }
    for path in [endpoint.as_str(), &format!("/app/{app}"), ""] {
        let figures = figures(&server, path, 3).await;
        let of = |name: &str| figures[name].clone();
        let counts = ["accepted", "settled", "delivered", "dead", "attemptsSucceeded", "retries"];
        assert_eq!(counts.map(of), [3, 2, 1, 1, 1, 0].map(|count| json!(count)), "{figures}");
        assert_eq!(of("deliveredAtFirstAttempt"), 1);
        assert_eq!(of("deadByCause"), json!({ "permanent": 1 }));
        assert_eq!(of("deliverySuccessRate"), 0.5);
        let rate = of("attemptSuccessRate").as_f64().unwrap();
        assert!((rate - 1.0 / 3.0).abs() < 1e-9, "{rate}");
        assert_eq!(of("retriesPerDelivery"), 0.0);
        for latency in ["deliveryLatencyMs", "attemptLatencyMs"] {
            let [p50, p99] = ["p50", "p99"].map(|name| figures[latency][name].as_f64().unwrap());
            assert!(p50 >= 1.0 && p99 >= p50, "{figures}");
        }
        let now = json!({ "count": 1, "complete": true });
        assert_eq!((&figures["now"]["waiting"], &figures["now"]["deadLetters"]), (&now, &now));
        assert!(figures["now"]["oldestDue"].is_string(), "{figures}");
    }
    let attempts = server.get(&format!("{endpoint}/attempt-stats")).await.expect(200);
    assert_eq!((&attempts["success"], &attempts["fail"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn what_is_accepted_for_a_disabled_endpoint_is_dead_at_once() {
    let server = Running::start().await;
    let app = server.application().await;
    let body = json!({ "url": "https://receiver.example", "disabled": true });
    server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    server.message(&app).await;
    let figures = figures(&server, &format!("/app/{app}"), 0).await;
    assert_eq!((&figures["accepted"], &figures["dead"]), (&json!(1), &json!(1)), "{figures}");
    assert_eq!(figures["deadByCause"], json!({ "endpoint_disabled": 1 }));
    assert_eq!(figures["deliverySuccessRate"], 0.0);
    assert_eq!(figures["deliveryLatencyMs"], Value::Null);
}

#[tokio::test]
async fn an_application_sees_its_own_figures_only() {
    let server = Running::start().await;
    let (own, other) = (server.application().await, server.application().await);
    let token = server.token(&own, true).await;
    let ask = async |path: &str| server.ask(&token, Method::GET, path, &Value::Null).await;
    ask(&format!("/app/{own}/figures")).await.expect(200);
    ask(&format!("/app/{other}/figures")).await.refused(404, "not_found");
    ask("/figures").await.expect(403);
    let foreign = server.endpoint(&other).await;
    let path = format!("/app/{own}/endpoint/{foreign}/figures");
    ask(&path).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_range_of_figures_has_ends_and_a_longest_length() {
    let server = Running::start().await;
    let app = server.application().await;
    let ask = async |query: &str| server.get(&format!("/app/{app}/figures?{query}")).await;
    let old = ask("since=2026-01-02T03:04:05Z&until=2026-01-03T04:05:06Z").await.expect(200);
    let ends = [&old["since"], &old["until"]].map(|end| end.as_str().unwrap().to_owned());
    assert_eq!(ends, ["2026-01-02T03:00:00.000000Z", "2026-01-03T05:00:00.000000Z"]);
    ask("since=2026-01-02T03:04:05Z&until=2026-09-03T04:05:06Z")
        .await
        .refused(400, "invalid_range");
    ask("since=2026-01-03T00:00:00Z&until=2026-01-02T00:00:00Z")
        .await
        .refused(400, "invalid_range");
}

#[tokio::test]
async fn what_was_counted_is_there_after_a_restart() {
    let server = Running::start().await;
    let app = server.application().await;
    server.endpoint(&app).await;
    server.message(&app).await;
    let server = server.again(&[]).await;
    let figures = server.get(&format!("/app/{app}/figures")).await.expect(200);
    assert_eq!(figures["accepted"], 1, "{figures}");
}
