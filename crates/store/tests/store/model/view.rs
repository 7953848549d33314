//! All that can be seen of a store, in words.

use domain::ids::DeliveryId;
use domain::partition::Partition;
use store::catalog::Name;
use store::conformance::NOW;
use store::keys::{DeliveryKey, MessageKey};
use store::ledger::{AttemptFilter, DeliveryEntry, DeliveryFilter, MessageFilter};
use store::page::{From, Page};
use store::queue::turn::SCHEDULED;
use store::queue::{Load, Minute, Request, RequestKind, Rollups, Subject};

use super::world::{World, word};

impl World {
    /// Words everything that living applications have.
    pub(super) async fn view(&self) -> String {
        let mut words = Vec::new();
        for application in self.living().await {
            let (id, uid) = (application.id, &application.uid);
            words.push(format!(
                "application {id} {uid:?} {} {}",
                application.revision, application.version
            ));
            self.view_endpoints(&application, &mut words).await;
            self.view_messages(&application, &mut words).await;
            let subject = Subject::Application(application.key);
            words.push(self.sums(subject).await);
        }
        words.push(self.sums(Subject::Whole).await);
        for (application, key, id) in &self.notes.messages {
            let found = self.store().ledger.message(application.key, Name::Id(*id)).await;
            if self.is_living(application).await {
                let found = found.map(|entry| (entry.key == *key, entry.event_id, entry.payload));
                words.push(format!("message {id}: {}", word(found)));
            }
        }
        for task in &self.notes.tasks {
            let found = self.store().ledger.task(*task).await;
            let found = found.map(|task| {
                let cursor = task.cursor.map(|cursor| self.message_named(MessageKey(cursor.0)));
                (task.id, cursor, (task.replayed, task.skipped), task.state, task.updated_at)
            });
            words.push(word(found));
        }
        self.view_work(&mut words).await;
        words.join("\n")
    }

    async fn is_living(&self, application: &store::catalog::Application) -> bool {
        self.store().catalog.application(Name::Id(application.id)).await.is_ok()
    }

    async fn view_endpoints(
        &self,
        application: &store::catalog::Application,
        words: &mut Vec<String>,
    ) {
        let catalog = &self.store().catalog;
        let fan_out = catalog.fan_out(application.key, self.now()).await.unwrap();
        for view in fan_out.endpoints {
            let endpoint = view.endpoint;
            let told = (&endpoint.uid, endpoint.state, endpoint.order);
            words.push(format!("endpoint {} {told:?}", endpoint.id));
            let secrets = view.secrets.iter().map(|secret| (&secret.text, secret.expires_at));
            words.push(format!("{:?} {:?}", view.running, secrets.collect::<Vec<_>>()));
        }
        for endpoint in &self.notes.endpoints {
            if endpoint.application != application.key {
                continue;
            }
            for from in [i64::MIN, SCHEDULED] {
                let load = Load {
                    application: endpoint.application,
                    endpoint: endpoint.key,
                    from,
                    most: 1_000,
                    most_bytes: 1 << 20,
                };
                words.push(format!("pending for {}: {}", endpoint.id, self.load(load).await));
            }
            let ledger = &self.store().ledger;
            let (key, filter) = (endpoint.key, DeliveryFilter::default());
            let page = Page { from: From::Start, limit: 1_000 };
            let listed = ledger.deliveries(application.key, key, filter, page).await.unwrap();
            words.extend(listed.entries.iter().map(|entry| self.delivery_worded(entry)));
            let page = Page { from: From::Start, limit: 1_000 };
            let filter = AttemptFilter::default();
            let listed = ledger.attempts(application.key, key, filter, page).await.unwrap();
            for entry in listed.entries {
                let message = entry.message;
                let told = (entry.number, entry.next_due, entry.record);
                words.push(format!("attempt of {message} {told:?}"));
            }
            words.push(self.sums(Subject::Endpoint(key)).await);
        }
    }

