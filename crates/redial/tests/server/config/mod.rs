//! The configuration: what wins, what is refused, and what is documented.

use redial::config::{Configuration, Role, Sources, table};

fn read(
    file: &str,
    variables: &[(&str, &str)],
    options: &[(&str, &str)],
) -> Result<Configuration, String> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let sources = Sources {
        file: Some(("redial.toml".to_owned(), file.to_owned())),
        environment: owned(variables),
        options: owned(options),
    };
    Configuration::read(sources).map_err(|problem| problem.to_string())
}

#[test]
fn an_option_outweighs_the_environment_which_outweighs_the_file() {
    let file = "listen = \"127.0.0.1:1\"\n[limits]\nin_flight = 5\n";
    let variables = [("REDIAL_LISTEN", "127.0.0.1:2"), ("REDIAL_LIMITS_IN_FLIGHT", "6")];
    assert_eq!(read(file, &[], &[]).unwrap().listen.port(), 1);
    let configuration = read(file, &variables, &[("listen", "127.0.0.1:3")]).unwrap();
    assert_eq!((configuration.listen.port(), configuration.limits.in_flight), (3, 6));
    assert_eq!(read("", &[], &[]).unwrap().listen.to_string(), "127.0.0.1:8071");
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    let table = [
        (read("lisen = \"x\"\n", &[], &[]), "redial.toml: lisen", "`listen`"),
        (read("[limits]\nin_fligt = 1\n", &[], &[]), "limits.in_fligt", "`limits.in_flight`"),
        (read("", &[], &[("rol", "all")]), "--set", "`role`"),
    ];
    for (answer, place, meant) in table {
        let text = answer.unwrap_err();
        assert!(text.contains(place) && text.contains(meant), "{text}");
    }
}

#[test]
fn a_variable_that_sets_nothing_is_a_warning_with_the_nearest_name() {
    let told = |name: &str, value: &str| -> Vec<String> {
        let configuration = read("", &[(name, value)], &[]).unwrap();
        configuration.warnings.iter().map(ToString::to_string).collect()
    };
    let table = [
        ("REDIAL_DATABSE", "x", Some("`REDIAL_DATABASE`")),
        ("REDIAL_LIMITS_IN_FLIGT", "5", Some("`REDIAL_LIMITS_IN_FLIGHT`")),
        ("REDIAL_PORT", "8071", Some("`REDIAL_LISTEN`")),
        ("REDIAL_HOST", "localhost", Some("`REDIAL_LISTEN`")),
        ("REDIAL_WEATHER", "fine", Some("docs/configuration.md")),
        // Nothing of ours.
        ("REDIAL_TEST_POSTGRES", "x", None),
        ("HOME", "/", None),
        ("REDIAL_LISTN", "", None),
        // What Kubernetes and Docker set for a service that is called so, or whose name begins so.
        ("REDIAL_SERVICE_HOST", "10.0.0.1", None),
        ("REDIAL_SERVICE_PORT", "8071", None),
        ("REDIAL_SERVICE_PORT_HTTP", "8071", None),
        ("REDIAL_PORT", "tcp://10.0.0.1:8071", None),
        ("REDIAL_PORT_8071_TCP", "tcp://10.0.0.1:8071", None),
        ("REDIAL_PORT_8071_TCP_PROTO", "tcp", None),
        ("REDIAL_PORT_8071_TCP_PORT", "8071", None),
        ("REDIAL_PORT_8071_TCP_ADDR", "10.0.0.1", None),
        ("REDIAL_API_SERVICE_HOST", "10.0.0.1", None),
        ("REDIAL_DATABASE_PORT_5432_TCP_ADDR", "10.0.0.1", None),
    ];
    for (name, value, meant) in table {
        let warnings = told(name, value);
        assert_eq!(warnings.len(), usize::from(meant.is_some()), "{name}={value}: {warnings:?}");
        let text = warnings.concat();
        assert!(text.contains(meant.unwrap_or_default()), "{text}");
    }
}

