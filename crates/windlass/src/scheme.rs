//! The versions of a kind: their Rust types, their defaults and the conversions between them.
//!
//! Conversions are functions between two versions of one kind. If no function leads from one
//! version to another directly, the shortest chain of functions is used, usually by way of the hub.
//! `examples/informer.rs` reads an old version of a kind as the newest one, and a
//! [`Conversion`](crate::conversion::Conversion) finds its functions here.
//!
//! **Invariant:** a conversion keeps `metadata` except for labels and annotations, as the API server
//! demands of conversion webhooks.

use std::any::{TypeId, type_name};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::kind::{Kind, Object};

type Fill = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;
pub(crate) type Convert = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;

/// The types an operator knows, with their defaults and conversions.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass::scheme::Scheme;
///
/// let scheme = Scheme::default().default_with(|map: &mut ConfigMap| {
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
    type_name: &'static str,
    /// Another type that was added for the same kind: which of them is meant nobody knows.
    rival: Option<&'static str>,
    defaults: Vec<Fill>,
}

// === impl Scheme ===

impl Scheme {
    /// Adds a type, with a function that fills in what is missing.
    ///
    /// Two types of one kind are an error when an object of that kind is read.
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

    /// Adds a conversion from `A` to `B`, two versions of one kind.
    ///
    /// ```
    /// use k8s_openapi::api::autoscaling::{v1, v2};
    /// use serde_json::json;
    /// use windlass::scheme::Scheme;
    ///
    /// let scheme = Scheme::default()
    ///     .convert_with(|old: v1::HorizontalPodAutoscaler| {
    ///         let spec = v2::HorizontalPodAutoscalerSpec {
    ///             min_replicas: old.spec.min_replicas,
    ///             max_replicas: old.spec.max_replicas,
    ///             ..Default::default()
    ///         };
    ///         Ok(v2::HorizontalPodAutoscaler { metadata: old.metadata, spec, status: None })
    ///     })
    ///     .default_with(|new: &mut v2::HorizontalPodAutoscaler| {
    ///         new.spec.min_replicas.get_or_insert(1);
    ///     });
    ///
    /// let stored = json!({
    ///     "apiVersion": "autoscaling/v1",
    ///     "kind": "HorizontalPodAutoscaler",
    ///     "metadata": {"name": "web"},
    ///     "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    /// });
    /// let read: v2::HorizontalPodAutoscaler = scheme.decode(stored.clone())?;
    /// assert_eq!((read.spec.max_replicas, read.spec.min_replicas), (5, Some(1)));
    /// let nowhere = Scheme::default().decode::<v2::HorizontalPodAutoscaler>(stored).unwrap_err();
    /// let text = "no conversion of HorizontalPodAutoscaler from autoscaling/v1 to autoscaling/v2";
    /// assert_eq!(nowhere.to_string(), text);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn convert_with<A, B>(
        mut self,
        convert: impl Fn(A) -> Result<B> + Send + Sync + 'static,
    ) -> Self
    where
        A: Object<DynamicType = ()>,
        B: Object<DynamicType = ()>,
    {
        self.entry::<A>();
        self.entry::<B>();
        self.insert(&Kind::of::<A>(), &Kind::of::<B>(), typed(convert));
        self
    }

    /// Adds a conversion that reads and writes JSON.
    pub(crate) fn insert(&mut self, from: &Kind, to: &Kind, convert: Convert) {
        self.conversions.entry(id(from)).or_default().insert(to.api_version(), convert);
    }

    fn entry<K: Object<DynamicType = ()>>(&mut self) -> &mut Registered {
        let (kind, type_id) = (Kind::of::<K>(), TypeId::of::<K>());
        let registered = self.types.entry(id(&kind)).or_insert_with(|| Registered {
            kind,
            type_id,
            type_name: type_name::<K>(),
            rival: None,
            defaults: Vec::new(),
        });
        if registered.type_id != type_id {
            registered.rival = Some(type_name::<K>());
        }
        registered
    }

    /// Fills in what is missing, with the functions of the object's version.
    fn fill(&self, object: Value) -> Result<Value> {
        match self.types.get(&named(&object)) {
            None => Ok(object),
            Some(Registered { kind, type_name, rival: Some(rival), .. }) => {
                let text = format!("{kind} has two types in the scheme: {type_name} and {rival}");
                Err(Error::Invalid(text))
            }
            Some(registered) => registered.defaults.iter().try_fold(object, |o, fill| fill(o)),
        }
    }

    /// Converts an object to another version of its kind.
    ///
    /// # Errors
    ///
    /// Fails if no chain of conversions leads there, or if one of them fails.
    fn convert(&self, object: Value, api_version: &str) -> Result<Value> {
        let (kind, from) = named(&object);
        let path = self.path(&kind, &from, api_version)?;
        path.iter().try_fold(object, |object, next| self.step(object, next))
    }

    /// Converts an object by the one function that leads to a version directly.
    ///
    /// # Errors
    ///
    /// Fails if there is no such function, or if it fails.
    pub(crate) fn step(&self, object: Value, api_version: &str) -> Result<Value> {
        let from = named(&object);
        match self.conversions.get(&from).and_then(|steps| steps.get(api_version)) {
            Some(convert) => convert(object),
            None => Err(missing(&from.0, &from.1, api_version)),
        }
    }

    /// Reads an object of whatever version as `K`, converted and with defaults.
    ///
    /// # Errors
    ///
    /// Fails if no chain of conversions leads to the version of `K`, if one of them fails, if the
    /// object is of another kind or does not decode, or if its kind has two types here.
    pub fn decode<K: Object<DynamicType = ()>>(&self, object: Value) -> Result<K> {
        let (kind, version) = named(&object);
        let wanted = Kind::of::<K>();
        if kind != wanted.kind() {
            return Err(Error::Invalid(format!("{kind:?} of {version} is not {wanted}")));
        }
        let object = self.fill(object)?;
        let object = self.convert(object, &wanted.api_version())?;
        read(self.fill(object)?)
    }

    /// Returns the versions that the shortest chain of conversions passes, with `to` as the last one:
    /// none if an object of `from` needs no conversion.
    ///
    /// # Errors
    ///
    /// Fails if no chain of conversions leads there.
    pub(crate) fn path(&self, kind: &str, from: &str, to: &str) -> Result<Vec<String>> {
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([(from, Vec::new())]);
        while let Some((at, path)) = queue.pop_front() {
            if at == to {
                return Ok(path);
            }
            let steps = self.conversions.get(&(kind.to_owned(), at.to_owned()));
            for next in steps.into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next) {
                    let path = path.iter().chain([next]).cloned().collect();
                    queue.push_back((next, path));
                }
            }
        }
        Err(missing(kind, from, to))
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheme").field("kinds", &self.types.keys()).finish()
    }
}