    async fn view_messages(
        &self,
        application: &store::catalog::Application,
        words: &mut Vec<String>,
    ) {
        let ledger = &self.store().ledger;
        let filter = MessageFilter { with_payload: true, ..MessageFilter::default() };
        let page = Page { from: From::Start, limit: 1_000 };
        let listed = ledger.messages(application.key, filter, page).await.unwrap();
        for entry in listed.entries {
            let told = (&entry.event_type, &entry.event_id, entry.received_at, &entry.payload);
            words.push(format!("message {} {told:?}", entry.id));
            let of = ledger.deliveries_of(application.key, entry.key).await.unwrap();
            words.extend(of.iter().map(|entry| self.delivery_worded(entry)));
        }
        let page = Page { from: From::Start, limit: 1_000 };
        let filter = DeliveryFilter::default();
        let listed = ledger.dead_letters(application.key, filter, page).await.unwrap();
        let dead = listed.entries.iter().map(|entry| self.delivery_worded(entry));
        words.push(format!("dead letters: {:?}", dead.collect::<Vec<_>>()));
    }

    /// What the engine would find, for living applications.
    async fn view_work(&self, words: &mut Vec<String>) {
        let living = self.living().await;
        let is_living = |key| living.iter().any(|application| application.key == key);
        let all: Vec<_> = Partition::all().collect();
        let waiting = self.store().queue.waiting(all.clone()).await.unwrap();
        let theirs = waiting.iter().filter(|one| is_living(one.application));
        let mut worded: Vec<_> = theirs
            .map(|one| {
                let (due, scheduled) = (one.due, one.scheduled);
                format!("{} waits until {due:?}, {scheduled:?}", self.named(one.endpoint))
            })
            .collect();
        worded.sort_unstable();
        words.extend(worded);
        let requests = self.store().queue.requests(all).await.unwrap();
        let theirs = requests.iter().filter(|one| is_living(one.application));
        words.extend(theirs.map(|request| self.request_worded(request)));
    }

    fn request_worded(&self, request: &Request) -> String {
        let what = match request.kind {
            RequestKind::ResetBreaker => "reset".to_owned(),
            RequestKind::EndPause => "end its pause".to_owned(),
            RequestKind::Refresh => "refresh".to_owned(),
            RequestKind::RetryNow(message) => format!("retry {}", self.message_named(message)),
            RequestKind::Cancel(message) => format!("cancel {}", self.message_named(message)),
        };
        format!("{} is asked to {what} at {:?}", self.named(request.endpoint), request.at)
    }

    fn delivery_worded(&self, entry: &DeliveryEntry) -> String {
        let DeliveryKey { endpoint, .. } = entry.key;
        let derived = DeliveryId::derive(&entry.message, u64::try_from(endpoint.0).unwrap());
        assert_eq!(entry.id, derived);
        let endpoint = self.named(endpoint);
        let told = (entry.state, entry.settled_at, entry.recorded);
        let last = (entry.last_attempt, entry.last_status);
        format!("{} to {endpoint}: {told:?} {last:?}", entry.message)
    }

    async fn sums(&self, subject: Subject) -> String {
        let (from, to) = (Minute::of(NOW), Minute(i64::MAX));
        let Rollups { minutes, hours } =
            self.store().ledger.rollups(subject, from.hour(), to).await.unwrap();
        let worded = minutes.into_iter().chain(hours).map(|mut sum| {
            // How many empty places are kept at the end is each store's own matter.
            for list in [&mut sum.latencies, &mut sum.buried] {
                let full = list.iter().rposition(|count| *count > 0);
                list.truncate(full.map_or(0, |place| place + 1));
            }
            // Each store has numbers of its own for those that a sum is about.
            sum.subject = Subject::Whole;
            format!("{sum:?}")
        });
        worded.collect::<Vec<_>>().join(", ")
    }
}
