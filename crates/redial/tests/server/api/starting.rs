//! What an operator meets around a start: what the server says, what it does not mind, and how to get in.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::Finished;

/// `redial serve` as a process of its own. What it says goes to files beside its data.
struct Started {
    child: Child,
    directory: TempDir,
}

impl Started {
    fn new(options: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::again_in(TempDir::new().unwrap(), options, variables)
    }

    /// Starts it where one may have been before, and waits until it is ready.
    fn again_in(directory: TempDir, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let file = |name: &str| File::create(directory.path().join(name)).unwrap();
        let mut command = redial_in(directory.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]).args(options);
        command.envs(variables.iter().copied()).stdout(file("out")).stderr(file("err"));
        let mut started = Self { child: command.spawn().unwrap(), directory };
        let ready = |started: &mut Self| {
            assert_eq!(started.child.try_wait().unwrap(), None, "{}", started.err());
            started.out().ends_with('\n')
        };
        started.waits("to be ready", ready);
        started
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    fn out(&self) -> String {
        self.read("out")
    }

    fn err(&self) -> String {
        self.read("err")
    }

    #[track_caller]
    fn waits(&mut self, what: &str, is: impl Fn(&mut Self) -> bool) {
        for _ in 0..1_000 {
            if is(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("waited in vain {what}: {}{}", self.out(), self.err());
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns what it said on standard error, and its directory.
    fn stop(mut self) -> (String, TempDir) {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.err());
        let empty = TempDir::new().unwrap();
        (self.err(), std::mem::replace(&mut self.directory, empty))
    }

    /// Runs a command beside it.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
        let mut command = redial_in(self.directory.path());
        finished(command.args(arguments).envs(variables.iter().copied()))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redial_in(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.current_dir(directory).env_clear().stdin(Stdio::null());
    command
}

fn finished(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_banner_for_programs_is_one_line_of_json_like_the_log() {
    let started = Started::new(&["--set", "log.format=json"], &[]);
    let line: Value = serde_json::from_str(&started.out()).unwrap();
    let said = |name: &str| line["fields"][name].as_str().unwrap_or_default().to_owned();
    assert!(said("api").starts_with("http://127.0.0.1:"), "{line}");
    assert_eq!(said("docs"), format!("{}/docs", said("api")));
    assert!(said("admin_token").starts_with("rdl_") && !said("next").is_empty(), "{line}");
    let (log, _directory) = started.stop();
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    }
}

#[test]
fn variables_that_set_nothing_do_not_keep_a_server_from_starting() {
    let variables = [
        ("REDIAL_SERVICE_HOST", "10.0.0.1"),
        ("REDIAL_PORT", "tcp://10.0.0.1:8071"),
        ("REDIAL_PORT_8071_TCP_ADDR", "10.0.0.1"),
        ("REDIAL_LISTN", "127.0.0.1:1"),
    ];
    let started = Started::new(&[], &variables);
    let (log, _directory) = started.stop();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].contains("REDIAL_LISTN") && warnings[0].contains("`REDIAL_LISTEN`"),
        "{log}"
    );
}

#[test]
fn a_command_on_the_servers_machine_needs_no_token() {
    let started = Started::new(&[], &[("REDIAL_ADMIN_TOKEN", "the-first-admin-token")]);
    let stale = [("REDIAL_ADMIN_TOKEN", "another-admin-token")];
    let data = ["--data", "data"];
    for variables in [&[][..], &stale] {
        let made = started.run(&[&["token", "create", "robot"][..], &data].concat(), variables);
        assert_eq!(made.code, Some(0), "{}", made.err);
        let token = made.out.trim();
        let listed =
            started.run(&["token", "list", "--server", &api(&started), "--token", token], &[]);
        assert!(listed.out.contains("robot"), "{}{}", listed.out, listed.err);
    }
    let access = started.directory.path().join("data/redial.access");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&access).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let wrong = ["token", "list", "--server", &api(&started), "--token", "another-admin-token"];
    let refused = started.run(&wrong, &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("on the server's machine no token is needed"), "{}", refused.err);
    let kept = fs::read_to_string(&access).unwrap();
    let (_, directory) = started.stop();
    assert!(!directory.path().join("data/redial.access").exists(), "it goes with the server");
    // What a killed server leaves opens nothing.
    let started = Started::again_in(directory, &[], &[]);
    let local: Value = serde_json::from_str(&kept).unwrap();
    let token = local["token"].as_str().unwrap();
    let refused =
        started.run(&["token", "list", "--server", &api(&started), "--token", token], &[]);
    assert!(refused.err.contains("401"), "{}", refused.err);
    let (_, directory) = started.stop();
    let nowhere = finished(redial_in(directory.path()).args(["token", "list", "--data", "data"]));
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.err.contains("no server runs on data"), "{}", nowhere.err);
}

