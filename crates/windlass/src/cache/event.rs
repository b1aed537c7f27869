//! The events that handlers receive.

use super::mailbox::{Change, Notice};
use super::{Cached, Key, Reader};

/// A change of an object, or a reminder of it.
///
/// What happens to an object while its handler is busy is merged into one event.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::cache::{Cache, Event, HandlerOptions, Scope};
/// use windlass::client::Patch;
/// use windlass::{Client, Key};
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
/// let cache = Cache::new(server.client());
/// let maps = cache.informer::<ConfigMap>(&Scope::all().namespace("default"));
/// let mut events = maps.subscribe(HandlerOptions::default());
/// let key = Key::of(&client.api().create(&config_map("a")).await?);
/// assert!(matches!(events.recv().await, Some(Event::Added { .. })));
///
/// client.api::<ConfigMap>().patch(&key, &Patch::Merge(json!({"data": {"k": "v"}}))).await?;
/// let Some(Event::Updated { old, new }) = events.recv().await else { panic!("was changed") };
/// assert!(new.version() > old.version());
/// assert_eq!(new.get().expect("a config map").data.as_ref().expect("has data")["k"], "v");
///
/// client.api::<ConfigMap>().delete(&key).await?;
/// let Some(Event::Deleted { last, .. }) = events.recv().await else { panic!("was deleted") };
/// assert_eq!((last.key(), last.uid()), (&key, new.uid()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Event<K> {
    /// The object is new to the handler.
    Added {
        /// The object.
        object: Cached<K>,
        /// Whether it was there before the handler was, or before the first sync.
        initial: bool,
    },
    /// The object changed. If the UIDs differ it was deleted and created again meanwhile.
    Updated {
        /// The state of the last event.
        old: Cached<K>,
        /// What it is now.
        new: Cached<K>,
    },
    /// The object is gone.
    Deleted {
        /// The last state that is known.
        last: Cached<K>,
        /// The state of the last event, if the object changed between that and its deletion: this
        /// event includes that change. `None` if nothing was left out.
        old: Option<Cached<K>>,
        /// Whether the object was found missing by a new list, so that its last changes and
        /// the deletion itself were not seen, or whether its last state could not be read.
        final_state_unknown: bool,
    },
    /// Nothing changed; the time asked for has passed.
    Resync {
        /// The object.
        object: Cached<K>,
    },
}

// === impl Event ===

impl<K> Event<K> {
    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Returns the object as it is now, or was last.
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Added { object, .. } | Self::Resync { object } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }
}

impl<K: serde::de::DeserializeOwned + Send + Sync + 'static> Event<K> {
    pub(super) fn new(notice: Notice, reader: &Reader<K>) -> Self {
        let change = match notice {
            Notice::Resync(entry) => return Self::Resync { object: reader.object_of(entry) },
            Notice::Change(change) => change,
        };
        let Change { old, new, gone, initial, final_state_unknown, merged, .. } = change;
        let new = reader.object_of(new);
        match old.map(|old| reader.object_of(old)) {
            old if gone => {
                Self::Deleted { last: new, old: old.filter(|_| merged), final_state_unknown }
            }
            Some(old) => Self::Updated { old, new },
            None => Self::Added { object: new, initial },
        }
    }
}
