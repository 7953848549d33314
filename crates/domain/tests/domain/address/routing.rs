//! What is dialled, through what, and which connections may be used again.

use std::net::{IpAddr, SocketAddr};

use domain::address::{
    AllowedRange, DeliverableUrl, Guard, Host, PlainHttp, Proxy, Proxying, Reason, Route, Settings,
};
use domain::ids::ApplicationId;

use super::{FIRST, SECOND};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn proxy() -> Proxy {
    Proxy { host: "smokescreen".parse::<Host>().unwrap(), port: 4750 }
}

fn guard(proxying: Proxying) -> Guard {
    Guard::new(Settings { proxying, ..Settings::default() })
}

fn url(guard: &Guard, text: &str) -> DeliverableUrl {
    guard.vet_url(text, FIRST).unwrap()
}

#[test]
fn of_a_resolver_s_answer_only_the_vetted_addresses_are_dialled() {
    let guard = guard(Proxying::Off);
    let url = url(&guard, "https://hooks.example.com:8443/");
    let answer = [ip("169.254.169.254"), ip("8.8.8.8"), ip("::1"), ip("::ffff:1.1.1.1")];
    let Route::Direct(vetted) = guard.route(&url, FIRST, &answer).unwrap() else { panic!() };
    let dialled: Vec<_> = vetted.into_iter().map(|address| address.socket_addr()).collect();
    let expected: [SocketAddr; 2] =
        ["8.8.8.8:8443".parse().unwrap(), "1.1.1.1:8443".parse().unwrap()];
    assert_eq!(dialled, expected);
}

#[test]
fn an_answer_without_a_public_address_is_refused_without_naming_one_to_the_application() {
    let guard = guard(Proxying::Off);
    let url = url(&guard, "https://rebound.example.com/");
    let answer = [ip("10.0.0.7"), ip("fd00:ec2::254")];
    let refusal = guard.route(&url, FIRST, &answer).unwrap_err();
    assert_eq!(refusal.for_operator(), "10.0.0.7 is in 10.0.0.0/8 private use");
    assert!(!refusal.to_string().contains("10.0.0.7"));
    let refusal = guard.route(&url, FIRST, &[]).unwrap_err();
    assert_eq!(refusal.reason(), &Reason::NoAddress);
}

#[test]
fn a_host_written_as_an_address_is_dialled_as_written_whatever_a_resolver_says() {
    let guard = guard(Proxying::Off);
    let url = url(&guard, "https://8.8.8.8/");
    let Route::Direct(vetted) = guard.route(&url, FIRST, &[ip("1.1.1.1")]).unwrap() else {
        panic!()
    };
    assert_eq!(vetted.len(), 1);
    assert_eq!(vetted[0].socket_addr(), "8.8.8.8:443".parse().unwrap());
}

#[test]
fn a_url_saved_under_looser_settings_is_refused_when_it_is_sent_to() {
    let loose = Guard::new(Settings { plain_http: PlainHttp::Allowed, ..Settings::default() });
    let url = url(&loose, "http://hooks.example.com/");
    let strict = loose.with_settings(Settings::default());
    let refusal = strict.route(&url, FIRST, &[ip("8.8.8.8")]).unwrap_err();
    assert_eq!(refusal.reason(), &Reason::PlainHttp);
}

#[test]
fn a_connection_must_lead_where_it_was_dialled() {
    let guard = guard(Proxying::Off);
    let vet = |text: &str| guard.vet_address(text.parse().unwrap(), FIRST).unwrap();
    let check =
        |dialled: &str, peer: &str| Guard::check_peer(vet(dialled), peer.parse().unwrap()).is_ok();
    assert!(check("8.8.8.8:443", "8.8.8.8:443"));
    assert!(check("8.8.8.8:443", "[::ffff:8.8.8.8]:443"));
    assert!(check("[2a00:1450::1]:443", "[2a00:1450::1]:443"));
    assert!(!check("8.8.8.8:443", "8.8.8.8:444"));
    assert!(!check("8.8.8.8:443", "127.0.0.1:443"));
    assert!(!check("8.8.8.8:443", "[::808:808]:443"));
}

