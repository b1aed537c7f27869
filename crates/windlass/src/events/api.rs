//! The two APIs that events can be written to.
//!
//! `events.k8s.io/v1` is the default. If it is forbidden or not served in a namespace, the core API
//! is used there.

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::core::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};

use super::{Published, shorten};
use crate::error::Result;
use crate::kind::Kind;

/// The API that events are written to.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Event};
/// use windlass::events::EventsApi;
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
/// # client.api().create(&config_map("a")).await?;
/// let maps = Controller::<ConfigMap>::builder("maps").reports_as("shop").build(
///     |cx: Context<ConfigMap>| async move {
///         cx.event("Seen", "all is well");
///         Ok(Next::Done)
///     },
/// );
/// // For an operator whose users sort events by their last timestamp.
/// let manager = Manager::new(server.client()).events_api(EventsApi::CoreV1);
/// let handle = manager.namespaces(["default"]).add(maps).spawn()?;
/// handle.ready().await;
/// tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// handle.stop().await?; // sends the last events
/// let event = client.api::<Event>().list().namespace("default").items().await?.remove(0);
/// assert!(event.last_timestamp.is_some() && event.count == Some(1));
/// assert_eq!(event.reporting_component.as_deref(), Some("shop"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventsApi {
    /// `events.k8s.io/v1`: an event has a time, and a series if it is repeated.
    #[default]
    EventsV1,
    /// `v1`: an event has a source, a first and a last timestamp, and a count, as those of the
    /// controllers of Kubernetes. `kubectl get events --sort-by=.lastTimestamp` needs them.
    CoreV1,
}

// === impl EventsApi ===

impl EventsApi {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::EventsV1 => Kind::of::<Event>(),
            Self::CoreV1 => Kind::of::<CoreEvent>(),
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
            Self::EventsV1 => serde_json::to_value(Event {
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
            Self::CoreV1 => {
                let host = Some(event.instance.clone()).filter(|host| !host.is_empty());
                let component = Some(event.controller.clone());
                serde_json::to_value(CoreEvent {
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
                    ..CoreEvent::default()
                })
            }
        };
        Ok(serde_json::from_value(object?)?)
    }

    /// The patch of an event that was repeated: it happened `count` times, the last time now.
    pub(super) fn repetition(self, count: i32, now: MicroTime) -> Value {
        match self {
            Self::EventsV1 => json!({"series": {"count": count, "lastObservedTime": now}}),
            Self::CoreV1 => json!({"count": count, "lastTimestamp": Time(now.0)}),
        }
    }
}
