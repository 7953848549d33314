//! The quick start of the README, run as it is written.
//!
//! Only the two ports are replaced, and the server is the one that was built for the tests, started
//! with the options that the README gives it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use testkit::server::free_ports;

use super::process::{Running, Server};
use super::python;

/// The ports as the README writes them.
const SERVER_PORT: &str = "8071";
const RECEIVER_PORT: &str = "9000";

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns the blocks of one language below a heading.
fn blocks(text: &str, heading: &str, language: &str) -> Vec<String> {
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let section = section.unwrap_or_else(|| panic!("the README has no section `{heading}`"));
    // Fences come in pairs: every second part is inside of one, and begins with its language.
    let inside = section.split("\n```").skip(1).step_by(2);
    inside
        .filter_map(|block| block.split_once('\n'))
        .filter(|(word, _)| *word == language)
        .map(|(_, lines)| format!("{lines}\n"))
        .collect()
}

/// Replaces texts, but not inside of what has replaced another: a free port may be 39000.
fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    let Some(((from, to), rest)) = pairs.split_first() else { return text.to_owned() };
    let parts: Vec<String> = text.split(from).map(|part| replaced(part, rest)).collect();
    parts.join(to)
}

/// The three terminals of the README.
struct Terminals {
    server: Server,
    receiver: Running,
    sender: Running,
    receiver_port: String,
}

impl Terminals {
    /// Starts the server and the receiver, and a shell for the rest.
    fn open(text: &str) -> Self {
        let start = blocks(text, "Start", "sh");
        let words: Vec<&str> = start[0].split_whitespace().collect();
        let token = words.iter().find_map(|word| word.strip_prefix("admin_token=")).unwrap();
        let serve = words.iter().position(|word| *word == "serve").unwrap();
        assert_eq!(words[..serve], ["cargo", "run", "--release", "--"], "{words:?}");
        let server = Server::start(&words[serve + 1..], token);

        let receiver_port = free_ports::<1>().unwrap()[0].to_string();
        let first = blocks(text, "Send a message", "sh").remove(0);
        let mut command = Command::new("bash");
        command.arg("-c").arg(replaced(&first, &[(RECEIVER_PORT, &receiver_port)]));
        let receiver = Running::start(command);

        let mut command = Command::new("bash");
        command.stdin(Stdio::piped());
        let sender = Running::start(command);
        Self { server, receiver, sender, receiver_port }
    }

    fn with_ports(&self, block: &str) -> String {
        let ports = [(SERVER_PORT, self.server.port()), (RECEIVER_PORT, &self.receiver_port)];
        replaced(block, &ports)
    }

    /// Types a block, and returns what it printed line by line.
    fn paste(&mut self, block: &str) -> Vec<String> {
        let before = self.sender.out().len();
        let block = self.with_ports(block);
        self.sender.types(&format!("{block}echo that was it\n"));
        let printed = self.sender.prints("the end of a block", |out| {
            out[before..].strip_suffix("that was it\n").map(str::to_owned)
        });
        printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits for that many arrivals: the id and the body of each.
    fn arrived(&self, count: usize) -> Vec<(String, String)> {
        let whole = |out: &str| {
            let lines = out.lines().filter(|line| line.starts_with("msg_"));
            let split =
                |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
            let arrivals: Vec<_> = lines.filter_map(split).collect();
            (out.ends_with('\n') && arrivals.len() >= count).then_some(arrivals)
        };
        self.receiver.prints(&format!("{count} arrivals"), whole)
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn the_quick_start_works_by_copy_and_paste() {
    let text = readme();
    let shell = blocks(&text, "Send a message", "sh");
    let [_, send, attempts, replay] = &shell[..] else { panic!("four blocks, not {shell:?}") };
    let mut terminals = Terminals::open(&text);

    // The receiver may need a moment to listen. A message to nobody would be tried again as well,
    // but the README promises one failure, not two.
    wait_for_listener(&terminals.receiver_port);
    let answers = terminals.paste(send);
    let [application, endpoint, message] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(json(application)["uid"], "example");
    assert_eq!(json(endpoint)["uid"], "first");
    let message = json(message)["id"].as_str().unwrap().to_owned();

    let arrivals = terminals.arrived(2);
    let expected = (message.clone(), r#"{"amount": 42}"#.to_owned());
    assert_eq!(arrivals, [expected.clone(), expected.clone()]);
    let recorded = || -> BTreeSet<u64> { BTreeSet::from([503, 204]) };
    let mut seen = BTreeSet::new();
    // The second answer is on record a moment after the receiver has given it.
    for _ in 0..100 {
        let page = terminals.paste(attempts);
        let data = json(&page[0])["data"].as_array().unwrap().clone();
        seen = data.iter().map(|it| it["responseStatusCode"].as_u64().unwrap()).collect();
        if seen == recorded() {
            break;
        }
    }
    assert_eq!(seen, recorded());

    let task = terminals.paste(replay);
    assert_eq!(json(&task[0])["task"], "endpoint.bulk-replay", "{task:?}");
    assert_eq!(terminals.arrived(3)[2], expected);

    for (count, major) in [(4, 1), (5, 2)] {
        let block = blocks(&text, "With the Python SDK", "python").concat();
        assert!(!block.is_empty(), "the README has no Python");
        let mut command = python(major);
        command.arg("-c").arg(terminals.with_ports(&block));
        let printed = Running::start(command).finish();
        let (id, _) = &terminals.arrived(count)[count - 1];
        assert!(printed.contains(id.as_str()), "{id} is not in:\n{printed}");
    }
}

/// Waits until somebody listens on a port of this machine.
fn wait_for_listener(port: &str) {
    let script = format!("until exec 3<>/dev/tcp/127.0.0.1/{port}; do sleep 0.05; done");
    let mut command = Command::new("bash");
    command.arg("-c").arg(script);
    Running::start(command).finish();
}

#[test]
fn a_port_that_holds_another_one_is_left_alone() {
    let pairs = [(SERVER_PORT, "39000"), (RECEIVER_PORT, "48071")];
    assert_eq!(replaced("a:8071 b:9000 c:8071", &pairs), "a:39000 b:48071 c:39000");
}
