//! Tokens that are of no use any more.

use std::time::Duration;

use super::{Harness, NOW, Scene, later, long_ago};
use crate::catalog::{Ends, Expiry, Granted, Scope, Token};
use crate::page::{From, Page};
use crate::queue::Upkeep;
use crate::{Error, limits};

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

pub async fn no_token_is_made_for_an_application_that_is_deleted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (own, catalog) = (scene.application.clone(), &scene.store().catalog);
    let early = token("early", Scope::Application(own.id));
    catalog.create_token(early.clone()).await.unwrap();
    catalog.delete_application(own.key, later(5)).await.unwrap();
    let late = catalog.create_token(token("late", Scope::Application(own.id))).await;
    assert!(matches!(late, Err(Error::Missing("application"))), "{late:?}");
    let again = catalog.create_token(early).await;
    assert!(matches!(again, Err(Error::Taken { .. })), "it is revoked by now: {again:?}");
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

pub async fn tokens_of_a_session_end_now_or_later_and_no_others(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (own, catalog) = (scene.application.id, &scene.store().catalog);
    let other = scene.another_application().await.id;
    let of = |id: &str, application, session: Option<&str>, expires_at| Token {
        session: session.map(str::to_owned),
        expires_at,
        ..token(id, Scope::Application(application))
    };
    let made = [
        of("a", own, Some("one"), None),
        of("b", own, Some("one"), Some(later(20))),
        of("c", own, Some("two"), Some(later(90))),
        of("d", own, None, None),
        of("e", other, Some("one"), None),
    ];
    for token in &made {
        catalog.create_token(token.clone()).await.unwrap();
    }
    let expiry = |sessions: &[&str], ends| Expiry {
        application: own,
        sessions: sessions.iter().map(|session| (*session).to_owned()).collect(),
        ends,
    };
    let ended = catalog.expire_tokens(expiry(&["one", "zero"], Ends::Later(later(60)))).await;
    assert_eq!(ended.unwrap(), 2);
    let shown = tokens(&scene).await.into_iter().map(|it| (it.expires_at, it.revoked_at));
    let wanted = [
        (Some(later(60)), None),
        (Some(later(20)), None),
        (Some(later(90)), None),
        (None, None),
        (None, None),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
    let ended = catalog.expire_tokens(expiry(&["two"], Ends::Now(later(5)))).await;
    assert_eq!(ended.unwrap(), 1);
    let ended = catalog.expire_tokens(expiry(&[], Ends::Later(later(10)))).await;
    assert_eq!(ended.unwrap(), 3, "the revoked one stays as it is");
    let shown = tokens(&scene).await.into_iter().map(|it| (it.expires_at, it.revoked_at));
    let wanted = [
        (Some(later(10)), None),
        (Some(later(10)), None),
        (Some(later(90)), Some(later(5))),
        (Some(later(10)), None),
        (None, None),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
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
        granted: Granted::default(),
        session: None,
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    }
}
