//! The task that sends events to the API server.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::DynamicObject;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::series::{Left, Series, Step, Written};
use super::{EventsApi, Message, Published, head};
use crate::cache::{ExpiringStore, Key};
use crate::client::{Client, Patch};
use crate::clock::Clock;
use crate::error::{Error, Result, ResultExt};

/// How often a write is attempted.
const TRIES_MAX: u32 = 6;
/// The pause after a failed write; it doubles with every failure.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How long the count of a series on the server may be out of date.
const FLUSH_AFTER: Duration = Duration::from_secs(30);
/// How long the core API is used in a namespace that refused `events.k8s.io`.
const CORE_FOR: Duration = Duration::from_secs(60 * 60);
/// How many namespaces that refuse `events.k8s.io` are remembered.
const CORE_MAX: usize = 1024;
/// The maximum length of an object name.
const NAME_MAX: usize = 253;

/// Sends the events of a recorder to the API server.
pub(crate) struct Publisher {
    messages: mpsc::Receiver<Message>,
    client: Client,
    clock: Clock,
    series: Series,
    /// Namespaces where `events.k8s.io` is refused and the core group is not.
    core: ExpiringStore<String, ()>,
    sent: u64,
}

// === impl Publisher ===

impl Publisher {
    pub(super) fn new(messages: mpsc::Receiver<Message>, client: Client, clock: Clock) -> Self {
        let (series, core) = (Series::default(), ExpiringStore::new(CORE_FOR, CORE_MAX));
        Self { messages, client, clock, series, core, sent: 0 }
    }

    /// Runs until every recorder has been dropped, and sends the last counts then.
    pub(crate) async fn run(mut self) {
        loop {
            let message = match self.series.behind_since().map(|since| since + FLUSH_AFTER) {
                None => self.messages.recv().await,
                // A queue that is never empty must not delay this.
                Some(at) if at <= Instant::now() => {
                    self.flush_counts().await;
                    continue;
                }
                Some(at) => match tokio::time::timeout_at(at, self.messages.recv()).await {
                    Ok(message) => message,
                    Err(_) => continue,
                },
            };
            match message {
                None => break,
                Some(Message::Event(event)) => self.take(*event).await,
                Some(Message::Flush(done)) => {
                    self.flush_counts().await;
                    let _ = done.send(());
                }
            }
        }
        self.flush_counts().await;
    }

    async fn take(&mut self, event: Published) {
        match self.series.step(&event, Instant::now()) {
            Step::Create { left } => {
                self.leave(left).await;
                self.begin(event).await;
            }
            Step::Count { written, count } => self.count(&event, &written, count).await,
            Step::Later => {}
        }
    }

    async fn flush_counts(&mut self) {
        for Left { event, written, count } in self.series.due() {
            self.count(&event, &written, count).await;
        }
        self.series.flushed(Instant::now());
    }

    /// Begins a series with a new object.
    async fn begin(&mut self, event: Published) {
        match self.create(&event).await {
            Ok(written) => {
                let left = self.series.created(event, written, Instant::now());
                self.leave(left).await;
            }
            Err(error) => self.lost(&event, &error),
        }
    }

    /// Sends the last count of a series that is not tracked any more.
    async fn leave(&self, left: Option<Left>) {
        let Some(Left { event, written, count }) = left else { return };
        match self.send_count(&event, &written, count).await {
            Err(error) if !error.is_not_found() => self.lost(&event, &error),
            _ => {}
        }
    }

    async fn create(&mut self, event: &Published) -> Result<Written> {
        self.sent += 1;
        let now = self.clock.micro_time();
        let stamp = now.0.as_nanosecond();
        let suffix = format!(".{stamp:x}{:04x}{:04x}", self.sent & 0xffff, source(event));
        let name = object_name(&event.regarding.name, &suffix);
        let api = self.api(event);
        match self.write(api, event, &name, now.clone()).await {
            Err(error) if api == EventsApi::EventsV1 && refuses_group(&error) => {
                // If the core API accepts the event, the group was the reason.
                self.write(EventsApi::CoreV1, event, &name, now).await?;
                self.use_core(event.namespace(), &error);
                Ok(Written { name, api: EventsApi::CoreV1 })
            }
            written => written.map(|()| Written { name, api }),
        }
    }

    /// The API an event is written to: the one asked for, unless the server refuses it.
    fn api(&self, event: &Published) -> EventsApi {
        match self.core.get(event.namespace()) {
            Some(()) => EventsApi::CoreV1,
            None => event.api,
        }
    }

