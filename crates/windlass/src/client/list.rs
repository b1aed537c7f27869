//! Which objects a list returns.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use crate::cache::Entry;
use crate::error::{Error, Result};

/// Selects objects of one kind; by default all of them.
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
/// let count = async |list: List| client.list::<ConfigMap>(&list).await.map(|found| found.len());
/// let here = List::within("default").matching(Expression::Exists("app".into()).into());
/// assert_eq!(count(here.clone()).await?, 3);
/// assert_eq!(count(here.clone().label("app", "cart")).await?, 2);
/// assert_eq!(count(here.clone().limit(1)).await?, 1);
/// assert_eq!(count(here.clone().fields("metadata.name!=a")).await?, 2);
///
/// // With the selector of a Deployment.
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
    /// Selects all objects in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects all objects in one namespace. As in the API, an empty name means all namespaces.
    pub fn within(namespace: &str) -> Self {
        let namespace = Some(namespace.to_owned()).filter(|name| !name.is_empty());
        Self { namespace, ..Self::default() }
    }

    /// Selects only objects with all of these labels.
    pub fn labels(mut self, labels: &BTreeMap<String, String>) -> Self {
        let wanted: Selector = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        self.labels.extend(wanted);
        self
    }

    /// Selects only objects with this label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.extend(kube::core::Expression::Equal(name.into(), value.into()));
        self
    }

    /// Selects only objects that match a selector.
    pub fn matching(mut self, selector: Selector) -> Self {
        self.labels.extend(selector);
        self
    }

    /// Selects only objects that match the `LabelSelector` of another object.
    ///
    /// # Errors
    ///
    /// Fails on an operator other than `In`, `NotIn`, `Exists` and `DoesNotExist`.
    pub fn selector(mut self, selector: &LabelSelector) -> Result<Self> {
        let parsed = Selector::try_from(selector.clone())
            .map_err(|e| Error::Invalid(format!("label selector: {e}")))?;
        self.labels.extend(parsed);
        Ok(self)
    }

    /// Selects only objects with these field values, in the syntax of field selectors.
    ///
    /// Reads from the cache support `metadata.name` and `metadata.namespace`; use an index for
    /// other fields.
    pub fn fields(mut self, fields: &str) -> Self {
        self.fields = Some(fields.into());
        self
    }

    /// Limits the number of objects. As in the API, 0 means no limit.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit).filter(|limit| *limit > 0);
        self
    }

    /// Returns `true` if an object with these labels is selected.
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

    /// Returns the conditions on names and namespaces: whether it is the name, whether the value is
    /// wanted, and the value.
    ///
    /// # Errors
    ///
    /// Fails on any other field, as the cache cannot select by it.
    pub(crate) fn names(&self) -> Result<Vec<(bool, bool, &str)>> {
        let terms = self.fields.iter().flat_map(|fields| fields.split(','));
        terms
            .filter(|term| !term.is_empty())
            .map(|term| {
                let (field, wanted, value) = match term.split_once("!=") {
                    Some((field, value)) => (field, false, value),
                    None => match term.split_once('=') {
                        Some((field, value)) => (field, true, value.trim_start_matches('=')),
                        None => (term, true, ""),
                    },
                };
                match field {
                    "metadata.name" => Ok((true, wanted, value)),
                    "metadata.namespace" => Ok((false, wanted, value)),
                    _ => Err(Error::Invalid(format!(
                        "field selector {field} only works for live lists: use an index"
                    ))),
                }
            })
            .collect()
    }

    pub(crate) fn matches_entry(&self, entry: &Entry) -> bool {
        self.labels.selects_all() || {
            let labels = entry.labels().iter().map(|(k, v)| (k.to_string(), v.to_string()));
            self.labels.matches(&labels.collect())
        }
    }
}
