//! The two objects an event can be on the server.
//!
//! `events.k8s.io/v1` is what is wanted. Where an operator was given rights before that group was
//! usual, or the group is not served, the older `v1` of the core group says the same.

use k8s_openapi::api::core::v1::{Event as CountedEvent, EventSource};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::core::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};

use super::{Published, shorten};
use crate::error::Result;
use crate::kind::Kind;

/// The form events are written in.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Event};
/// use windlass::events::EventForm;
/// use windlass::{Client, Context, Controller, List, Manager, Next};
///
/// # fn config_map(name: &str) -> ConfigMap {
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some(name.into());
/// #     map.metadata.namespace = Some("default".into());
/// #     map
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = Client::new(server.client());
/// # client.create(&config_map("a")).await?;
/// let maps = Controller::<ConfigMap>::builder("maps").reports_as("shop").build(
///     |cx: Context<ConfigMap>| async move {
///         cx.event("Seen", "all is well");
///         Ok(Next::Done)
///     },
/// );
/// // For an operator whose users sort events by their last timestamp.
/// let manager = Manager::builder(server.client()).event_form(EventForm::Counted);
/// let handle = manager.namespaces(["default"]).add(maps).spawn()?;
/// handle.ready().await;
/// tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// handle.stop().await?; // brings the last events to the server
/// let event = client.live().list::<Event>(&List::within("default")).await?.remove(0);
/// assert!(event.last_timestamp.is_some() && event.count == Some(1));
/// assert_eq!(event.reporting_component.as_deref(), Some("shop"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventForm {
    /// `events.k8s.io/v1`: the time of the event, and a series if it comes again.
    #[default]
    Series,
    /// `v1`: a source, the first and the last time, and a count, as the controllers of Kubernetes
    /// itself write events; `kubectl get events --sort-by=.lastTimestamp` needs them.
    Counted,
}

// === impl EventForm ===

impl EventForm {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Series => Kind::of::<Event>(),
            Self::Counted => Kind::of::<CountedEvent>(),
        }
    }

    /// The object of a new event.
    pub(super) fn object(
        self,
        event: &Published,
        name: &str,
        now: MicroTime,
    ) -> Result<DynamicObject> {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            namespace: Some(event.namespace().into()),
            ..ObjectMeta::default()
        };
        let object = match self {
            Self::Series => serde_json::to_value(Event {
                metadata,
                type_: Some(format!("{:?}", event.event_type)),
                reason: Some(event.reason.clone()),
                action: Some(event.action.clone()),
                note: Some(shorten(&event.note)),
                reporting_controller: Some(event.controller.clone()),
                reporting_instance: Some(event.instance.clone()),
                event_time: Some(now),
                regarding: Some(event.regarding.reference()),
                ..Event::default()
            }),
            Self::Counted => {
                let host = Some(event.instance.clone()).filter(|host| !host.is_empty());
                let component = Some(event.controller.clone());
                serde_json::to_value(CountedEvent {
                    metadata,
                    type_: Some(format!("{:?}", event.event_type)),
                    reason: Some(event.reason.clone()),
                    message: Some(shorten(&event.note)),
                    source: Some(EventSource { component: component.clone(), host: host.clone() }),
                    reporting_component: component,
                    reporting_instance: host,
                    involved_object: event.regarding.reference(),
                    count: Some(1),
                    first_timestamp: Some(Time(now.0)),
                    last_timestamp: Some(Time(now.0)),
                    ..CountedEvent::default()
                })
            }
        };
        Ok(serde_json::from_value(object?)?)
    }

    /// What says that an event came so many times, at last now.
    pub(super) fn again(self, count: i32, now: MicroTime) -> Value {
        match self {
            Self::Series => json!({"series": {"count": count, "lastObservedTime": now}}),
            Self::Counted => json!({"count": count, "lastTimestamp": Time(now.0)}),
        }
    }
}