fn api(started: &Started) -> String {
    let out = started.out();
    let line = out.lines().find_map(|line| line.strip_prefix("listening on "));
    line.unwrap().to_owned()
}

#[test]
fn an_admin_token_that_has_changed_is_told_with_how_to_get_in() {
    let mut directory = TempDir::new().unwrap();
    let table = [
        (Some("the-first-admin-token"), None),
        (Some("the-first-admin-token"), None),
        (Some("the-other-admin-token"), Some("is another one than at the last start")),
        (None, Some("was set at the last start and is not now")),
        (None, None),
    ];
    for (token, told) in table {
        let variables: Vec<_> = token.iter().map(|token| ("REDIAL_ADMIN_TOKEN", *token)).collect();
        let started = Started::again_in(directory, &[], &variables);
        let log;
        (log, directory) = started.stop();
        let warning = log.lines().find(|line| line.contains("admin_token"));
        assert_eq!(warning.is_some(), told.is_some(), "{token:?}: {log}");
        let text = warning.unwrap_or_default();
        assert!(text.contains(told.unwrap_or_default()), "{text}");
        assert!(told.is_none() || text.contains("redial token create"), "{text}");
        assert!(!log.contains("-admin-token"), "{log}");
    }
}

/// Writes a certificate that signs itself, with its key; returns it as the peer shows it.
fn certify(directory: &Path) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    certificate.der().to_vec()
}

/// Shakes hands, and returns the certificate that the server shows.
fn shown(address: &str, roots: &[&[u8]]) -> Option<Vec<u8>> {
    let mut store = rustls::RootCertStore::empty();
    for root in roots {
        store.add(root.to_vec().into()).unwrap();
    }
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let stream = connector.connect(name, stream).await.ok()?;
        let shown = stream.get_ref().1.peer_certificates()?.first()?.to_vec();
        Some(shown)
    })
}

#[test]
fn a_hangup_has_the_certificate_read_again_and_ends_nothing() {
    let directory = TempDir::new().unwrap();
    let before = certify(directory.path());
    let options =
        ["--set=tls.listen=127.0.0.1:0", "--set=tls.certificate=cert.pem", "--set=tls.key=key.pem"];
    let mut started = Started::again_in(directory, &options, &[]);
    let out = started.out();
    let address = out.lines().find_map(|line| line.strip_prefix("listening on https://")).unwrap();
    assert_eq!(shown(address, &[&before]), Some(before.clone()));
    let after = certify(started.directory.path());
    started.signal(Signal::HUP);
    let roots = [&before[..], &after[..]];
    started.waits("for the other certificate", |_| shown(address, &roots) == Some(after.clone()));
    fs::write(started.directory.path().join("key.pem"), "nothing").unwrap();
    started.signal(Signal::HUP);
    started.waits("to be told", |it| it.err().contains("the certificate before stays in use"));
    assert_eq!(shown(address, &roots), Some(after.clone()));
    started.stop();
    // Without a certificate it is not the end either.
    let mut plain = Started::new(&[], &[]);
    plain.signal(Signal::HUP);
    plain.waits("to be told", |it| it.err().contains("SIGHUP: nothing is read again"));
    plain.stop();
}
