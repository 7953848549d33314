//! What people change about applications and their names, and who hears that the catalog was changed.

use std::time::Duration;

use domain::ids::ApplicationId;
use engine::Event;
use store::catalog::{Application, Edit, EndpointEdit, Name, NewSecret};
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::Call;

use crate::agenda::Input;
use crate::bugs::Bug;
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};
use crate::people::Write;
use crate::world::World;

impl World {
    /// Draws a change of an application or of what signs for an endpoint.
    pub(crate) fn some_catalog_write(&mut self, endpoint: EndpointKey) -> Option<Write> {
        let application = self.chance.pick(&self.applications).copied()?;
        match self.chance.below(8) {
            0..=2 => {
                let grace = Duration::from_secs(self.chance.between(1, 20));
                let grace = if self.chance.percent(60) { Duration::ZERO } else { grace };
                let text = format!("whsec_{:016x}", self.chance.bits());
                Some(Write::Rotate { endpoint, text, grace })
            }
            3 | 4 => {
                let rate = self.chance.percent(70).then(|| self.chance.count(2, 60));
                Some(Write::LimitApplication { application, rate })
            }
            5 | 6 => {
                let to = self.chance.pick(&self.applications).copied()?;
                let has = |it: &Application| it.key == application && it.uid.is_some();
                let named = self.names_of_applications().into_iter().find(has);
                let name = named.and_then(|it| it.uid);
                name.filter(|_| to != application).map(|name| Write::MoveName {
                    name,
                    from: application,
                    to,
                })
            }
            _ if self.applications.len() > 1 && self.chance.percent(30) => {
                Some(Write::DeleteApplication(application))
            }
            _ => None,
        }
    }

    fn names_of_applications(&self) -> Vec<Application> {
        let page = store::page::Page { from: store::page::From::Start, limit: 16 };
        self.state.applications(&page).entries
    }

    /// Changes an application, or what signs for an endpoint; false if that is refused.
    pub(crate) fn write_catalog(&mut self, write: &Write) -> bool {
        let at = BEGINNING.after(self.now);
        match write {
            Write::Rotate { endpoint, text, grace } => {
                let Some((application, _)) = self.watch.place_of(*endpoint) else { return false };
                let secret =
                    store::catalog::Secret { text: text.clone(), created_at: at, expires_at: None };
                let ends = at.after(*grace);
                let edit = EndpointEdit::rotation(NewSecret { secret, grace_ends: ends });
                let rotated = self.state.change_endpoint((application, *endpoint), &edit, at);
                self.changed_if(rotated.is_ok(), application)
            }
            Write::LimitApplication { application, rate } => {
                let rate = *rate;
                let edit: Edit<Application> = Box::new(move |row: &Application| {
                    let mut row = row.clone();
                    row.settings.rate = rate;
                    Ok(row)
                });
                let changed = self.state.change_application(*application, &edit, at);
                self.changed_if(changed.is_ok(), *application)
            }
            Write::MoveName { name, from, to } => {
                let none = self.state.change_application(*from, &named(None), at);
                if !self.changed_if(none.is_ok(), *from) {
                    return false;
                }
                self.counters.count(Path::NameMoved);
                let named = self.state.change_application(*to, &named(Some(name.clone())), at);
                self.changed_if(named.is_ok(), *to)
            }
            Write::DeleteApplication(application) => {
                let deleted = self.state.delete_application(*application, at);
                if !self.changed_if(deleted.is_ok(), *application) {
                    return false;
                }
                self.counters.count(Path::ApplicationDeleted);
                self.applications.retain(|it| it != application);
                self.watch.application_deleted(*application, self.now);
                true
            }
            Write::Create(_)
            | Write::Change(_)
            | Write::Pause(_)
            | Write::Resume(_)
            | Write::Disable(_)
            | Write::Enable(_)
            | Write::Delete(_)
            | Write::Cancel(_)
            | Write::Expunge { .. }
            | Write::StartTask(..) => false,
        }
    }

    fn changed_if(&mut self, done: bool, application: ApplicationKey) -> bool {
        if done {
            self.catalog_changed(application);
        }
        done
    }

    /// Something about an application or its endpoints was changed: the watch takes it down, and the
    /// store calls every process. Calls may get lost.
    pub(crate) fn catalog_changed(&mut self, application: ApplicationKey) {
        let at = BEGINNING.after(self.now);
        let fan_out = self.state.fan_out(application, at).ok();
        let roster = fan_out.map(|fan_out| self.library.read(application, fan_out));
        self.watch.catalog_changed(application, roster.as_deref(), self.now);
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let processes: Vec<NodeRef> = processes.map(|process| process.me).collect();
        for me in processes {
            if self.chance.permille(self.plan.faults.lost_notifications) {
                self.counters.count(Path::ChangeUncalled);
                continue;
            }
            let wait = self.chance.millis(1, 60);
            self.reach_later(me, wait, Input::Event(Box::new(Event::Woken(Call::Changed))));
        }
    }

    /// Says which application has a name.
    pub(crate) fn named(&self, name: &str) -> Option<ApplicationKey> {
        let name = Name::<ApplicationId>::Uid(name.to_owned());
        self.state.application(&name).ok().map(|found| found.key)
    }

    /// Reads what was changed.
    pub(crate) fn changes(
        &self,
        since: Option<domain::time::Timestamp>,
    ) -> store::catalog::Changes {
        let mut changes = self.state.changes(BEGINNING.after(self.now), since, None);
        if self.bug == Some(Bug::ListNoChanges) {
            changes.applications.clear();
        }
        changes
    }
}

/// Gives an application a name, or takes it off.
fn named(uid: Option<String>) -> Edit<Application> {
    Box::new(move |row: &Application| Ok(Application { uid: uid.clone(), ..row.clone() }))
}
