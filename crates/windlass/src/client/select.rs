//! What a list asks for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use crate::error::{Error, Result};

/// A selection of objects of one kind; starts as "all of them".
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
/// use kube::core::Expression;
/// use serde_json::json;
/// use windlass::{Client, List};
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
/// for (name, app) in [("a", "cart"), ("b", "cart"), ("c", "till")] {
///     let mut map = config_map(name);
///     map.metadata.labels = Some([("app".into(), app.into())].into());
///     client.create(&map).await?;
/// }
/// let count = async |list: List| client.live().list::<ConfigMap>(&list).await.map(|found| found.len());
/// let here = List::within("default").matching(Expression::Exists("app".into()).into());
/// assert_eq!(count(here.clone()).await?, 3);
/// assert_eq!(count(here.clone().label("app", "cart")).await?, 2);
/// assert_eq!(count(here.clone().limit(1)).await?, 1);
/// assert_eq!(count(here.clone().fields("metadata.name!=a")).await?, 2);
///
/// // As the selector of a Deployment or a Service says it.
/// let selector: LabelSelector = serde_json::from_value(json!({
///     "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cart"]}],
/// }))?;
/// assert_eq!(count(here.selector(&selector)?).await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct List {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Selector,
    pub(crate) fields: Option<String>,
    pub(crate) limit: Option<usize>,
}

// === impl List ===

impl List {
    /// Everything, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Everything in one namespace.
    pub fn within(namespace: &str) -> Self {
        Self::all().namespace(namespace)
    }

    /// Only one namespace; the empty name means all, as in the API.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into()).filter(|name: &String| !name.is_empty());
        self
    }

    /// Only objects with these labels.
    pub fn labels(mut self, labels: &BTreeMap<String, String>) -> Self {
        let wanted: Selector = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        self.labels.extend(wanted);
        self
    }

    /// Only objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.extend(kube::core::Expression::Equal(name.into(), value.into()));
        self
    }

    /// Only objects a selector matches.
    pub fn matching(mut self, selector: Selector) -> Self {
        self.labels.extend(selector);
        self
    }

    /// Only objects the selector of another object matches.
    ///
    /// # Errors
    ///
    /// Fails on an operator that is none of `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub fn selector(mut self, selector: &LabelSelector) -> Result<Self> {
        let parsed = Selector::try_from(selector.clone())
            .map_err(|e| Error::Invalid(format!("label selector: {e}")))?;
        self.labels.extend(parsed);
        Ok(self)
    }

    /// Only objects with these field values, in the server's syntax.
    ///
    /// For cached reads, use an [index](crate::Index) instead.
    pub fn fields(mut self, fields: &str) -> Self {
        self.fields = Some(fields.into());
        self
    }

    /// At most so many objects; 0 means all, as in the API.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit).filter(|limit| *limit > 0);
        self
    }

    /// Tells whether labels fit.
    ///
    /// ```
    /// use windlass::List;
    /// let labels = [("app".to_string(), "cart".to_string())].into();
    /// assert!(List::all().label("app", "cart").matches(&labels));
    /// assert!(!List::all().label("app", "till").matches(&labels));
    /// ```
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.matches(labels)
    }
}
