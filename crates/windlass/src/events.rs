//! Events for people: `events.k8s.io/v1`, repeated ones counted, no text lost.
//!
//! Publishing never waits and never fails: an event goes into a bounded queue and a task of its own
//! brings it to the server. The same event again - same object, type, reason, action *and text* -
//! raises the count of a series instead of making a new object; upstream leaves the text out of
//! that comparison and loses every text but the first. An event that cannot be sent is in the log
//! and in the metrics.
//!
//! **Invariant:** the queue and the table of series are bounded.
//! **Invariant:** every published text is either on the server or in the log.

mod form;
mod series;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::cache::Key;
use crate::client::{Client, Patch};
use crate::clock::Clock;
use crate::error::{Error, Result, ResultExt};

pub use form::EventForm;
use series::{Series, Step};

/// Events waiting to be sent.
const QUEUE_MAX: usize = 10_000;
/// How often a failed write is tried.
const TRIES_MAX: u32 = 6;
/// The pause after a failed write; doubles.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often the counts of running series are brought to the server.
const FLUSH_EVERY: Duration = Duration::from_secs(30);
/// The server refuses longer names.
const NAME_MAX: usize = 253;
/// The server refuses longer notes.
const NOTE_MAX: usize = 1024;

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Publishes events; cheap to clone.
///
/// # Examples
///
/// Within a reconcile, `cx.event` and `cx.warn` are all that is needed; elsewhere:
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use k8s_openapi::api::events::v1::Event;
/// use windlass::clock::Clock;
/// use windlass::events::{EventType, Recorder};
/// use windlass::{Client, Key, Kind, List};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// let (recorder, publisher) = Recorder::new(&client, "my-operator", Clock::system());
/// tokio::spawn(publisher.run());
/// let about = Key::cluster("default").object_reference(&Kind::of::<Namespace>().api_resource());
/// for _ in 0..3 {
///     let note = "all is well".to_string();
///     recorder.publish(EventType::Normal, about.clone(), "Seen", "Look", note);
/// }
/// recorder.flush().await;
/// let events = client.list::<Event>(&List::within("default")).await?;
/// assert_eq!(events.len(), 1);
/// assert_eq!(events[0].series.as_ref().expect("came again").count, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Message>,
    controller: Arc<str>,
    instance: Arc<str>,
    form: EventForm,
    client: Client,
}

enum Message {
    Event(Box<Published>),
    Flush(oneshot::Sender<()>),
}

/// One call of `publish`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Published {
    event_type: EventType,
    reason: String,
    action: String,
    note: String,
    controller: String,
    instance: String,
    form: EventForm,
    regarding: Regarding,
}

/// The parts of a reference that tell objects apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Regarding {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    field_path: String,
}

// === impl Recorder ===

impl Recorder {
    /// A recorder for `controller`, and the task that has to run for it.
    pub fn new(client: &Client, controller: &str, clock: Clock) -> (Self, Publisher) {
        let (queue, inbox) = mpsc::channel(QUEUE_MAX);
        // Events of a process that lost its lease are still worth reading.
        let client = client.unfenced();
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into());
        let instance: String = format!("{controller}-{host}").chars().take(128).collect();
        let recorder = Self {
            queue,
            controller: controller.into(),
            instance: instance.into(),
            form: EventForm::default(),
            client: client.clone(),
        };
        let series = Series::default();
        (recorder, Publisher { inbox, client, clock, series, core_only: false, sent: 0 })
    }

    /// The same recorder under another controller's name.
    pub fn named(&self, controller: &str) -> Self {
        Self { controller: controller.into(), ..self.clone() }
    }

    /// The same recorder, for events that come from this host.
    pub fn on_host(&self, host: &str) -> Self {
        Self { instance: host.into(), ..self.clone() }
    }

    /// The same recorder, writing its events in this form; the counted one names no host.
    pub fn in_form(&self, form: EventForm) -> Self {
        let instance = match form {
            EventForm::Series => self.instance.clone(),
            EventForm::Counted => "".into(),
        };
        Self { form, instance, ..self.clone() }
    }

    /// Publishes an event about `regarding`; never waits.
    pub fn publish(
        &self,
        event_type: EventType,
        regarding: ObjectReference,
        reason: &str,
        action: &str,
        note: String,
    ) {
        let object = format!(
            "{} {}",
            regarding.kind.as_deref().unwrap_or_default(),
            Key::new(regarding.namespace.as_deref(), regarding.name.as_deref().unwrap_or_default())
        );
        tracing::debug!(object, reason, note, "event");
        let event = Published {
            event_type,
            reason: reason.into(),
            action: action.into(),
            note,
            controller: self.controller.to_string(),
            instance: self.instance.to_string(),
            form: self.form,
            regarding: regarding.into(),
        };
        if let Err(error) = self.queue.try_send(Message::Event(Box::new(event))) {
            self.client.metrics().event_dropped("queue_full");
            let (mpsc::error::TrySendError::Full(message)
            | mpsc::error::TrySendError::Closed(message)) = error;
            if let Message::Event(event) = message {
                let note = event.note;
                tracing::warn!(object, reason, note, "event not published: too many, or the end");
            }
        }
    }

    /// Waits until everything published so far has been brought to the server or given up.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.queue.send(Message::Flush(done)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl From<ObjectReference> for Regarding {
    fn from(reference: ObjectReference) -> Self {
        Self {
            api_version: reference.api_version.unwrap_or_default(),
            kind: reference.kind.unwrap_or_default(),
            namespace: reference.namespace.unwrap_or_default(),
            name: reference.name.unwrap_or_default(),
            uid: reference.uid.unwrap_or_default(),
            field_path: reference.field_path.unwrap_or_default(),
        }
    }
}

