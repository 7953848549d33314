//! A server that is busy makes its callers wait, and refuses nothing that it can store soon.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use super::Running;

/// Long enough for a machine on which much else runs. The default is a second.
const PATIENT: (&str, &str) = ("limits.lane_wait", "20s");

async fn application_with(server: &Running, endpoints: u32) -> String {
    let app = server.application().await;
    for number in 0..endpoints {
        let url = format!("https://receiver.example/{number}");
        server.post(&format!("/app/{app}/endpoint"), json!({ "url": url })).await.expect(201);
    }
    app
}

#[tokio::test]
async fn a_fan_out_of_50_from_64_connections_is_taken_whole() {
    let server = Arc::new(Running::with(&[PATIENT]).await);
    let app = application_with(&server, 50).await;
    let mut senders = JoinSet::new();
    for sender in 0..64 {
        let (server, path) = (Arc::clone(&server), format!("/app/{app}/msg"));
        // 2,000 in all.
        let messages = if sender < 16 { 32 } else { 31 };
        senders.spawn(async move {
            for number in 0..messages {
                let body = json!({ "eventType": "a", "payload": { "number": number } });
                server.post(&path, body).await.expect(202);
            }
            messages
        });
    }
    assert_eq!(senders.join_all().await.into_iter().sum::<u32>(), 2_000);
}

#[tokio::test]
async fn a_batch_that_overflows_its_lane_is_taken_whole() {
    let server = Running::with(&[PATIENT, ("limits.lane_rows", "64")]).await;
    let app = application_with(&server, 3).await;
    let message = json!({ "eventType": "a", "payload": {} });
    let answer = server.post(&format!("/app/{app}/msg/batch"), json!(vec![message; 500])).await;
    let results = answer.expect(202)["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 500);
    assert!(results.iter().all(|result| result["status"] == 202), "{results:?}");
}
