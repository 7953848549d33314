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
        (read("", &[("REDIAL_DATABSE", "x")], &[]), "REDIAL_DATABSE", "`REDIAL_DATABASE`"),
        (read("", &[], &[("rol", "all")]), "--set", "`role`"),
    ];
    for (answer, place, meant) in table {
        let text = answer.unwrap_err();
        assert!(text.contains(place) && text.contains(meant), "{text}");
    }
    assert!(read("", &[("REDIAL_TEST_POSTGRES", "x"), ("HOME", "/")], &[]).is_ok());
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
        ("brand", "A B"),
        ("brand", "Forwarded"),
        ("signatures", "svix,rot13"),
        ("signatures", "event-id"),
        ("signatures", ""),
        ("signatures", "digest:Host"),
        ("signatures", "branded,digest:X-Redial-Signature"),
        ("policy", "{\"policy\": {\"max_attempts\": 0}}"),
        ("allow_egress", "10.0.0.1/8"),
        ("egress.extra_ports", "25"),
        ("egress.proxy_trust", "yes"),
        ("egress.proxy", "nowhere"),
        ("limits.body_bytes", "many"),
        ("limits.request_timeout", "30"),
        ("limits.connections", "0"),
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
fn attempts_are_signed_as_the_operator_says_where_nobody_else_does() {
    let usual = read("", &[], &[]).unwrap().signing;
    assert_eq!(usual, domain::signing::Signing::default());
    let file = "brand = \"Acme\"\nsignatures = [\"branded\", \"v0:X-Sig:X-At\"]\n";
    let signing = read(file, &[], &[]).unwrap().signing;
    let profiles: Vec<String> = signing.profiles.iter().map(ToString::to_string).collect();
    assert_eq!(profiles, ["branded:Acme", "v0:X-Sig:X-At"]);
    let variable = [("REDIAL_SIGNATURES", "svix, digest:Acme-Signature")];
    assert_eq!(read(file, &variable, &[]).unwrap().signing.profiles.len(), 2);
    // The server's policy can collide with its brand.
    let policy = "[policy.endpoint]\nsignatures = [\"branded\", \"digest:X-Acme-Signature\"]\n";
    let refusal = read(&format!("brand = \"Acme\"\n{policy}"), &[], &[]).unwrap_err();
    assert!(refusal.contains("both write the header X-Acme-Signature"), "{refusal}");
    assert!(read(policy, &[], &[]).is_ok());
}

#[test]
fn every_setting_is_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&table()), "docs/configuration.md should have:\n{}", table());
}
