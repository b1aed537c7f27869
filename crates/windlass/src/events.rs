//! Kubernetes events: published without waiting, counted when repeated, no text lost.
//!
//! Publishing never waits and never fails: an event is put into a bounded queue, from which a task
//! sends it to the API server. Repeating an event - same object, type, reason, action *and text* -
//! increments the count of its series instead of creating another object. An event that cannot be
//! sent is logged and counted in the metrics.
//!
//! **Invariant:** the queue and the table of series are bounded.
//! **Invariant:** every published text is either on the server or in the log.

mod api;
mod publisher;
mod series;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{mpsc, oneshot};

use crate::cache::Key;
use crate::client::Client;
use crate::clock::Clock;
use crate::manager::Replica;

pub use api::EventsApi;
pub(crate) use publisher::Publisher;

/// How many events may wait to be sent.
const QUEUE_MAX: usize = 10_000;
/// The maximum length of a note in bytes.
const NOTE_MAX: usize = 1024;

/// The type of an event.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use k8s_openapi::api::events::v1::Event;
/// use windlass::clock::Clock;
/// use windlass::events::{EventType, Recorder};
/// use windlass::{Client, Key, Kind, List};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// let recorder = Recorder::spawn(&client, "shop", Clock::default());
/// let mut about =
///     Key::namespaced("default", "cart").object_reference(&Kind::of::<Pod>());
/// about.field_path = Some("spec.containers{web}".into());
/// let recorder = recorder.reporting_as("till", "node-1");
/// recorder.publish(EventType::Warning, about, "Slow", "Serve", "3 s for a page".into());
/// recorder.flush().await;
/// let event = client.api::<Event>().list().namespace("default").items().await?.remove(0);
/// assert_eq!(event.type_.as_deref(), Some("Warning"));
/// assert_eq!(event.reporting_controller.as_deref(), Some("till"));
/// assert_eq!(event.reporting_instance.as_deref(), Some("node-1"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something may need attention.
    Warning,
}

/// Publishes events; clones share one queue.
///
/// # Examples
///
/// A reconcile publishes events with `cx.event` and `cx.warn`. Elsewhere:
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
/// let recorder = Recorder::spawn(&client, "my-operator", Clock::default());
/// let about = Key::cluster("default").object_reference(&Kind::of::<Namespace>());
/// for _ in 0..3 {
///     let note = "all is well".to_string();
///     recorder.publish(EventType::Normal, about.clone(), "Seen", "Look", note);
/// }
/// recorder.flush().await;
/// let events = client.api::<Event>().list().namespace("default").items().await?;
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
    /// The API that events are written to; `None` writes none.
    api: Option<EventsApi>,
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
    api: EventsApi,
    regarding: Regarding,
}

/// The parts of a reference that identify an object.
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
    /// Creates a recorder for `controller`, and spawns the task that sends its events. The task
    /// ends when all clones of the recorder have been dropped.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn spawn(client: &Client, controller: &str, clock: Clock) -> Self {
        let instance = Replica::new(Some(0), None).instance(controller);
        let (recorder, publisher) = Self::new(client, controller, &instance, clock);
        tokio::spawn(publisher.run());
        recorder
    }

    /// Creates a recorder for `controller` in the process `instance`, and the publisher that has to
    /// run for it.
    pub(crate) fn new(
        client: &Client,
        controller: &str,
        instance: &str,
        clock: Clock,
    ) -> (Self, Publisher) {
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        // Events of a process that lost its lease are still useful.
        let client = client.unfenced();
        let recorder = Self {
            queue,
            controller: controller.into(),
            instance: instance.into(),
            api: Some(EventsApi::default()),
            client: client.clone(),
        };
        (recorder, Publisher::new(messages, client, clock))
    }

    /// Returns a recorder that reports as another controller and, if one is given, from another
    /// instance of it, such as the name of a node.
    pub fn reporting_as<'a>(&self, controller: &str, instance: impl Into<Option<&'a str>>) -> Self {
        let instance = instance.into().map_or_else(|| self.instance.clone(), Arc::from);
        Self { controller: controller.into(), instance, ..self.clone() }
    }

    /// Returns a recorder that writes to this API, or none; events of the core API have no host.
    pub(crate) fn with_api(&self, api: Option<EventsApi>) -> Self {
        let instance = match api {
            Some(EventsApi::CoreV1) => "".into(),
            Some(EventsApi::EventsV1) | None => self.instance.clone(),
        };
        Self { api, instance, ..self.clone() }
    }

    /// Publishes an event about the object `regarding`, without waiting: `reason` and `action` are one
    /// word each, such as `Created` and `Reconcile`, and `note` is a sentence for people.
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
        let Some(api) = self.api else { return };
        let event = Published {
            event_type,
            reason: reason.into(),
            action: action.into(),
            note,
            controller: self.controller.to_string(),
            instance: self.instance.to_string(),
            api,
            regarding: regarding.into(),
        };
        if let Err(error) = self.queue.try_send(Message::Event(Box::new(event))) {
            self.client.metrics().event_dropped("queue_full");
            let (mpsc::error::TrySendError::Full(message)
            | mpsc::error::TrySendError::Closed(message)) = error;
            if let Message::Event(event) = message {
                let note = event.note;
                tracing::warn!(
                    object,
                    reason,
                    note,
                    "event not published: the queue is full or closed"
                );
            }
        }
    }

    /// Waits until everything published so far has been sent or dropped; returns immediately if the
    /// sending task has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; events are sent nevertheless.
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

impl Published {
    /// The namespace of the event; `default` for objects without a namespace.
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

/// Shortens a note to the maximum length, at a character boundary.
fn shorten(note: &str) -> String {
    if note.len() <= NOTE_MAX {
        return note.to_string();
    }
    tracing::warn!(
        note,
        "event note shortened to {NOTE_MAX} bytes on the server, this is the whole text"
    );
    format!("{}...", head(note, NOTE_MAX - 3))
}

/// The first bytes of a text, up to a character boundary.
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
