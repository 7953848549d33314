//! Tokens that are of no use any more.

use std::time::Duration;

use super::{Harness, NOW, Scene, later, long_ago};
use crate::catalog::{Scope, Token};
use crate::limits;
use crate::page::{From, Page};
use crate::queue::Upkeep;

pub async fn the_tokens_of_a_deleted_application_are_revoked_with_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (own, catalog) = (scene.application.clone(), &scene.store().catalog);
    let others = scene.another_application().await.id;
    for (id, scope) in [
        ("a", Scope::Application(own.id)),
        ("b", Scope::Application(own.id)),
        ("c", Scope::Application(others)),
        ("d", Scope::Admin),
    ] {
        catalog.create_token(token(id, scope)).await.unwrap();
    }
    catalog.revoke_token("b".to_owned(), later(1)).await.unwrap();
    catalog.delete_application(own.key, later(5)).await.unwrap();
    let revoked = tokens(&scene).await.into_iter().map(|token| token.revoked_at);
    let wanted = [Some(later(5)), Some(later(1)), None, None];
    assert_eq!(revoked.collect::<Vec<_>>(), wanted);
}

pub async fn the_tokens_of_a_deleted_application_go_with_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (own, catalog) = (scene.application.clone(), &scene.store().catalog);
    let other = scene.another_application().await.id;
    for number in 0..5 {
        let scope = Scope::Application(own.id);
        catalog.create_token(token(&format!("own {number}"), scope)).await.unwrap();
    }
    let others = [token("c", Scope::Application(other)), token("d", Scope::Admin)];
    for token in &others {
        catalog.create_token(token.clone()).await.unwrap();
    }
    catalog.delete_application(own.key, long_ago()).await.unwrap();
    for _ in 0..10 {
        scene.keep_up(Upkeep::Prune { now: later(1), most: 2 }).await;
    }
    assert_eq!(tokens(&scene).await, others);
}

pub async fn the_configured_admin_token_is_compared_with_the_one_before(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalogs = [&scene.harness.store.catalog, &scene.harness.other.catalog];
    let (one, other) = (Some([1; 32]), Some([2; 32]));
    let table = [
        (one, None),
        (one, one),
        (other, one),
        (one, other),
        (None, one),
        (None, None),
        (other, None),
    ];
    for (number, (now, before)) in table.into_iter().enumerate() {
        let kept = catalogs[number % 2].keep_admin_token(now).await.unwrap();
        assert_eq!(kept, before, "{number}");
    }
}

pub async fn a_token_goes_thirty_days_after_it_expired_or_was_revoked(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let expired = Token { expires_at: Some(later(9)), ..token("a", Scope::Admin) };
    let lives = token("c", Scope::Admin);
    for token in [&expired, &token("b", Scope::Admin), &lives] {
        catalog.create_token(token.clone()).await.unwrap();
    }
    catalog.revoke_token("b".to_owned(), later(9)).await.unwrap();
    let over = later(9).after(limits::TOKENS);
    scene.keep_up(Upkeep::Prune { now: over, most: 100 }).await;
    assert_eq!(tokens(&scene).await.len(), 3);
    for _ in 0..3 {
        let now = over.after(Duration::from_secs(1));
        scene.keep_up(Upkeep::Prune { now, most: 1 }).await;
    }
    assert_eq!(tokens(&scene).await, [lives]);
}

pub async fn old_tokens_are_found_however_many_stay(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut wanted = Vec::new();
    for number in 0..600 {
        let lives = token(&format!("{number:03}"), Scope::Admin);
        let expired = Token { expires_at: Some(NOW), ..lives.clone() };
        let goes = [0, 300, 599].contains(&number);
        catalog.create_token(if goes { expired } else { lives.clone() }).await.unwrap();
        wanted.extend(Some(lives).filter(|_| !goes));
    }
    let now = later(9).after(limits::TOKENS);
    for _ in 0..10 {
        scene.keep_up(Upkeep::Prune { now, most: 100 }).await;
    }
    assert_eq!(tokens(&scene).await, wanted);
}

async fn tokens(scene: &Scene) -> Vec<Token> {
    let page = Page { from: From::Start, limit: 1_000 };
    scene.store().catalog.tokens(page).await.unwrap().entries
}

/// Makes a token that neither expires nor is revoked.
pub(super) fn token(id: &str, scope: Scope) -> Token {
    Token {
        id: id.to_owned(),
        hash: [1; 32],
        name: String::new(),
        scope,
        read_only: false,
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    }
}