    fn use_core(&self, namespace: &str, error: &Error) {
        let error = error.chain();
        tracing::warn!(namespace, error, "events.k8s.io is refused, using core events for an hour");
        self.core.insert(namespace.into(), ());
    }

    async fn write(
        &self,
        api: EventsApi,
        event: &Published,
        name: &str,
        now: MicroTime,
    ) -> Result<()> {
        let object = api.object(event, name, now)?;
        let events = self.client.api_of::<DynamicObject>(&api.kind());
        let (events, object) = (&events, &object);
        // An attempt that seemed to fail may have succeeded.
        let write = || async move { events.create(object).await.ignore_already_exists().map(drop) };
        retry(write).await
    }

    async fn count(&mut self, event: &Published, written: &Written, count: i32) {
        match self.send_count(event, written, count).await {
            Ok(()) => self.series.counted(event, count),
            // It has expired on the server and is created again.
            Err(error) if error.is_not_found() => {
                self.series.forget(event);
                match self.create(event).await {
                    // It replaces itself, so no other series has to be dropped.
                    Ok(written) => {
                        self.series.created(event.clone(), written, Instant::now());
                    }
                    Err(error) => self.lost(event, &error),
                }
            }
            Err(error) => {
                if error.is_forbidden() || error.is_invalid() {
                    // It would be refused every time.
                    self.series.uncounted(event);
                }
                self.lost(event, &error);
            }
        }
    }

    /// Writes the count of a series to the server.
    async fn send_count(&self, event: &Published, written: &Written, count: i32) -> Result<()> {
        let api = self.client.api_of::<DynamicObject>(&written.api.kind());
        let key = Key::namespaced(event.namespace(), &written.name);
        let patch = Patch::Merge(written.api.repetition(count, self.clock.micro_time()));
        let (api, key, patch) = (&api, &key, &patch);
        retry(|| async move { api.patch(key, patch).await.map(drop) }).await
    }

    fn lost(&self, event: &Published, error: &Error) {
        self.client.metrics().event_dropped("refused");
        tracing::warn!(
            object = format!("{} {}", event.regarding.kind, event.regarding.name),
            reason = event.reason,
            note = event.note,
            error = error.chain(),
            "event not published"
        );
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// Returns `true` if a write probably failed because of its API group.
fn refuses_group(error: &Error) -> bool {
    error.is_no_kind() || (error.is_forbidden() && !namespace_ends(error))
}

/// Returns `true` if the namespace is being deleted, so that no other API group helps.
fn namespace_ends(error: &Error) -> bool {
    error.status().is_some_and(|status| {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
            || status.message.contains("because it is being terminated")
    })
}

/// A number that differs between controllers and kinds: two processes can publish their first events
/// about objects of the same name at the same moment, and none of the two may be lost.
fn source(event: &Published) -> u16 {
    let mut hasher = DefaultHasher::new();
    (&event.controller, &event.instance, &event.regarding.kind).hash(&mut hasher);
    hasher.finish() as u16
}

/// The name of an event: as much of the object's name as fits, and a suffix.
fn object_name(about: &str, suffix: &str) -> String {
    let lower = about.to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let plain: String = lower.chars().map(plain).collect();
    let labels = plain.split('.').map(|label| label.trim_matches('-'));
    let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
    let joined = labels.join(".");
    let kept = head(&joined, NAME_MAX - suffix.len()).trim_end_matches(['-', '.']);
    format!("{}{suffix}", if kept.is_empty() { "event" } else { kept })
}

/// Tries again what may pass: a server that is away or busy, not one that refuses.
async fn retry<F: Future<Output = Result<()>>>(write: impl Fn() -> F) -> Result<()> {
    let mut wait = RETRY_AFTER;
    for _ in 1..TRIES_MAX {
        match write().await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_no_kind() => return Err(error),
            Err(error) if error.status().is_some_and(|s| s.code < 500 && s.code != 429) => {
                return Err(error);
            }
            Err(_) => tokio::time::sleep(wait).await,
        }
        wait *= 2;
    }
    write().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_is_always_one_the_server_takes() {
        let long = format!("{}.b", "a".repeat(250));
        for (about, wanted) in [
            ("web", "web.1"),
            ("system:controller:Foo_bar", "system-controller-foo-bar.1"),
            ("-a-.-b..c", "a.b.c.1"),
            ("ÄÖ", "event.1"),
            ("", "event.1"),
            (&long, &format!("{}.1", "a".repeat(250))),
        ] {
            assert_eq!(object_name(about, ".1"), wanted);
        }
        assert_eq!(object_name(&"n".repeat(300), ".1").len(), NAME_MAX);
    }
}
