//! From what was written to what is meant: spans, sizes, lists, addresses.
//!
//! A variable and an option are always text, a file has types; both are taken where they say the
//! same, so that `limits.in_flight = 500` and `REDIAL_LIMITS_IN_FLIGHT=500` do.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use domain::nearest::nearest;
use domain::span;
use toml::Value;

use super::Problem;
use super::gather::{Entry, Gathered};

/// The units of sizes, largest first: a unit may end in another one's name.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Entry {
    fn problem(&self, text: impl Into<String>) -> Problem {
        Problem::new(&self.origin, text.into())
    }

    fn text(&self) -> Result<String, Problem> {
        match &self.value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Boolean(flag) => Ok((if *flag { "yes" } else { "no" }).to_owned()),
            Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
                Err(self.problem("is not a text; put it in quotes"))
            }
        }
    }
}

/// Says what is wrong with a text that should be an address to listen at, and what to write instead.
fn no_address(text: &str) -> String {
    let text = text.trim();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let number = port.parse::<u32>().ok();
    let both = |port: &str| {
        format!(
            "write 127.0.0.1:{port} for this machine alone, or 0.0.0.0:{port} for every network"
        )
    };
    let advice = if text.contains("://") {
        "leave out what is in front of the address, and write 127.0.0.1:8071".to_owned()
    } else if text.parse::<IpAddr>().is_ok() {
        let bracketed = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
        format!("it has no port; write {bracketed}:8071")
    } else if number.is_some_and(|port| port > u32::from(u16::MAX)) {
        format!("a port is at most {}; {}", u16::MAX, both("8071"))
    } else if host.is_empty() && number.is_some() {
        both(port)
    } else if port.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty()
    {
        both(text)
    } else if number.is_some() {
        format!("it must be an IP address, not a name; {}", both(port))
    } else {
        both("8071")
    };
    format!("`{text}` is no address to listen at: {advice}")
}

impl Gathered {
    /// Reads a text, if there is one.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        self.entry(name).map(|entry| entry.text()).transpose()
    }

    /// Reads something that is written as one text, if there is one.
    pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        let text = entry.text()?;
        let parsed = text
            .parse()
            .map_err(|error: T::Err| entry.problem(format!("`{text}` cannot be read: {error}")));
        parsed.map(Some)
    }

    /// Reads an address to listen at, if there is one.
    pub(super) fn address(&self, name: &str) -> Result<Option<SocketAddr>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let read = text.trim().parse().map_err(|_| self.wrong(name, &no_address(&text)));
        read.map(Some)
    }

    /// Reads an address to listen at.
    pub(super) fn required_address(&self, name: &str) -> Result<SocketAddr, Problem> {
        self.address(name)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// Reads a list, written as one or with commas. Missing is empty.
    pub(super) fn list<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Vec<T>, Problem> {
        let Some(entry) = self.entry(name) else { return Ok(Vec::new()) };
        let items = match &entry.value {
            Value::Array(items) => {
                let text = |value: &Value| Entry { value: value.clone(), ..entry.clone() }.text();
                items.iter().map(text).collect::<Result<Vec<_>, _>>()?
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Boolean(_)
            | Value::Float(_)
            | Value::Datetime(_)
            | Value::Table(_) => entry.text()?.split(',').map(|it| it.trim().to_owned()).collect(),
        };
        let parse = |text: String| {
            text.parse()
                .map_err(|error: T::Err| entry.problem(format!("`{text}` cannot be read: {error}")))
        };
        items.into_iter().filter(|item| !item.is_empty()).map(parse).collect()
    }

    /// Reads a whole number of 1 or more.
    pub(super) fn number(&self, name: &str) -> Result<u32, Problem> {
        let number: Option<u32> = self.parsed(name)?;
        number.filter(|number| *number > 0).ok_or_else(|| self.wrong(name, "must be 1 or more"))
    }

    /// Reads a span of time that is not zero.
    pub(super) fn span(&self, name: &str) -> Result<Duration, Problem> {
        let text = self.text(name)?.unwrap_or_default();
        let span = span::parse(&text).map_err(|error| self.wrong(name, &error.to_string()))?;
        Some(span).filter(|it| !it.is_zero()).ok_or_else(|| self.wrong(name, "must not be zero"))
    }

    /// Reads a span of time that is not zero, if there is one.
    pub(super) fn span_if_any(&self, name: &str) -> Result<Option<Duration>, Problem> {
        self.entry(name).map(|_| self.span(name)).transpose()
    }

    /// Reads a number of bytes: `1048576`, `64MiB`.
    pub(super) fn size(&self, name: &str) -> Result<u64, Problem> {
        let text = self.text(name)?.unwrap_or_default();
        let unit = SIZES.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
        let (digits, scale) = unit.unwrap_or((&text, 1));
        let count: Option<u64> = digits.trim().parse().ok();
        let bytes = count.and_then(|count| count.checked_mul(scale)).filter(|bytes| *bytes > 0);
        bytes
            .ok_or_else(|| self.wrong(name, "is not a size; write for example 65536, 512KiB, 1MiB"))
    }

    /// Reads a yes or a no.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name)?.unwrap_or_default().as_str() {
            "yes" | "true" | "1" => Ok(true),
            "no" | "false" | "0" => Ok(false),
            _ => Err(self.wrong(name, "must be yes or no")),
        }
    }

    /// Reads one of a few words.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.text(name)?.unwrap_or_default();
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(*meant);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint = match nearest(&text, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("write one of {}", known.join(", ")),
        };
        Err(self.wrong(name, &format!("`{text}` is not one of its words; {hint}")))
    }

    /// Says what is wrong with a setting, and where it stands.
    pub(super) fn wrong(&self, name: &str, text: &str) -> Problem {
        match self.entry(name) {
            Some(entry) => entry.problem(text),
            None => Problem::new(name, text.to_owned()),
        }
    }
}