#[test]
fn a_tunnel_leads_to_vetted_addresses_only() {
    let guard = guard(Proxying::Tunnel(proxy()));
    let url = url(&guard, "https://hooks.example.com/");
    let answer = [ip("10.0.0.1"), ip("8.8.8.8")];
    let Route::Tunnel { proxy: through, to } = guard.route(&url, FIRST, &answer).unwrap() else {
        panic!()
    };
    assert_eq!(through, proxy());
    assert_eq!(to.len(), 1);
    assert_eq!(to[0].socket_addr(), "8.8.8.8:443".parse().unwrap());
    assert!(guard.route(&url, FIRST, &[ip("10.0.0.1")]).is_err());
    assert!(guard.proxying().resolves_here());
}

#[test]
fn a_trusted_proxy_lifts_no_rule_but_the_one_on_resolved_addresses() {
    let guard = guard(Proxying::Trust(proxy()));
    let plain = url(&guard, "https://hooks.example.com/");
    let route = guard.route(&plain, FIRST, &[]).unwrap();
    assert_eq!(route, Route::TrustedProxy { proxy: proxy() });
    assert!(!guard.proxying().resolves_here());
    for text in ["https://10.0.0.1/", "https://db.internal/", "http://hooks.example.com/"] {
        assert!(guard.vet_url(text, FIRST).is_err(), "{text}");
    }
}

#[test]
fn behind_a_trusted_proxy_a_name_cannot_count_on_the_operator_s_list() {
    let allowed: Vec<AllowedRange> = vec!["127.0.0.0/8".parse().unwrap()];
    let proxying = Proxying::Trust(proxy());
    let guard = Guard::new(Settings { allowed, proxying, ..Settings::default() });
    for text in ["https://localhost/", "http://hooks.example.com/"] {
        let url = url(&guard, text);
        assert!(guard.route(&url, FIRST, &[ip("127.0.0.1")]).is_err(), "{text}");
    }
    let url = url(&guard, "http://127.0.0.1:9000/");
    assert!(guard.route(&url, FIRST, &[]).is_ok());
}

#[test]
fn the_server_announces_what_it_does_not_vet() {
    let trusted = Proxying::Trust(proxy()).announcement();
    assert!(trusted.contains("smokescreen:4750") && trusted.contains("NOT vetted"), "{trusted}");
    assert!(!Proxying::Tunnel(proxy()).announcement().contains("NOT"));
    assert!(!Proxying::Off.announcement().contains("NOT"));
}

#[test]
fn a_connection_is_shared_only_within_an_application_a_destination_and_a_policy() {
    let guard = guard(Proxying::Off);
    let key = |guard: &Guard, text: &str, application: ApplicationId| {
        guard.pool_key(&url(guard, text), application)
    };
    let first = key(&guard, "https://hooks.example.com/a", FIRST);
    assert_eq!(first, key(&guard, "https://HOOKS.example.com.:443/b?c", FIRST));
    assert_ne!(first, key(&guard, "https://hooks.example.com/a", SECOND));
    assert_ne!(first, key(&guard, "https://hooks.example.com:8443/a", FIRST));
    assert_ne!(first, key(&guard, "https://other.example.com/a", FIRST));
    let changed = guard.with_own_addresses([ip("8.8.4.4")]);
    let later = key(&changed, "https://hooks.example.com/a", FIRST);
    assert_ne!(first, later);
    let unchanged = changed.with_own_addresses([ip("8.8.4.4")]);
    assert_eq!(later, key(&unchanged, "https://hooks.example.com/a", FIRST));
    let reconfigured = unchanged.with_settings(Settings::default());
    assert_ne!(later, key(&reconfigured, "https://hooks.example.com/a", FIRST));
}
