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
mod publisher;
mod series;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{mpsc, oneshot};

use crate::cache::Key;
use crate::client::Client;
use crate::clock::Clock;

pub use form::EventForm;
pub use publisher::Publisher;

/// Events waiting to be sent.
const QUEUE_MAX: usize = 10_000;
/// The server refuses longer notes.
const NOTE_MAX: usize = 1024;

/// How serious an event is.
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
/// let (recorder, publisher) = Recorder::new(&client, "shop", Clock::system());
/// tokio::spawn(publisher.run());
/// let mut about =
///     Key::namespaced("default", "cart").object_reference(&Kind::of::<Pod>().api_resource());
/// about.field_path = Some("spec.containers{web}".into());
/// let recorder = recorder.named("till").on_host("node-1");
/// recorder.publish(EventType::Warning, about, "Slow", "Serve", "3 s for a page".into());
/// recorder.flush().await;
/// let event = client.live().list::<Event>(&List::within("default")).await?.remove(0);
/// assert_eq!(event.type_.as_deref(), Some("Warning"));
/// assert_eq!(event.reporting_controller.as_deref(), Some("till"));
/// assert_eq!(event.reporting_instance.as_deref(), Some("node-1"));
/// # Ok(())
/// # }
/// ```
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
/// let events = client.live().list::<Event>(&List::within("default")).await?;
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
        (recorder, Publisher::new(inbox, client, clock))
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

    /// Waits until everything published so far has been brought to the server or given up; not at
    /// all once the publisher has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; what was published goes its way.
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
