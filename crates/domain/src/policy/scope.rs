//! Which policy applies: the first that exists, from the message outwards to the server.

/// Where a policy was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// On this message.
    Message,
    /// On the endpoint.
    Endpoint,
    /// On the message's event type.
    EventType,
    /// On the application.
    Application,
    /// On the server; there always is one.
    Server,
}

impl Scope {
    /// Returns the word that the API uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Endpoint => "endpoint",
            Self::EventType => "eventType",
            Self::Application => "application",
            Self::Server => "server",
        }
    }
}

/// The policies that could apply to one delivery.
#[derive(Debug, Clone, Copy)]
pub struct Scopes<P> {
    /// Of the message.
    pub message: Option<P>,
    /// Of the endpoint.
    pub endpoint: Option<P>,
    /// Of the event type.
    pub event_type: Option<P>,
    /// Of the application.
    pub application: Option<P>,
    /// Of the server.
    pub server: P,
}

impl<P> Scopes<P> {
    /// Returns the policy that applies, and where it was set.
    #[must_use]
    pub fn applicable(self) -> (Scope, P) {
        let set = [
            (Scope::Message, self.message),
            (Scope::Endpoint, self.endpoint),
            (Scope::EventType, self.event_type),
            (Scope::Application, self.application),
        ];
        let nearest = set.into_iter().find_map(|(scope, policy)| Some((scope, policy?)));
        nearest.unwrap_or((Scope::Server, self.server))
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset;
    use super::*;

    #[test]
    fn the_nearest_scope_that_has_a_policy_wins() {
        let policy = &preset("stripe").unwrap().policy;
        let server = &preset("redial").unwrap().policy;
        let mut scopes =
            Scopes { message: None, endpoint: None, event_type: None, application: None, server };
        assert_eq!(scopes.applicable(), (Scope::Server, server));
        scopes.application = Some(policy);
        assert_eq!(scopes.applicable(), (Scope::Application, policy));
        scopes.event_type = Some(policy);
        assert_eq!(scopes.applicable().0, Scope::EventType);
        scopes.endpoint = Some(policy);
        assert_eq!(scopes.applicable().0, Scope::Endpoint);
        scopes.message = Some(policy);
        assert_eq!(scopes.applicable().0, Scope::Message);
    }
}
