//! Tokens for the people of one application: made by whoever runs their portal, narrower than an
//! operator's, and ended by application or by session.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::rights::{Capability, Grant, Rights};
use store::catalog::{Ends, Expiry, Granted};

use super::fields::Checks;
use super::tokens::{Reach, Wish};
use super::{App, Caller, Error, Scope, applications, messages};

/// How long a portal's token works if nobody says.
const USUAL_SECONDS: u64 = 7 * 86_400;
/// How long it may work.
const SECONDS: std::ops::RangeInclusive<u64> = 3_600..=28 * 86_400;
/// For how long tokens may go on working that are told to end.
const LONGEST_ENDING: u64 = 28 * 86_400;
/// The most sessions that are ended at once.
const MOST_SESSIONS: usize = 250;

/// What a portal's token should be, not checked yet.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// The application to create if there is none of that name.
    pub application: Option<applications::Draft>,
    /// For how many seconds it works; a week if nobody says.
    pub seconds: Option<u64>,
    /// Whether it may only read.
    pub read_only: bool,
    /// What it is made for; all that the operator's setting says if nobody says.
    pub capabilities: Option<Vec<String>>,
    /// Which event types it sees beside those that need no flag.
    pub feature_flags: BTreeSet<String>,
    /// What the sender calls the session that it is made for.
    pub session: Option<String>,
}

impl Draft {
    fn rights(&self) -> Result<Grant, Error> {
        let mut checks = Checks::default();
        let seconds = self.seconds.unwrap_or(USUAL_SECONDS);
        let text = "must be between 1 hour and 28 days, in seconds";
        checks.holds("expiry", SECONDS.contains(&seconds), text);
        let words = self.capabilities.as_ref().map(|words| {
            let read = words.iter().map(|word| word.parse::<Capability>());
            let known: Vec<_> =
                read.filter_map(|read| checks.value("capabilities", read)).collect();
            known
        });
        checks.finish()?;
        let Some(capabilities) = words else { return Ok(Grant::Usual) };
        let rights = capabilities.into_iter().flat_map(Capability::rights);
        Ok(Grant::Within(rights.copied().collect::<Rights>()))
    }
}

impl App {
    /// Makes a token for an application's own people, and says where it can be used.
    ///
    /// # Errors
    /// If there is no such application and none to create, or what is asked for makes no sense.
    pub async fn portal_access(
        &self,
        caller: &Caller,
        application: &str,
        mut draft: Draft,
    ) -> Result<(String, String), Error> {
        let rights = draft.rights()?;
        let on_the_fly = draft.application.take();
        messages::check_uid(application, on_the_fly.as_ref())?;
        let id = match (self.enter(caller, application).await, on_the_fly) {
            (Ok(scope), _) => scope.application().id,
            (Err(Error::Missing(_)), Some(draft)) => {
                let made = self.ensure_application(caller, draft).await?.0;
                caller.act_in(made.id)?;
                made.id
            }
            (Err(error), _) => return Err(error),
        };
        let wish = Wish {
            name: format!("portal of {id}"),
            reach: Reach::Application(id),
            read_only: draft.read_only,
            granted: Granted { rights, feature_flags: draft.feature_flags },
            session: draft.session,
            lasts: Some(Duration::from_secs(draft.seconds.unwrap_or(USUAL_SECONDS))),
        };
        let (token, _) = self.create_token(caller.promise.as_ref(), wish).await?;
        // Behind the hash sign a browser keeps it to itself.
        let url = format!("{}/portal#token={token}", self.settings.public_url);
        Ok((url, token))
    }

    /// Ends tokens of an application, all or those of some sessions: at once here and within seconds
    /// elsewhere, or after some time.
    ///
    /// # Errors
    /// If the time is too long, there are too many sessions, or the store does not answer.
    pub async fn expire_tokens(
        &self,
        scope: &Scope,
        sessions: Vec<String>,
        seconds: Option<u64>,
    ) -> Result<(), Error> {
        let mut checks = Checks::default();
        let few = sessions.len() <= MOST_SESSIONS;
        checks.holds("sessionIds", few, &format!("may be at most {MOST_SESSIONS}"));
        let seconds = seconds.unwrap_or(0);
        let text = format!("must be at most {LONGEST_ENDING} seconds");
        checks.holds("expiry", seconds <= LONGEST_ENDING, &text);
        checks.finish()?;
        let now = self.clock.now();
        let ends = match seconds {
            0 => Ends::Now(now),
            seconds => Ends::Later(now.after(Duration::from_secs(seconds))),
        };
        let application = scope.application().id;
        self.catalog.expire_tokens(Expiry { application, sessions, ends }).await?;
        self.remembered.forget_tokens();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::rights::Right;

    use super::*;

    fn draft(words: &[&str]) -> Draft {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Draft { capabilities: Some(words), ..Draft::default() }
    }

    #[test]
    fn capabilities_narrow_what_the_setting_says() {
        assert_eq!(Draft::default().rights().unwrap(), Grant::Usual);
        let table: [(&[&str], &[Right]); 4] = [
            (&[], &[]),
            (&["ViewBase", "ManageTransformations"], &[]),
            (&["ViewBase", "ViewEndpointSecret"], &[Right::ViewSecrets]),
            (
                &["ManageEndpoint", "CreateAttempts"],
                &[Right::Endpoints, Right::Policies, Right::Secrets, Right::Replay],
            ),
        ];
        for (words, rights) in table {
            let rights = Grant::Within(rights.iter().copied().collect());
            assert_eq!(draft(words).rights().unwrap(), rights, "{words:?}");
        }
        let text = draft(&["ManageEndpoints"]).rights().unwrap_err().to_string();
        assert!(text.contains("did you mean `ManageEndpoint`?"), "{text}");
    }
}
