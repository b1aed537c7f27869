//! Which Rust type serves which group, version and kind; its defaults; its conversions.
//!
//! A scheme is what conversion webhooks, version migrations and generic tools ask. Conversions are
//! functions between two versions of one kind; a version that has no direct function to another is
//! reached over the ones between, usually the hub.
//!
//! **Invariant:** a conversion keeps `metadata`, as the API server demands of conversion webhooks.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

type Fill = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;
type Convert = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;

/// The types an operator knows.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::scheme::Scheme;
///
/// let scheme = Scheme::new().add::<ConfigMap>().default_with(|map: &mut ConfigMap| {
///     map.immutable.get_or_insert(false);
/// });
/// let map: ConfigMap = scheme.decode(json!({
///     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
/// }))?;
/// assert_eq!(map.immutable, Some(false));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Scheme {
    types: BTreeMap<(String, String), Registered>,
    conversions: BTreeMap<(String, String), BTreeMap<String, Convert>>,
}

#[derive(Clone)]
struct Registered {
    kind: Kind,
    type_id: TypeId,
    defaults: Vec<Fill>,
}

// === impl Scheme ===

impl Scheme {
    /// A scheme that knows nothing.
    pub fn new() -> Self {
        Default::default()
    }

    /// Adds the type of a group, version and kind.
    pub fn add<K: Object<DynamicType = ()>>(mut self) -> Self {
        self.entry::<K>();
        self
    }

    /// Adds a function that fills in what is missing, and the type if it is new.
    pub fn default_with<K: Object<DynamicType = ()>>(
        mut self,
        fill: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Self {
        let run: Fill = Arc::new(move |value| {
            let mut object: K = read(value)?;
            fill(&mut object);
            Ok(serde_json::to_value(&object)?)
        });
        self.entry::<K>().defaults.push(run);
        self
    }

    /// Adds a conversion from `A` to `B`, two versions of one kind, and the types if they are new.
    pub fn convert_with<A, B>(
        mut self,
        convert: impl Fn(A) -> Result<B> + Send + Sync + 'static,
    ) -> Self
    where
        A: Object<DynamicType = ()>,
        B: Object<DynamicType = ()>,
    {
        let run: Convert = Arc::new(move |value| {
            let object: A = read(value)?;
            let (name, uid) = (object.meta().name.clone(), object.meta().uid.clone());
            let converted = convert(object)?;
            if converted.meta().name != name || converted.meta().uid != uid {
                return Err(Error::Invalid("a conversion must not change metadata".into()));
            }
            Ok(serde_json::to_value(&converted)?)
        });
        self.entry::<A>();
        self.entry::<B>();
        let (from, to) = (Kind::of::<A>(), Kind::of::<B>());
        self.conversions.entry(id(&from)).or_default().insert(to.api_version(), run);
        self
    }

    fn entry<K: Object<DynamicType = ()>>(&mut self) -> &mut Registered {
        let kind = Kind::of::<K>();
        self.types.entry(id(&kind)).or_insert_with(|| Registered {
            kind,
            type_id: TypeId::of::<K>(),
            defaults: Vec::new(),
        })
    }

    /// Tells whether a group/version and kind is known.
    pub fn recognizes(&self, api_version: &str, kind: &str) -> bool {
        self.types.contains_key(&(kind.to_string(), api_version.to_string()))
    }

    /// Tells whether `K` is the type of its kind here.
    pub fn has<K: Object<DynamicType = ()>>(&self) -> bool {
        self.types.get(&id(&Kind::of::<K>())).is_some_and(|r| r.type_id == TypeId::of::<K>())
    }

    /// All kinds, by name and version.
    pub fn kinds(&self) -> Vec<Kind> {
        self.types.values().map(|registered| registered.kind.clone()).collect()
    }

    /// Fills in what is missing, with the functions of the object's version.
    ///
    /// # Errors
    ///
    /// Fails if the object does not decode into its type.
    pub fn fill(&self, object: Value) -> Result<Value> {
        match self.types.get(&named(&object)) {
            None => Ok(object),
            Some(registered) => registered.defaults.iter().try_fold(object, |o, fill| fill(o)),
        }
    }

    /// Converts an object to another version of its kind.
    ///
    /// # Errors
    ///
    /// Fails if no chain of conversions leads there, or if one of them fails.
    pub fn convert(&self, object: Value, api_version: &str) -> Result<Value> {
        let (kind, from) = named(&object);
        if from == api_version {
            return Ok(object);
        }
        let Some(path) = self.path(&kind, &from, api_version) else {
            return Err(Error::Invalid(format!(
                "no conversion of {kind} from {from} to {api_version}"
            )));
        };
        path.iter().try_fold(object, |object, convert| convert(object))
    }

    /// Reads an object of whatever version as `K`, converted and with defaults.
    ///
    /// # Errors
    ///
    /// As [`convert`](Self::convert) and [`fill`](Self::fill).
    pub fn decode<K: Object<DynamicType = ()>>(&self, object: Value) -> Result<K> {
        let object = self.fill(object)?;
        let object = self.convert(object, &Kind::of::<K>().api_version())?;
        read(self.fill(object)?)
    }

    /// The shortest chain of conversions.
    fn path(&self, kind: &str, from: &str, to: &str) -> Option<Vec<Convert>> {
        let mut seen = BTreeSet::from([from.to_string()]);
        let mut queue = VecDeque::from([(from.to_string(), Vec::new())]);
        while let Some((at, path)) = queue.pop_front() {
            let steps = self.conversions.get(&(kind.to_string(), at)).into_iter().flatten();
            for (next, convert) in steps {
                let mut path: Vec<Convert> = path.clone();
                path.push(convert.clone());
                if next == to {
                    return Some(path);
                }
                if seen.insert(next.clone()) {
                    queue.push_back((next.clone(), path));
                }
            }
        }
        None
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheme").field("kinds", &self.kinds()).finish()
    }
}

fn id(kind: &Kind) -> (String, String) {
    (kind.kind().to_string(), kind.api_version())
}

fn named(object: &Value) -> (String, String) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().into();
    (text("kind"), text("apiVersion"))
}

