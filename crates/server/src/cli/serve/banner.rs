//! What a server says once it is ready: who it is, where it is reached, and what to do next. For people
//! in lines, for programs as one line of JSON in the form of the log's.

use std::io::{self, Write};

use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::config::LogFormat;

/// What there is to say.
#[derive(Debug)]
pub(super) struct Banner {
    /// Where the API is.
    pub(super) api: String,
    /// Where it is over TLS, if it is.
    pub(super) tls: Option<String>,
    /// Where the metrics are, if they are shown.
    pub(super) metrics: Option<String>,
    /// Where people read how to use the API, if it is served here.
    pub(super) docs: Option<String>,
    /// Where the data is.
    pub(super) data: String,
    /// By which way deliveries go.
    pub(super) egress: String,
    /// The admin token, if this start made it.
    pub(super) first_token: Option<String>,
    /// When that is.
    pub(super) at: Timestamp,
}

impl Banner {
    pub(super) fn write(&self, format: LogFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            LogFormat::Text => self.lines(out)?,
            LogFormat::Json => writeln!(out, "{}", self.json())?,
        }
        out.flush()
    }

    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "redial {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "listening on {}", self.api)?;
        if let Some(place) = &self.tls {
            writeln!(out, "listening on {place}")?;
        }
        if let Some(place) = &self.metrics {
            writeln!(out, "metrics are at {place}")?;
        }
        if let Some(place) = &self.docs {
            writeln!(out, "the API is described at {place}")?;
        }
        writeln!(out, "data is in {}", self.data)?;
        writeln!(out, "{}", self.egress)?;
        if let Some(token) = &self.first_token {
            writeln!(out, "admin token, shown this once: {token}")?;
        }
        writeln!(out, "next: {}", self.next())
    }

    fn json(&self) -> Value {
        let (mut fields, next) = (Map::new(), self.next());
        let pairs = [
            ("message", Some("the server is ready")),
            ("version", Some(env!("CARGO_PKG_VERSION"))),
            ("api", Some(self.api.as_str())),
            ("tls", self.tls.as_deref()),
            ("metrics", self.metrics.as_deref()),
            ("docs", self.docs.as_deref()),
            ("data", Some(self.data.as_str())),
            ("egress", Some(self.egress.as_str())),
            ("admin_token", self.first_token.as_deref()),
            ("next", Some(next.as_str())),
        ];
        for (name, value) in pairs {
            fields.extend(value.map(|value| (name.to_owned(), value.into())));
        }
        json!({
            "timestamp": jiff::Timestamp::from_microsecond(self.at.as_micros()).ok().map(|at| format!("{at:.6}")),
            "level": "INFO",
            "fields": fields,
            "target": "redial::cli::serve",
        })
    }

    fn next(&self) -> String {
        match (&self.first_token, &self.docs) {
            (Some(_), Some(docs)) => format!(
                "keep that token, and make an application with it: POST {}/api/v1/app, as {docs} \
                 shows",
                self.api
            ),
            (_, Some(_)) => "redial doctor looks whether all is well, redial token create makes a \
                             token"
                .to_owned(),
            (_, None) => "redial doctor looks whether all is well".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(first_token: Option<&str>) -> Banner {
        Banner {
            api: "http://127.0.0.1:8071".to_owned(),
            tls: None,
            metrics: None,
            docs: Some("http://127.0.0.1:8071/docs".to_owned()),
            data: "./redial-data".to_owned(),
            egress: "deliveries go straight to vetted addresses".to_owned(),
            first_token: first_token.map(str::to_owned),
            at: Timestamp::from_seconds(1_800_000_000),
        }
    }

    fn written(banner: &Banner, format: LogFormat) -> String {
        let mut out = Vec::new();
        banner.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_get_lines_that_begin_with_who_it_is_and_end_with_what_to_do() {
        let text = written(&banner(Some("rdl_x")), LogFormat::Text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], concat!("redial ", env!("CARGO_PKG_VERSION")));
        assert_eq!(lines[1], "listening on http://127.0.0.1:8071");
        assert!(lines.contains(&"admin token, shown this once: rdl_x"), "{text}");
        assert!(lines.last().unwrap().starts_with("next: keep that token"), "{text}");
        let later = written(&banner(None), LogFormat::Text);
        assert!(later.lines().last().unwrap().starts_with("next: redial doctor"), "{later}");
    }

    #[test]
    fn programs_get_one_line_of_json() {
        let text = written(&banner(Some("rdl_x")), LogFormat::Json);
        assert_eq!(text.lines().count(), 1);
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["level"], &line["fields"]["admin_token"]),
            (&json!("INFO"), &json!("rdl_x"))
        );
        assert_eq!(line["timestamp"], "2027-01-15T08:00:00.000000Z");
        assert_eq!(line["fields"]["docs"], "http://127.0.0.1:8071/docs");
        assert!(line["fields"].get("tls").is_none());
    }
}
