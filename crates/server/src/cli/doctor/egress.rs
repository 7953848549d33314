//! The way out: what the address guard lets through, whether names are found, whether the proxy
//! answers. Nothing is sent to any receiver.

use domain::address::{Guard, PlainHttp, Proxying, Settings};

use super::{Finding, State, found};
use crate::clock::SystemClock;
use crate::config::Configuration;
use crate::transport::{Resolver, prospect};

/// Looks at the way out, and where a URL would lead.
pub(super) async fn examine(
    configuration: &Configuration,
    url: Option<&str>,
    clock: &SystemClock,
) -> Vec<Finding> {
    let settings = &configuration.egress;
    let mut findings = vec![allowed(settings)];
    let resolver = match Resolver::system() {
        Ok(resolver) => resolver,
        Err(error) => {
            let text = format!("{error}; check /etc/resolv.conf");
            findings.push(found("names", State::Bad, text));
            return findings;
        }
    };
    let seen = prospect::look(&settings.proxying, &resolver, clock).await;
    findings.extend(seen.names.map(|answer| names(answer, settings)));
    findings.extend(seen.proxy.map(|answers| proxy(answers, &settings.proxying)));
    if let Some(url) = url {
        let guard = Guard::new(settings.clone());
        findings.push(match prospect::vet(&guard, &resolver, url).await {
            Ok(addresses) if addresses.is_empty() => {
                found("url", State::Good, "allowed here; the proxy decides about its addresses")
            }
            Ok(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                found("url", State::Good, format!("allowed, by way of {}", addresses.join(", ")))
            }
            Err(reason) => found("url", State::Bad, reason),
        });
    }
    findings
}

/// Says what the guard lets through.
fn allowed(settings: &Settings) -> Finding {
    let scheme = match settings.plain_http {
        PlainHttp::Refused => "https",
        PlainHttp::Allowed => "https and http",
    };
    let mut ports = vec!["80".to_owned(), "443".to_owned()];
    ports.extend(settings.extra_ports.iter().map(ToString::to_string));
    let mut text = format!(
        "{scheme} to public addresses on ports {} and from 1024 on, but for a few",
        ports.join(", ")
    );
    if !settings.allowed.is_empty() {
        let ranges: Vec<String> = settings.allowed.iter().map(ToString::to_string).collect();
        text = format!("{text}; also to {}, on any usable port", ranges.join(", "));
    }
    text = format!("{text}; {}", settings.proxying.announcement());
    match settings.proxying {
        Proxying::Trust(_) => found("egress", State::Doubtful, text),
        Proxying::Off | Proxying::Tunnel(_) => found("egress", State::Good, text),
    }
}

fn names(answer: bool, settings: &Settings) -> Finding {
    if answer {
        return found("names", State::Good, "the name servers answer");
    }
    let text = "the name servers do not answer: nothing can be delivered to an endpoint with a \
                name; check /etc/resolv.conf and the firewall";
    // Whoever opens a range may have endpoints without names, and no need for any.
    let state = if settings.allowed.is_empty() { State::Bad } else { State::Doubtful };
    found("names", state, text)
}

fn proxy(answers: bool, proxying: &Proxying) -> Finding {
    let place = match proxying {
        Proxying::Off => String::new(),
        Proxying::Tunnel(proxy) | Proxying::Trust(proxy) => proxy.to_string(),
    };
    if answers {
        return found("proxy", State::Good, format!("{place} takes calls"));
    }
    let text = format!(
        "{place} cannot be reached: nothing can be delivered; start it, or correct egress.proxy"
    );
    found("proxy", State::Bad, text)
}
