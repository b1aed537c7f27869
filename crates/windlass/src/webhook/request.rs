//! What a webhook is asked.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Call, Objects, Seed};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

/// A request to the API server that a webhook is asked about.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::webhook::{Findings, Request};
///
/// async fn check(request: Request<ConfigMap>) -> windlass::Result<Findings> {
///     let mut found = Findings::new();
///     let by_hand = !request.user.username.iter().any(|name| name.starts_with("system:"));
///     if by_hand && request.namespace == "prod" && !request.dry_run {
///         found.warn("prod is managed by the pipeline");
///     }
///     Ok(found)
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request<K> {
    /// What happens to the object.
    pub operation: Operation,
    /// The object as it would be stored, or the one that is deleted. It is not validated yet.
    pub object: K,
    /// The stored object that an update changes.
    pub old: Option<K>,
    /// The name of the object; empty if the server has yet to generate it, and for each object of a
    /// collection that is deleted.
    pub name: String,
    /// The namespace; empty for objects without one, and for a `Namespace` its own name.
    pub namespace: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// Who asks.
    pub user: UserInfo,
    /// Whether nothing will be stored. A webhook without side effects need not look at it.
    pub dry_run: bool,
    /// The whole request of the `AdmissionReview`, with `options`, `requestKind` and what newer
    /// servers send, but without the objects.
    pub raw: Value,
    seed: Seed,
}

/// What happens to an object.
///
/// ```
/// use windlass::webhook::Operation;
/// assert_eq!(Operation::Update.to_string(), "UPDATE");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Operation {
    /// It is created.
    Create,
    /// It is updated, patched or applied.
    Update,
    /// It is deleted.
    Delete,
}

// === impl Operation ===

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        })
    }
}

// === impl Request ===

impl<K: Object> Request<K> {
    /// The client of the manager, which reads from its caches. It writes without the lease, because
    /// webhooks run on every replica.
    ///
    /// # Errors
    ///
    /// Fails if the webhook is not served by a manager.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// use windlass::webhook::{Findings, Request};
    /// use windlass::Key;
    ///
    /// async fn check(request: Request<ConfigMap>) -> windlass::Result<Findings> {
    ///     let key = Key::cluster(&request.namespace);
    ///     let namespace = request.client()?.api::<Namespace>().get(&key).await?;
    ///     let mut found = Findings::new();
    ///     if namespace.is_some_and(|namespace| namespace.metadata.labels.is_none()) {
    ///         found.warn("the namespace has no labels");
    ///     }
    ///     Ok(found)
    /// }
    /// ```
    pub fn client(&self) -> Result<&Client> {
        let missing = || Error::Invalid("this webhook is not served by a manager".into());
        self.seed.client().ok_or_else(missing)
    }

    /// Decodes a call, and returns the object as it was sent too; `None` if no object is written or
    /// deleted, as with `CONNECT`.
    pub(super) fn decode(call: Call) -> Result<Option<(Self, Box<RawValue>)>>
    where
        K: Object<DynamicType = ()>,
    {
        let request = call.request;
        if request["operation"] == "CONNECT" {
            return Ok(None);
        }
        let operation = Operation::deserialize(&request["operation"]).map_err(|_| {
            let text = format!(
                "the request of the AdmissionReview has the operation {}, expected CREATE, UPDATE, \
                 DELETE or CONNECT",
                request["operation"]
            );
            malformed(&text)
        })?;
        let Objects { object, old } = call.objects;
        let (object, old) = (object.unwrap_or_default(), old.unwrap_or_default());
        let (sent, old) = match operation {
            Operation::Create => (object, None),
            Operation::Update => (object, Some(old)),
            Operation::Delete => (old, None),
        };
        let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
        check_kind::<K>(&sent)?;
        let object: K = decode(&sent)?;
        let name = match text("name") {
            // Requests for a collection do not carry it.
            name if name.is_empty() => object.meta().name.clone().unwrap_or_default(),
            name => name,
        };
        let decoded = Self {
            operation,
            object,
            old: old.as_deref().map(decode).transpose()?,
            name,
            namespace: text("namespace"),
            subresource: text("subResource"),
            user: user(&request["userInfo"])?,
            dry_run: request["dryRun"] == true,
            raw: request,
            seed: call.seed,
        };
        Ok(Some((decoded, sent)))
    }
}

/// The error of a request that no API server sends.
fn malformed(text: &str) -> Error {
    Error::Api {
        action: "review".into(),
        status: Status::failure(text, "BadRequest").with_code(400).boxed(),
    }
}

fn user(info: &Value) -> Result<UserInfo> {
    let user = Option::<UserInfo>::deserialize(info).map_err(|error| {
        malformed(&format!("the userInfo of the request does not decode: {error}"))
    })?;
    Ok(user.unwrap_or_default())
}

/// Fails if an object is not of the group and kind of the handler: types of custom kinds do not
/// look at them.
fn check_kind<K: Object<DynamicType = ()>>(object: &RawValue) -> Result<()> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Types {
        api_version: String,
        kind: String,
    }
    let wanted = Kind::of::<K>();
    let types: Types = serde_json::from_str(object.get()).unwrap_or_default();
    let group = types.api_version.split_once('/').map_or("", |(group, _)| group);
    if types.kind == wanted.kind() && group == wanted.group() {
        return Ok(());
    }
    let Types { api_version, kind } = types;
    Err(malformed(&format!("the request has {kind:?} of {api_version:?}, expected {wanted}")))
}

fn decode<K: Object<DynamicType = ()>>(object: &RawValue) -> Result<K> {
    serde_json::from_str(object.get()).or_else(|_| {
        // A place in a text that nobody sees helps nobody.
        let decoded = serde_json::from_str::<Value>(object.get()).and_then(K::deserialize);
        decoded.map_err(|source| Error::Decode { what: format!("the {}", Kind::of::<K>()), source })
    })
}
