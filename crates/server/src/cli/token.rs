//! `redial token`: make, list and revoke API tokens of a running server, over its API. On the server's own
//! machine this needs no token, if its store is a file.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use domain::span;
use http::Method;
use serde_json::{Value, json};
use url::Url;

use super::access::{self, Local};
use super::client::Client;
use super::table::{Side, Table};
use super::{Failure, Streams};
use crate::config::{Configuration, Hidden, Sources};

/// How many tokens a page of the list has.
const PAGE: u32 = 250;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a token and print it, this once
    Create(Create),
    /// List tokens, without what makes them work
    List(List),
    /// Revoke a token
    Revoke(Revoke),
}

/// Where the server is, and who asks.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The server's URL; without it, the server of the data directory, or else the one that the
    /// configuration names
    #[arg(long, value_name = "URL")]
    server: Option<Url>,
    /// The admin token to use; without it, none is needed on the server's machine if its store is a file,
    /// and elsewhere it is REDIAL_ADMIN_TOKEN
    #[arg(long)]
    token: Option<String>,
    /// The server's data directory
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// A name for people
    name: String,
    /// The application it is for, by id or uid; all otherwise
    #[arg(long, value_name = "APPLICATION")]
    application: Option<String>,
    /// It may only read
    #[arg(long)]
    read_only: bool,
    /// What a token for an application may do beside reading, such as send,replay; what the server's
    /// setting portal.may says otherwise
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',')]
    may: Option<Vec<String>>,
    /// How long it works, such as 90d; for ever otherwise
    #[arg(long, value_name = "SPAN")]
    lasts: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The token's public part, as the list shows it
    id: String,
    #[command(flatten)]
    connection: Connection,
}

impl Command {
    pub(crate) fn run(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Create(arguments) => create(arguments, streams).await,
                Self::List(arguments) => list(arguments, streams).await,
                Self::Revoke(arguments) => revoke(arguments, streams).await,
            }
        })
    }
}

impl Connection {
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let configuration = self.configuration()?;
        let local = match (&self.server, &self.token) {
            // What is in the data directory is for its own server alone.
            (None, None) => access::read(&configuration.data).map_err(Failure::Other)?,
            _ => None,
        };
        if let Some(Local { server, token }) = local {
            let server = server.parse().context("redial.access in the data directory has no URL");
            let client = server.and_then(|server| Client::new(server, Some(token)));
            return client.map_err(Failure::Other);
        }
        let server = match &self.server {
            Some(server) => server.clone(),
            None => own_url(&configuration).map_err(Failure::Other)?,
        };
        let token = configuration.admin_token.map(|Hidden(token)| token);
        let Some(token) = self.token.clone().or(token) else {
            return Err(Failure::Usage(format!(
                "there is no token to use, and no server runs on {}; name the data directory of one \
                 with --data, or give --token",
                configuration.data.display()
            )));
        };
        Client::new(server, Some(token)).map_err(Failure::Other)
    }

    /// Reads the configuration that the server would read, other options aside.
    fn configuration(&self) -> Result<Configuration, Failure> {
        let usage = |problem: crate::config::Problem| Failure::Usage(problem.to_string());
        let data = self.data.iter().map(|path| ("data".to_owned(), path.clone())).collect();
        let sources = Sources::of_process(self.config.clone(), data).map_err(usage)?;
        Configuration::read(sources).map_err(usage)
    }
}

/// Returns where a server with this configuration is reached from beside it.
pub(super) fn own_url(configuration: &Configuration) -> anyhow::Result<Url> {
    url_at(configuration.listen)
}

/// Returns the URL under which somebody on this machine reaches an address that is listened at.
pub(super) fn url_at(mut address: SocketAddr) -> anyhow::Result<Url> {
    if address.ip().is_unspecified() {
        let v4 = address.is_ipv4();
        let local: IpAddr = if v4 { [127, 0, 0, 1].into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(local);
    }
    format!("http://{address}").parse().context("the server's address makes no URL")
}

async fn create(arguments: &Create, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let lasts = arguments.lasts.as_deref().map(span::parse).transpose();
    let lasts = lasts.map_err(|error| Failure::Usage(format!("--lasts: {error}")))?;
    let body = json!({
        "name": arguments.name,
        "appId": arguments.application,
        "readOnly": arguments.read_only,
        "may": arguments.may,
        "expiry": lasts.map(|span| span.as_secs()),
    });
    let client = arguments.connection.client()?;
    let made = client.ask(Method::POST, "/token", Some(&body)).await.map_err(Failure::Other)?;
    if arguments.json {
        writeln!(streams.out, "{made:#}")?;
    } else {
        writeln!(streams.out, "{}", made["token"].as_str().unwrap_or_default())?;
        writeln!(streams.err, "this token is not shown again")?;
    }
    Ok(())
}

async fn list(arguments: &List, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let client = arguments.connection.client()?;
    let mut tokens = Vec::new();
    let mut path = format!("/token?limit={PAGE}");
    loop {
        let page = client.ask(Method::GET, &path, None).await.map_err(Failure::Other)?;
        tokens.extend(page["data"].as_array().cloned().unwrap_or_default());
        match page["iterator"].as_str().filter(|_| page["done"] == false) {
            Some(iterator) => path = format!("/token?limit={PAGE}&iterator={iterator}"),
            None => break,
        }
    }
    if arguments.json {
        writeln!(streams.out, "{:#}", Value::Array(tokens))?;
        return Ok(());
    }
    let headings = ["id", "name", "for", "may", "state"].map(|text| (text, Side::Left));
    let mut table = Table::new(headings);
    for token in &tokens {
        let text = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
        let reach = token["appId"].as_str().unwrap_or("everything").to_owned();
        table.row([text("id"), text("name"), reach, may(token), state(token)]);
    }
    write!(streams.out, "{table}")?;
    Ok(())
}

fn may(token: &Value) -> String {
    let words = token["may"].as_array().map_or(&[][..], Vec::as_slice);
    let words = ["read"].into_iter().chain(words.iter().filter_map(Value::as_str));
    if token["readOnly"] == true || token["may"].is_array() {
        words.collect::<Vec<_>>().join(",")
    } else {
        "change".to_owned()
    }
}

fn state(token: &Value) -> String {
    match (token["revokedAt"].as_str(), token["expiresAt"].as_str()) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("until {at}"),
        (None, None) => "for ever".to_owned(),
    }
}

async fn revoke(arguments: &Revoke, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let client = arguments.connection.client()?;
    let path = format!("/token/{}", arguments.id);
    client.ask(Method::DELETE, &path, None).await.map_err(Failure::Other)?;
    writeln!(streams.err, "revoked {}", arguments.id)?;
    Ok(())
}
