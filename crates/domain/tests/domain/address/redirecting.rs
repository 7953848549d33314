//! Where redirects may lead: nowhere that could not be saved as an endpoint's URL.

use domain::address::{
    DeliverableUrl, Guard, NotFollowed, PlainHttp, REFUSAL_CODE, RedirectChain, Settings,
};
use domain::policy::{HopHeaders, Redirects};
use proptest::prelude::*;

use super::{FIRST, SECOND};

const HOME: &str = "https://hooks.example.com/a/b?token=t";

fn open() -> Guard {
    Guard::new(Settings { plain_http: PlainHttp::Allowed, ..Settings::default() })
}

fn url(text: &str) -> DeliverableUrl {
    open().vet_url(text, FIRST).unwrap()
}

fn hops(most: u64) -> Redirects {
    Redirects::new(most, HopHeaders::SameOrigin).unwrap()
}

fn whole(url: &DeliverableUrl) -> String {
    [url.origin(), url.expose_path_and_query()].concat()
}

/// Follows a `Location` of the answer of a URL.
fn from(home: &str, location: &str) -> Result<String, NotFollowed> {
    let chain = RedirectChain::begin(url(home));
    chain.next(location, hops(5), &open(), FIRST).map(|url| whole(&url))
}

#[test]
fn a_location_is_read_against_the_url_that_answered() {
    let table = [
        ("https://www.example.com/x", "https://www.example.com/x"),
        ("HTTPS://WWW.Example.com:443", "https://www.example.com/"),
        ("https://hooks.example.com:8443/a", "https://hooks.example.com:8443/a"),
        ("//www.example.com/x?y", "https://www.example.com/x?y"),
        ("/x", "https://hooks.example.com/x"),
        (
            "/x?next=https://www.example.com/",
            "https://hooks.example.com/x?next=https://www.example.com/",
        ),
        ("x", "https://hooks.example.com/a/x"),
        ("../x", "https://hooks.example.com/x"),
        ("?token=u", "https://hooks.example.com/a/b?token=u"),
        ("/ü", "https://hooks.example.com/%C3%BC"),
        ("/..//www.example.com/", "https://hooks.example.com//www.example.com/"),
        ("x@y", "https://hooks.example.com/a/x@y"),
    ];
    for (location, leads) in table {
        assert_eq!(from(HOME, location).as_deref(), Ok(leads), "{location}");
    }
}

#[test]
fn what_no_endpoint_could_have_for_its_url_makes_no_sense() {
    let senseless = [
        "https://user:password@www.example.com/",
        "//user@www.example.com/",
        "//@www.example.com/",
        "https://www.example.com/#part",
        "/x#",
        "https:www.example.com/",
        "https:/www.example.com/",
        "///www.example.com/",
        "https:///www.example.com/",
        "\\\\www.example.com/",
        "/\\www.example.com/",
        "/a b",
        "/a\tb",
        " /x",
        "ftp://www.example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:,x",
        "mailto:x@example.com",
        "https://exa_mple..com/",
        "//[::g]/",
        "//www.example.com:99999/",
    ];
    for location in senseless {
        let refused = from(HOME, location).unwrap_err();
        assert!(matches!(refused, NotFollowed::Malformed(_)), "{location}: {refused:?}");
        assert!(refused.to_string().starts_with("its Location makes no sense: "), "{refused}");
    }
    let long = ["/", &"x".repeat(2_048)].concat();
    assert!(matches!(from(HOME, &long), Err(NotFollowed::Malformed(_))));
}

#[test]
fn a_location_is_refused_by_the_guard_like_an_endpoints_url() {
    let closed = [
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://[::1]/",
        "//169.254.169.254/latest/meta-data/",
        "https://localhost/",
        "https://db.internal/",
        "https://www.example.com:22/",
        "https://www.example.com:81/",
    ];
    for location in closed {
        let refused = from(HOME, location).unwrap_err();
        let NotFollowed::Blocked(refusal) = &refused else { panic!("{location}: {refused:?}") };
        assert_eq!(refusal.code(), REFUSAL_CODE);
    }
}

#[test]
fn what_is_open_to_one_application_only_is_so_for_redirects_too() {
    let allowed = vec![format!("10.1.0.7 for {FIRST}").parse().unwrap()];
    let guard = Guard::new(Settings { allowed, ..Settings::default() });
    let chain = RedirectChain::begin(url(HOME));
    let next = |whose| chain.next("https://10.1.0.7/", hops(1), &guard, whose);
    assert!(next(FIRST).is_ok());
    assert!(matches!(next(SECOND), Err(NotFollowed::Blocked(_))));
}

#[test]
fn tls_is_never_taken_off_a_request_and_may_be_put_on() {
    let http = "http://hooks.example.com/a";
    assert_eq!(from(HOME, http), Err(NotFollowed::LosesTls));
    assert!(from(http, HOME).is_ok());
    assert!(from(http, "http://www.example.com/").is_ok());
    // Also where the guard would have refused it.
    let strict = Guard::new(Settings::default());
    let chain = RedirectChain::begin(url(HOME));
    assert_eq!(chain.next(http, hops(1), &strict, FIRST), Err(NotFollowed::LosesTls));
    // And not by a detour.
    let mut chain = RedirectChain::begin(url(http));
    chain.follow(chain.next(HOME, hops(5), &open(), FIRST).unwrap());
    assert_eq!(chain.next(http, hops(5), &open(), FIRST), Err(NotFollowed::LosesTls));
}

#[test]
fn a_circle_is_left_at_once_and_hops_are_counted() {
    for location in ["", ".", HOME, "b?token=t", "//hooks.example.com:443/a/b?token=t"] {
        let circle = from(HOME, location);
        match location {
            "." => assert_eq!(circle.as_deref(), Ok("https://hooks.example.com/a/")),
            _ => assert_eq!(circle, Err(NotFollowed::Circle), "{location}"),
        }
    }
    let mut chain = RedirectChain::begin(url(HOME));
    for hop in 0..3 {
        let next = chain.next(&format!("/{hop}"), hops(3), &open(), FIRST).unwrap();
        assert_eq!(whole(&next), format!("https://hooks.example.com/{hop}"));
        chain.follow(next);
    }
    assert_eq!(chain.next("/3", hops(3), &open(), FIRST), Err(NotFollowed::TooMany(3)));
    for known in [HOME, "/0", "/2"] {
        assert_eq!(chain.next(known, hops(4), &open(), FIRST), Err(NotFollowed::Circle), "{known}");
    }
}

#[test]
fn home_is_the_scheme_host_and_port_of_the_endpoints_url() {
    let chain = RedirectChain::begin(url(HOME));
    let table = [
        ("https://hooks.example.com/x", true),
        ("https://HOOKS.example.com.:443/", true),
        ("https://hooks.example.com:8443/", false),
        ("http://hooks.example.com/", false),
        ("http://hooks.example.com:443/", false),
        ("https://www.example.com/", false),
        ("https://example.com/", false),
    ];
    for (other, is_at_home) in table {
        assert_eq!(chain.is_at_home(&url(other)), is_at_home, "{other}");
    }
}

proptest! {
    #[test]
    fn nothing_is_followed_that_could_not_be_saved(location in "[/:?#@.a-z0-9%\\[\\]\\\\ é-]{0,40}") {
        let guard = Guard::new(Settings::default());
        let chain = RedirectChain::begin(url(HOME));
        if let Ok(next) = chain.next(&location, hops(5), &guard, FIRST) {
            prop_assert_eq!(guard.vet_url(&whole(&next), FIRST), Ok(next));
        }
    }
}