#[test]
fn what_is_no_address_to_listen_at_says_what_to_write() {
    let table = [
        ("localhost:1", "not a name; write 127.0.0.1:1 "),
        ("127.0.0.1", "it has no port; write 127.0.0.1:8071"),
        ("::1", "it has no port; write [::1]:8071"),
        (":9000", "write 127.0.0.1:9000 "),
        ("9000", "write 127.0.0.1:9000 "),
        ("0.0.0.0:99999", "a port is at most 65535"),
        ("http://127.0.0.1:8071", "leave out what is in front"),
        ("nowhere", "0.0.0.0:8071 for every network"),
    ];
    for (text, advice) in table {
        for name in ["listen", "metrics.listen"] {
            let refusal = read("", &[], &[(name, text)]).unwrap_err();
            assert!(refusal.contains(advice) && refusal.contains(text), "{name}: {refusal}");
        }
    }
    assert_eq!(read("", &[], &[("listen", "[::1]:5")]).unwrap().listen.port(), 5);
}

#[test]
fn a_policy_may_be_a_file() {
    let directory = tempfile::TempDir::new().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(place("mine.toml"), "[policy]\nmax_attempts = 3\n").unwrap();
    std::fs::write(place("mine.json"), "{\"policy\": {\"max_attempts\": 3}}").unwrap();
    for name in ["mine.toml", "mine.json"] {
        let policy = read("", &[], &[("policy", &place(name))]).unwrap().policy.policy;
        assert_eq!(policy.limits.max_attempts().unwrap().get(), 3, "{name}");
        let file = format!("policy = \"{}\"\n", place(name));
        assert_eq!(read(&file, &[], &[]).unwrap().policy.policy, policy, "{name}");
    }
    let missing = read("", &[], &[("policy", &place("stripe.toml"))]).unwrap_err();
    assert!(missing.contains("--policy: cannot read the policy file"), "{missing}");
    assert!(missing.ends_with("did you mean the policy `stripe`?"), "{missing}");
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_place() {
    let table = [
        ("listen", "nowhere"),
        ("role", "worker"),
        ("role", "wroker"),
        ("database", "postgres://x/y"),
        ("admin_token", "short"),
        ("encryption_key", "c2hvcnQ="),
        ("policy", "stripy"),
        ("policy", "{\"policy\": {\"max_attempts\": 0}}"),
        ("allow_egress", "10.0.0.1/8"),
        ("egress.extra_ports", "25"),
        ("egress.proxy_trust", "yes"),
        ("egress.proxy", "nowhere"),
        ("limits.body_bytes", "many"),
        ("limits.request_timeout", "30"),
        ("limits.connections", "0"),
        ("limits.shared_addresses", "localhost"),
        ("database_connections", "2"),
        ("retention.messages", "11h59m"),
        ("log.format", "xml"),
    ];
    for (name, value) in table {
        let text = read("", &[], &[(name, value)]).unwrap_err();
        let option = ["listen", "role", "database", "policy", "allow_egress"].contains(&name);
        let option = if option { name.replace('_', "-") } else { format!("set {name}") };
        let named = text.contains(&format!("--{option}")) || text.contains("encryption_key");
        assert!(named && !text.contains("c2hvcnQ="), "{name}: {text}");
    }
}

#[test]
fn messages_are_kept_as_long_as_their_idempotency_keys_count() {
    let refusal = read("", &[], &[("retention.messages", "11h59m")]).unwrap_err();
    assert!(refusal.contains("12h or more"), "{refusal}");
    let shortest = read("", &[], &[("retention.messages", "12h")]).unwrap();
    assert_eq!(shortest.retention.messages, store::limits::IDEMPOTENCY);
}

#[test]
fn a_fleet_has_a_database_and_a_key() {
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let options = [("database", "postgres://x/y"), ("encryption_key", key), ("role", "api")];
    let configuration = read("", &[], &options).unwrap();
    assert_eq!(configuration.role, Role::Api);
    let shown = format!("{configuration:?}");
    assert!(!shown.contains("postgres://x/y") && !shown.contains("48, 49"), "{shown}");
}

#[test]
fn a_policy_may_be_a_document_in_the_file() {
    let file = "[policy]\nextends = \"redial\"\n[policy.policy]\nmax_attempts = 3\n";
    let policy = read(file, &[], &[]).unwrap().policy.policy;
    assert_eq!(policy.limits.max_attempts().unwrap().get(), 3);
}

#[test]
fn every_setting_is_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&table()), "docs/configuration.md should have:\n{}", table());
}