/// The task that brings events to the server.
///
/// # Examples
///
/// ```
/// use windlass::Client;
/// use windlass::clock::Clock;
/// use windlass::events::{Publisher, Recorder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// let (recorder, publisher): (Recorder, Publisher) = Recorder::new(&client, "me", Clock::system());
/// let running = tokio::spawn(publisher.run());
/// drop(recorder);
/// running.await.expect("ends with the last recorder");
/// # Ok(())
/// # }
/// ```
pub struct Publisher {
    inbox: mpsc::Receiver<Message>,
    client: Client,
    clock: Clock,
    series: Series,
    /// Whether `events.k8s.io` was refused.
    core_only: bool,
    sent: u64,
}

// === impl Publisher ===

impl Publisher {
    /// Runs until every recorder is gone, or until it is dropped; the last counts are flushed.
    pub async fn run(mut self) {
        loop {
            let flush_at = self.series.pending().then(|| Instant::now() + FLUSH_EVERY);
            let message = match flush_at {
                None => self.inbox.recv().await,
                Some(at) => match tokio::time::timeout_at(at, self.inbox.recv()).await {
                    Ok(message) => message,
                    Err(_) => {
                        self.flush_counts().await;
                        continue;
                    }
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
            Step::Create => match self.create(&event).await {
                Ok(name) => self.series.created(event, name, Instant::now()),
                Err(error) => self.lost(&event, &error),
            },
            Step::Count { name, count } => self.count(&event, &name, count).await,
            Step::Later => {}
        }
    }

    async fn flush_counts(&mut self) {
        for (event, name, count) in self.series.due() {
            self.count(&event, &name, count).await;
        }
    }

    async fn create(&mut self, event: &Published) -> Result<String> {
        self.sent += 1;
        let now = self.clock.micro_time();
        let stamp = now.0.as_nanosecond();
        let suffix = format!(".{stamp:x}{:04x}", self.sent & 0xffff);
        let about = &event.regarding.name;
        let name = format!("{}{suffix}", head(about, NAME_MAX - suffix.len()));
        match self.write(self.form(event), event, &name, now.clone()).await {
            Err(error)
                if self.form(event) == EventForm::Series
                    && (error.is_no_kind() || error.is_forbidden()) =>
            {
                tracing::warn!(error = error.chain(), "events go to the core group from now on");
                self.core_only = true;
                self.write(EventForm::Counted, event, &name, now).await?;
            }
            written => written?,
        }
        Ok(name)
    }

    /// The form an event is written in: the one asked for, where the server takes it.
    fn form(&self, event: &Published) -> EventForm {
        if self.core_only { EventForm::Counted } else { event.form }
    }

    async fn write(
        &self,
        form: EventForm,
        event: &Published,
        name: &str,
        now: MicroTime,
    ) -> Result<()> {
        let object = form.object(event, name, now)?;
        let events = self.client.dynamic(&form.kind());
        let (events, object) = (&events, &object);
        // A try that seemed to fail may have been heard.
        let write = || async move { events.create(object).await.ignore_already_exists().map(drop) };
        retry(write).await
    }

    async fn count(&mut self, event: &Published, name: &str, count: i32) {
        let form = self.form(event);
        let body = form.again(count, self.clock.micro_time());
        let api = self.client.dynamic(&form.kind());
        let key = Key::namespaced(event.namespace(), name);
        let patch = Patch::Merge(body);
        let (api, key, patch) = (&api, &key, &patch);
        match retry(|| async move { api.patch(key, patch).await.map(drop) }).await {
            Ok(()) => self.series.counted(event, count),
            // It expired on the server: a new object takes its place.
            Err(error) if error.is_not_found() => {
                self.series.forget(event);
                match self.create(event).await {
                    Ok(name) => self.series.created(event.clone(), name, Instant::now()),
                    Err(error) => self.lost(event, &error),
                }
            }
            Err(error) => self.lost(event, &error),
        }
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

impl Published {
    /// Events about objects without namespace live in `default`.
    fn namespace(&self) -> &str {
        match self.regarding.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }
}

impl Regarding {
    fn reference(&self) -> ObjectReference {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        ObjectReference {
            api_version: some(&self.api_version),
            kind: some(&self.kind),
            namespace: some(&self.namespace),
            name: some(&self.name),
            uid: some(&self.uid),
            field_path: some(&self.field_path),
            ..ObjectReference::default()
        }
    }
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

/// Cuts a note to what the server takes, at a character boundary.
fn shorten(note: &str) -> String {
    if note.len() <= NOTE_MAX {
        return note.to_string();
    }
    tracing::warn!(note, "event note shortened to {NOTE_MAX} bytes, the whole text is here");
    format!("{}...", head(note, NOTE_MAX - 3))
}

/// The first bytes of a text, cut between characters.
fn head(text: &str, len_max: usize) -> &str {
    let mut end = len_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_between_characters() {
        let note = "ä".repeat(800);
        let short = shorten(&note);
        assert!(short.len() <= NOTE_MAX && short.ends_with("..."), "{}", short.len());
        assert_eq!(shorten("short"), "short");
    }
}
