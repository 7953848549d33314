//! Secrets: one is current, the ones before it sign for a while.

use domain::time::Timestamp;

use super::{Harness, NOW, Scene, later};
use crate::Error;
use crate::catalog::{Endpoint, Secret};
use crate::keys::EndpointKey;
use crate::limits;

pub async fn the_first_secret_signs_from_the_start(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let secrets = secrets(&scene, &endpoint, NOW).await;
    assert_eq!(secrets, [secret("whsec_one", NOW, None)]);
}

pub async fn an_old_secret_signs_until_its_grace_ends(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    rotate(&scene, &endpoint, secret("whsec_two", later(10), None), later(100)).await.unwrap();
    let old = secret("whsec_one", NOW, Some(later(100)));
    let new = secret("whsec_two", later(10), None);
    assert_eq!(secrets(&scene, &endpoint, later(99)).await, [new.clone(), old.clone()]);
    assert_eq!(secrets(&scene, &endpoint, later(101)).await, std::slice::from_ref(&new));
    let catalog = &scene.store().catalog;
    let early = catalog.fan_out(endpoint.application, later(99)).await.unwrap();
    assert_eq!(early.endpoints[0].secrets, [new.clone(), old]);
    let late = catalog.fan_out(endpoint.application, later(101)).await.unwrap();
    assert_eq!(late.endpoints[0].secrets, [new]);
}

pub async fn secrets_are_told_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for (text, at) in [("whsec_two", 10), ("whsk_three", 20), ("whsec_four", 30)] {
        rotate(&scene, &endpoint, secret(text, later(at), None), later(1_000)).await.unwrap();
    }
    let told = secrets(&scene, &endpoint, later(40)).await;
    let told: Vec<_> = told.iter().map(|secret| &secret.text[..]).collect();
    assert_eq!(told, ["whsec_four", "whsk_three", "whsec_two", "whsec_one"]);
}

pub async fn a_secret_that_has_expired_does_not_come_back(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    rotate(&scene, &endpoint, secret("whsec_two", later(10), None), later(20)).await.unwrap();
    rotate(&scene, &endpoint, secret("whsec_three", later(30), None), later(90)).await.unwrap();
    let told = secrets(&scene, &endpoint, later(40)).await;
    let told: Vec<_> = told.iter().map(|secret| &secret.text[..]).collect();
    assert_eq!(told, ["whsec_three", "whsec_two"]);
}

pub async fn too_many_live_secrets_are_refused(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for round in 1..=limits::OLD_SECRETS {
        let new = secret(&format!("whsec_{round}"), later(u64::try_from(round).unwrap()), None);
        rotate(&scene, &endpoint, new, later(10_000)).await.unwrap();
    }
    let before = (secrets(&scene, &endpoint, later(50)).await, scene.revision().await);
    let again = rotate(&scene, &endpoint, secret("whsec_x", later(51), None), later(52)).await;
    assert!(matches!(again, Err(Error::Refused(_))));
    assert_eq!((secrets(&scene, &endpoint, later(50)).await, scene.revision().await), before);
    // Once the old ones have expired, there is room again.
    let late = secret("whsec_late", later(20_000), None);
    rotate(&scene, &endpoint, late, later(30_000)).await.unwrap();
}

pub async fn an_unknown_endpoint_has_no_secrets_to_rotate(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut endpoint = scene.endpoint().await;
    endpoint.key = EndpointKey(endpoint.key.0 + 1_000);
    let answer = rotate(&scene, &endpoint, secret("whsec_two", NOW, None), later(9)).await;
    assert!(matches!(answer, Err(Error::Missing("endpoint"))), "{answer:?}");
}

fn secret(text: &str, created_at: Timestamp, expires_at: Option<Timestamp>) -> Secret {
    Secret { text: text.to_owned(), created_at, expires_at }
}

async fn rotate(
    scene: &Scene,
    endpoint: &Endpoint,
    secret: Secret,
    grace_ends: Timestamp,
) -> Result<(), Error> {
    let catalog = &scene.store().catalog;
    catalog.rotate_secret(endpoint.application, endpoint.key, secret, grace_ends).await
}

async fn secrets(scene: &Scene, endpoint: &Endpoint, at: Timestamp) -> Vec<Secret> {
    scene.store().catalog.secrets(endpoint.application, endpoint.key, at).await.unwrap()
}
