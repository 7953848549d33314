//! Redirects: which of them are followed, and what a request takes along.
//!
//! Where one may lead is the guard's to say ([`RedirectChain`]). Whatever the status, the request stays the
//! same: POST, with the same body. Where the endpoint's own origin is left, the signature, the endpoint's
//! headers and its credentials stay behind, unless the policy says otherwise: they are meant for one
//! receiver.

use bytes::Bytes;
use domain::address::{DeliverableUrl, Guard, NotFollowed, RedirectChain, Scheme};
use domain::policy::{HopHeaders, Redirects};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, response};
use http_body_util::Full;

use super::connect::Target;
use super::exchange::Outgoing;
use super::outcome::Failure;
use super::tls::server_name;

/// What every receiver gets: it says nothing about the endpoint.
const EVERYWHERE: [HeaderName; 5] =
    [USER_AGENT, ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, CONTENT_LENGTH];

/// The way of an attempt whose policy follows redirects.
pub(super) struct Trip<'a> {
    guard: &'a Guard,
    home: &'a Target,
    redirects: Redirects,
    chain: RedirectChain,
    /// As they were sent to the endpoint.
    headers: HeaderMap,
    payload: Bytes,
}

/// A redirect that is to be followed.
pub(super) struct Redirect {
    /// The status of the answer.
    pub(super) status: u16,
    /// Where it leads.
    pub(super) to: DeliverableUrl,
}

impl<'a> Trip<'a> {
    /// Begins a trip, if the policy follows redirects at all.
    pub(super) fn begin(
        (guard, home): (&'a Guard, &'a Target),
        redirects: Redirects,
        (request, payload): (&Outgoing, &Bytes),
    ) -> Option<Self> {
        (redirects.most_hops() > 0).then(|| Self {
            guard,
            home,
            redirects,
            chain: RedirectChain::begin(home.url.clone()),
            headers: request.headers().clone(),
            payload: payload.clone(),
        })
    }

    /// Decides where an answer leads; none if it is the last one.
    pub(super) fn next(&self, head: &response::Parts) -> Option<Result<Redirect, NotFollowed>> {
        let status = head.status.as_u16();
        let to =
            |location| self.chain.next(location, self.redirects, self.guard, self.home.application);
        let leads = || Ok(Redirect { status, to: to(location(&head.headers)?)? });
        self.redirects.follows(status).then(leads)
    }

    /// Follows a redirect: makes the request that goes there.
    pub(super) fn follow(&mut self, to: DeliverableUrl) -> Result<(Target, Outgoing), Failure> {
        let all = match self.redirects.headers() {
            HopHeaders::Everywhere => true,
            HopHeaders::SameOrigin => self.chain.is_at_home(&to),
        };
        let uri = Uri::try_from(to.expose_path_and_query()).map_err(|_| Failure::blocked_url())?;
        let host = HeaderValue::try_from(to.authority()).map_err(|_| Failure::blocked_url())?;
        let mut request = Request::new(Full::new(self.payload.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        for (name, value) in &self.headers {
            if name != HOST && (all || EVERYWHERE.contains(name)) {
                headers.append(name.clone(), value.clone());
            }
        }
        self.chain.follow(to.clone());
        let tls = matches!(to.scheme(), Scheme::Https);
        let target = Target {
            server_name: server_name(to.host()).filter(|_| tls),
            application: self.home.application,
            url: to,
        };
        Ok((target, request))
    }
}

/// Reads the header that says where a redirect leads.
fn location(headers: &HeaderMap) -> Result<&str, NotFollowed> {
    let mut all = headers.get_all(LOCATION).iter();
    let value = all.next().ok_or(NotFollowed::NoLocation)?;
    if all.next().is_some() {
        return Err(NotFollowed::SeveralLocations);
    }
    std::str::from_utf8(value.as_bytes()).map_err(|_| NotFollowed::NoText)
}