/// A function between two versions as one on JSON, which fails if it changes metadata other than
/// labels and annotations.
fn typed<A, B>(convert: impl Fn(A) -> Result<B> + Send + Sync + 'static) -> Convert
where
    A: Object<DynamicType = ()>,
    B: Object<DynamicType = ()>,
{
    Arc::new(move |value| {
        let object: A = read(value)?;
        let before = kept(object.meta());
        let converted = convert(object)?;
        if kept(converted.meta()) != before {
            let (from, to) = (Kind::of::<A>(), Kind::of::<B>());
            let text = "changes metadata other than labels and annotations";
            return Err(Error::Invalid(format!("the conversion of {from} to {to} {text}")));
        }
        Ok(serde_json::to_value(&converted)?)
    })
}

fn missing(kind: &str, from: &str, to: &str) -> Error {
    Error::Invalid(format!("no conversion of {kind} from {from} to {to}"))
}

/// What a conversion has to keep.
fn kept(meta: &ObjectMeta) -> ObjectMeta {
    ObjectMeta { labels: None, annotations: None, ..meta.clone() }
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
        Scheme::default().convert_with(|one: One| {
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
        let scheme = Scheme::default().convert_with(|_: One| Ok(Two::default()));
        assert!(scheme.convert(object(), "autoscaling/v2").is_err());
        let scheme = Scheme::default().convert_with(|mut one: One| {
            one.metadata.finalizers = None;
            one.metadata.labels = Some([("moved".to_owned(), String::new())].into());
            Ok(Two { metadata: one.metadata, ..Two::default() })
        });
        assert!(scheme.convert(object(), "autoscaling/v2").is_ok(), "labels may change");
        let mut held = object();
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let error = scheme.convert(held, "autoscaling/v2").expect_err("a finalizer is lost");
        let text = "changes metadata other than labels and annotations";
        assert!(error.to_string().ends_with(text), "{error}");
    }

    #[test]
    fn two_types_of_one_kind_and_objects_of_another_kind_are_refused() {
        type Meta = kube::core::PartialObjectMeta<ConfigMap>;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let both =
            Scheme::default().default_with(|_: &mut ConfigMap| {}).default_with(|_: &mut Meta| {});
        let error = both.decode::<ConfigMap>(map.clone()).expect_err("which is it?");
        assert!(error.to_string().starts_with("ConfigMap.v1 has two types in the scheme: "));
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let error = scheme().decode::<ConfigMap>(secret).expect_err("no config map");
        assert_eq!(error.to_string(), "\"Secret\" of v1 is not ConfigMap.v1");
        assert!(scheme().decode::<ConfigMap>(map).is_ok());
    }

    /// Three versions of a kind; the middle one is the hub.
    fn drives() -> Scheme {
        Scheme::default()
            .default_with(|old: &mut v1::Drive| old.spec.warp = old.spec.warp.max(1))
            .default_with(|new: &mut v3::Drive| {
                new.spec.unit.get_or_insert_with(|| "warp".into());
            })
            .convert_with(|old: v1::Drive| {
                let spec = v2::DriveSpec { speed: i64::from(old.spec.warp) };
                Ok(v2::Drive { metadata: old.metadata, spec })
            })
            .convert_with(|hub: v2::Drive| {
                let spec = v3::DriveSpec { velocity: hub.spec.speed, unit: None };
                Ok(v3::Drive { metadata: hub.metadata, spec })
            })
            .convert_with(|new: v3::Drive| {
                let spec = v2::DriveSpec { speed: new.spec.velocity };
                Ok(v2::Drive { metadata: new.metadata, spec })
            })
            .convert_with(|hub: v2::Drive| match i32::try_from(hub.spec.speed) {
                Ok(warp) => Ok(v1::Drive { metadata: hub.metadata, spec: v1::DriveSpec { warp } }),
                Err(_) => Err(Error::Invalid("too fast for v1".into())),
            })
    }

    macro_rules! drive {
        ($module:ident, $version:literal, { $($field:ident: $type:ty),* }) => {
            mod $module {
                #[derive(
                    kube::CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize,
                    schemars::JsonSchema,
                )]
                #[kube(group = "ships.example.com", version = $version, kind = "Drive", namespaced)]
                pub struct DriveSpec { $(#[serde(default)] pub $field: $type),* }
            }
        };
    }
    drive!(v1, "v1", { warp: i32 });
    drive!(v2, "v2", { speed: i64 });
    drive!(v3, "v3", { velocity: i64, unit: Option<String> });

    fn drive(version: &str, spec: Value) -> Value {
        json!({
            "apiVersion": format!("ships.example.com/{version}"), "kind": "Drive",
            "metadata": {"name": "a", "uid": "u", "labels": {"keep": "me"}}, "spec": spec,
        })
    }

    #[test]
    fn a_version_is_reached_over_the_hub_with_the_defaults_of_both_ends() {
        let new: v3::Drive = drives().decode(drive("v1", json!({}))).expect("converted");
        assert_eq!((new.spec.velocity, new.spec.unit.as_deref()), (1, Some("warp")));
        assert_eq!(new.metadata.labels.expect("kept")["keep"], "me");
        let back = drives().convert(drive("v3", json!({"velocity": 9})), "ships.example.com/v1");
        assert_eq!(back.expect("converted")["spec"], json!({"warp": 9}));
    }

    #[test]
    fn a_conversion_that_fails_says_why() {
        let fast = drive("v3", json!({"velocity": 1_i64 << 40}));
        let error = drives().convert(fast, "ships.example.com/v1").expect_err("too much");
        assert_eq!(error.to_string(), "too fast for v1");
        let wrong = drive("v1", json!({"warp": "nine"}));
        let error = drives().convert(wrong, "ships.example.com/v2").expect_err("no number");
        assert!(error.to_string().contains("Drive of ships.example.com/v1"), "{error}");
    }

    #[test]
    fn an_object_of_a_kind_nobody_added_is_left_as_it_is() {
        let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        assert_eq!(drives().fill(other.clone()).expect("passes"), other);
        assert!(drives().convert(other.clone(), "v1").is_ok(), "it is of that version already");
        assert!(drives().convert(other, "v2").is_err());
    }
}