fn read<K: Object>(object: Value) -> Result<K> {
    let (kind, version) = named(&object);
    serde_json::from_value(object)
        .map_err(|source| Error::Decode { what: format!("{kind} of {version}"), source })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    type One = autoscaling::v1::HorizontalPodAutoscaler;
    type Two = autoscaling::v2::HorizontalPodAutoscaler;

    fn scheme() -> Scheme {
        Scheme::new().add::<ConfigMap>().convert_with(|one: One| {
            let mut two = Two { metadata: one.metadata, ..Two::default() };
            two.spec.max_replicas = one.spec.max_replicas;
            Ok(two)
        })
    }

    fn object() -> Value {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 7, "scaleTargetRef": {"kind": "Deployment", "name": "b"}},
        })
    }

    #[test]
    fn an_object_of_another_version_is_converted() {
        let two: Two = scheme().decode(object()).expect("converted");
        assert_eq!(two.spec.max_replicas, 7);
    }

    #[test]
    fn a_missing_conversion_is_named() {
        let error = scheme().convert(object(), "autoscaling/v3").expect_err("no such version");
        assert_eq!(
            error.to_string(),
            "no conversion of HorizontalPodAutoscaler from autoscaling/v1 to autoscaling/v3"
        );
    }

    #[test]
    fn a_conversion_must_keep_metadata() {
        let scheme = Scheme::new().convert_with(|_: One| Ok(Two::default()));
        assert!(scheme.convert(object(), "autoscaling/v2").is_err());
    }

    #[test]
    fn types_are_known_by_version_and_kind() {
        let scheme = scheme();
        assert!(scheme.recognizes("v1", "ConfigMap") && scheme.has::<Two>());
        assert!(!scheme.recognizes("v2", "ConfigMap"));
        assert_eq!(scheme.kinds().len(), 3);
    }
}
