//! Rosters as processes read them. A policy is read once and not each time: reading documents
//! would take longer than everything else that is simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::ids::ApplicationId;
use engine::roster::{Member, Roster};
use store::catalog::{EndpointView, FanOut};
use store::keys::{ApplicationKey, EndpointKey};

use crate::plan;

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Library {
    members: BTreeMap<EndpointKey, Known>,
}

/// A member, and what it was read from.
#[derive(Debug)]
struct Known {
    view: EndpointView,
    rate: Option<u32>,
    member: Arc<Member>,
}

impl Library {
    /// Reads a roster from what the catalog returned.
    pub(crate) fn read(&mut self, application: ApplicationKey, fan_out: FanOut) -> Arc<Roster> {
        let FanOut { application: id, revision, version, policy, rate, endpoints } = fan_out;
        let read = |view| self.member((application, id), view, rate);
        let members = endpoints.into_iter().filter_map(read).collect();
        let endpoints = Vec::new();
        let empty = FanOut { application: id, revision, version, policy, rate, endpoints };
        Arc::new(Roster::read(application, empty, &plan::policies()).with(members))
    }

    fn member(
        &mut self,
        (application, id): (ApplicationKey, ApplicationId),
        view: EndpointView,
        rate: Option<u32>,
    ) -> Option<Arc<Member>> {
        let key = view.endpoint.key;
        let policy = |view: &EndpointView| view.endpoint.settings.policy.clone();
        let known = self.members.get(&key);
        let member = match known.filter(|known| policy(&known.view) == policy(&view)) {
            Some(known) if known.view == view && known.rate == rate => {
                return Some(Arc::clone(&known.member));
            }
            Some(Known { member: known, .. }) => {
                let member = Member {
                    application: id,
                    view: view.clone(),
                    policy: known.policy.clone(),
                    defaults: Arc::clone(&known.defaults),
                    complaint: None,
                };
                Arc::new(member.capped(rate))
            }
            None => {
                let (policy, endpoints) = (None, vec![view.clone()]);
                let (revision, version) = (0, 0);
                let alone = FanOut { application: id, revision, version, policy, rate, endpoints };
                let roster = Roster::read(application, alone, &plan::policies());
                roster.members.into_iter().next()?
            }
        };
        self.members.insert(key, Known { view, rate, member: Arc::clone(&member) });
        Some(member)
    }
}
