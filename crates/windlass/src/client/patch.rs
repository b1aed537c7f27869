//! How objects are changed.

use serde_json::Value;

/// A change to an object, in one of the formats that the API server accepts.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
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
/// # let key = Key::of(&client.api().create(&config_map("a")).await?);
/// let maps = client.api::<ConfigMap>();
/// let patches = [
///     Patch::Merge(json!({"data": {"color": "blue", "size": "3"}})),
///     Patch::Merge(json!({"data": {"size": null}})),
///     Patch::Json(json!([
///         {"op": "test", "path": "/data/color", "value": "blue"}, // fails if it is another
///         {"op": "add", "path": "/data/shape", "value": "round"},
///     ])),
/// ];
/// for patch in &patches {
///     maps.patch(&key, patch).await?;
/// }
///
/// // Fields of other owners are only taken with `force`, as `Api::apply` does.
/// let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "red"}});
/// let other = client.field_owner("other").api::<ConfigMap>();
/// let ask = Patch::Apply { object: object.clone(), force: false };
/// assert!(other.patch(&key, &ask).await.unwrap_err().is_conflict());
/// let take = Patch::Apply { object, force: true };
/// let map = other.patch(&key, &take).await?;
/// let data = map.data.expect("has data");
/// assert_eq!((data["color"].as_str(), data["shape"].as_str(), data.len()), ("red", "round", 2));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Patch {
    /// A JSON merge patch (RFC 7386): fields are set, and removed by null.
    Merge(Value),
    /// A JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// A strategic merge patch, which merges lists by their keys; for built-in kinds only.
    Strategic(Value),
    /// Server-side apply; `force` takes fields from other owners.
    Apply {
        /// The fields to own.
        object: Value,
        /// Whether to take fields from other owners.
        force: bool,
    },
}
