//! What the operator's settings open, and what they never do.

use std::net::{IpAddr, SocketAddr};

use domain::address::{
    AllowedRange, Guard, NameRule, PlainHttp, PortRule, Reason, Settings, UsablePort,
};

use super::{FIRST, SECOND};

fn range(text: &str) -> AllowedRange {
    text.parse().unwrap()
}

fn port(number: u16) -> UsablePort {
    UsablePort::try_from(number).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn guard_allowing(ranges: impl IntoIterator<Item = AllowedRange>) -> Guard {
    Guard::new(Settings { allowed: ranges.into_iter().collect(), ..Settings::default() })
}

fn passes(guard: &Guard, url: &str) -> bool {
    guard.vet_url(url, FIRST).is_ok()
}

fn reason(guard: &Guard, url: &str) -> Reason {
    guard.vet_url(url, FIRST).unwrap_err().reason().clone()
}

#[test]
fn by_default_only_https_to_public_addresses_passes() {
    let guard = Guard::new(Settings::default());
    assert!(passes(&guard, "https://hooks.example.com/x"));
    assert!(passes(&guard, "https://8.8.8.8:8443/x"));
    assert_eq!(reason(&guard, "http://hooks.example.com/x"), Reason::PlainHttp);
    assert_eq!(reason(&guard, "https://h.example.com:81/"), Reason::Port(81, PortRule::Closed));
    assert_eq!(
        reason(&guard, "https://127.0.0.1/"),
        Reason::NotPublic { address: ip("127.0.0.1"), block: "127.0.0.0/8 loopback" }
    );
}

#[test]
fn a_listed_loopback_range_opens_http_and_any_usable_port_to_this_machine() {
    let guard = guard_allowing([range("127.0.0.0/8")]);
    assert!(passes(&guard, "http://127.0.0.1:9000/hook"));
    assert!(passes(&guard, "http://127.0.0.1:81/hook"));
    assert!(passes(&guard, "http://[::ffff:127.0.0.1]:9000/hook"));
    assert!(passes(&guard, "http://localhost:9000/hook"));
    assert!(!passes(&guard, "http://[::1]:9000/hook"));
    assert!(!passes(&guard, "http://10.0.0.1:9000/hook"));
    assert!(!passes(&guard, "http://0.0.0.0:9000/hook"));
    assert_eq!(reason(&guard, "http://127.0.0.1:22/"), Reason::Port(22, PortRule::Bad));
}

#[test]
fn localhost_reaches_only_what_is_listed_whatever_it_resolves_to() {
    let guard = guard_allowing([range("::1")]);
    let url = guard.vet_url("https://localhost/", FIRST).unwrap();
    let vetted = guard.vet_all(&url, FIRST, &[ip("127.0.0.1"), ip("8.8.8.8"), ip("::1")]).unwrap();
    assert_eq!(vetted.len(), 1);
    assert_eq!(vetted[0].socket_addr(), "[::1]:443".parse().unwrap());
    assert!(guard.vet_all(&url, FIRST, &[ip("8.8.8.8")]).is_err());
}

#[test]
fn a_range_without_loopback_does_not_open_localhost() {
    let guard = guard_allowing([range("10.0.0.0/8")]);
    let Reason::Name(_, rule) = reason(&guard, "https://localhost/") else { panic!() };
    assert_eq!(rule, NameRule::Localhost);
}

#[test]
fn no_list_opens_a_local_name() {
    let guard = guard_allowing([range("0.0.0.0/0"), range("::/0")]);
    for host in ["intranet", "a.localhost", "printer.local", "db.internal", "x.cluster.local"] {
        assert!(!passes(&guard, &format!("https://{host}/")), "{host}");
    }
}

#[test]
fn http_to_a_name_passes_only_for_addresses_on_the_list() {
    let guard = guard_allowing([range("10.0.0.0/8")]);
    let url = guard.vet_url("http://hooks.example.com/", FIRST).unwrap();
    assert!(guard.vet_all(&url, FIRST, &[ip("10.1.2.3")]).is_ok());
    let refusal = guard.vet_all(&url, FIRST, &[ip("8.8.8.8")]).unwrap_err();
    assert_eq!(refusal.reason(), &Reason::PlainHttp);
}

#[test]
fn an_entry_opens_nothing_to_other_applications() {
    let entry = range(&format!("10.0.0.0/8 for {FIRST}"));
    let guard = guard_allowing([entry]);
    let vet = |address: &str, application| {
        guard.vet_address(address.parse::<SocketAddr>().unwrap(), application).is_ok()
    };
    assert!(vet("10.0.0.1:8443", FIRST));
    assert!(vet("10.0.0.1:8444", FIRST));
    assert!(!vet("10.0.0.1:8443", SECOND));
    assert!(vet("8.8.8.8:8444", SECOND));
    assert!(guard.vet_url("http://10.0.0.1:8443/", FIRST).is_ok());
    assert!(guard.vet_url("http://10.0.0.1:8443/", SECOND).is_err());
    assert!(guard.vet_url("http://hooks.example.com:8443/", SECOND).is_err());
}

#[test]
fn an_isatap_address_passes_only_if_the_address_inside_does() {
    let outside_only = guard_allowing([range("fd00::/8")]);
    let both = guard_allowing([range("fd00::/8"), range("10.0.0.0/8")]);
    let inside_only = guard_allowing([range("10.0.0.0/8")]);
    let private = "https://[fd00::5efe:10.0.0.1]/";
    assert!(!passes(&outside_only, private));
    assert!(passes(&both, private));
    assert!(!passes(&inside_only, private));
    assert!(passes(&inside_only, "https://[2a00:1450::5efe:10.0.0.1]/"));
}

#[test]
fn this_server_s_own_addresses_are_refused_unless_listed_alone() {
    let own = [ip("203.0.114.9"), ip("10.0.0.5"), ip("::ffff:10.0.0.6"), ip("127.0.0.1")];
    let settings = Settings {
        allowed: vec![range("10.0.0.0/8"), range("127.0.0.0/8")],
        ..Settings::default()
    };
    let guard = Guard::new(settings).with_own_addresses(own);
    assert_eq!(reason(&guard, "https://203.0.114.9/"), Reason::OwnAddress(ip("203.0.114.9")));
    assert_eq!(reason(&guard, "https://10.0.0.5/"), Reason::OwnAddress(ip("10.0.0.5")));
    assert_eq!(reason(&guard, "https://10.0.0.6/"), Reason::OwnAddress(ip("10.0.0.6")));
    assert!(passes(&guard, "https://10.0.0.7/"));
    assert!(passes(&guard, "http://127.0.0.1:9000/"));
    let alone = Settings { allowed: vec![range("10.0.0.5")], ..Settings::default() };
    assert!(passes(&guard.clone().with_settings(alone), "https://10.0.0.5/"));
    assert!(passes(&guard.with_own_addresses([]), "https://203.0.114.9/"));
}

#[test]
fn this_server_s_own_names_are_refused_however_they_are_spelt() {
    let own_names = vec!["Redial.Example.com.".parse().unwrap(), "bücher.example".parse().unwrap()];
    let guard = Guard::new(Settings { own_names, ..Settings::default() });
    assert!(!passes(&guard, "https://redial.example.com/"));
    assert!(!passes(&guard, "https://REDIAL.example.COM./"));
    assert!(!passes(&guard, "https://r%65dial.example.com:8443/"));
    assert!(!passes(&guard, "https://xn--bcher-kva.example/"));
    assert!(passes(&guard, "https://other.example.com/"));
}

#[test]
fn consent_to_http_and_further_ports_hold_for_public_addresses_only() {
    let guard = Guard::new(Settings {
        plain_http: PlainHttp::Allowed,
        extra_ports: vec![port(81)],
        ..Settings::default()
    });
    assert!(passes(&guard, "http://hooks.example.com:81/"));
    assert!(passes(&guard, "http://8.8.8.8:81/"));
    assert!(!passes(&guard, "http://8.8.8.8:82/"));
    assert!(!passes(&guard, "http://10.0.0.1:81/"));
}

#[test]
fn the_unspecified_address_is_refused_even_if_everything_is_listed() {
    let guard = guard_allowing([range("0.0.0.0/0"), range("::/0")]);
    assert!(!passes(&guard, "https://0.0.0.0/") && !passes(&guard, "https://[::]/"));
    assert!(passes(&guard, "https://0.0.0.1/") && passes(&guard, "https://[fd00::1]/"));
}

#[test]
fn a_range_that_holds_more_than_loopback_does_not_open_loopback() {
    let guard = Guard::new(Settings { allowed: vec![range("0.0.0.0/0")], ..Settings::default() });
    assert!(guard.vet_url("https://10.0.0.1/", FIRST).is_ok());
    for url in ["https://127.0.0.1/", "http://localhost:8071/", "http://127.8.0.1:9000/"] {
        assert!(guard.vet_url(url, FIRST).is_err(), "{url}");
    }
}

#[test]
fn a_nat64_prefix_of_the_network_is_denied() {
    let address = "[2001:470:64::a9fe:a9fe]:443".parse::<SocketAddr>().unwrap();
    assert!(Guard::new(Settings::default()).vet_address(address, FIRST).is_ok());
    let nat64_prefixes = vec!["2001:470:64::/96".parse().unwrap()];
    let guard = Guard::new(Settings { nat64_prefixes, ..Settings::default() });
    assert!(guard.vet_address(address, FIRST).is_err());
}
