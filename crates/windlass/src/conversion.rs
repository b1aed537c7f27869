//! Conversion between the versions of a kind, without losing what a version cannot express.
//!
//! Each version is an ordinary type. One of them is the hub: the version in which objects are stored.
//! A [`Conversion`] declares how every other version differs from it, by [`Fields`] that moved or
//! changed, or by two functions. The API server calls the conversion as a webhook, with
//! [`Conversion::review`] as the answer; an [`Operator`](crate::Operator) serves it and writes
//! `spec.conversion` into the manifests.
//!
//! What the target version cannot express is kept in the annotation `windlass.dev/conversion`: only
//! the difference, with the value that the conversion alone would give. Converting back restores a
//! value if the conversion alone still gives what it gave then. If somebody has changed a field in
//! between that the value depends on, the change wins and the kept value is dropped.
//!
//! **Invariant:** an object that is converted to another version and back is the same, to the byte,
//! if nobody changed it in between.
//! **Invariant:** a review never panics and never has a partial result.

mod delta;
mod fields;
mod review;
mod round_trip;
mod stash;

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use kube::CustomResourceExt;
use serde_json::Value;
use windlass_manifests::crd;

use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::scheme::Scheme;

pub use fields::Fields;
#[cfg(feature = "operator")]
pub(crate) use review::Conversions;
use stash::Stash;

/// The conversions between the versions of a kind, of which `H` is stored.
///
/// # Examples
///
/// A field moves, and another one is new in `v2`. Nothing has to be said about the new one: in `v1`
/// it is kept in an annotation.
///
/// ```
/// use serde_json::json;
/// use windlass::conversion::{Conversion, Fields};
///
/// mod v1 {
///     #[windlass::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
///     pub struct LampSpec {
///         pub watts: i32,
///     }
/// }
/// mod v2 {
///     #[windlass::api(group = "example.com", version = "v2", kind = "Lamp")]
///     pub struct LampSpec {
///         pub power: Power,
///         pub color: Option<String>,
///     }
///     #[windlass::k8s]
///     pub struct Power {
///         pub watts: i32,
///     }
/// }
///
/// let conversion = Conversion::<v2::Lamp>::new()
///     .version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power.watts"));
/// conversion.assert_round_trip(); // a whole property test
///
/// let lamp = json!({
///     "apiVersion": "example.com/v2", "kind": "Lamp", "metadata": {"name": "a", "uid": "1"},
///     "spec": {"power": {"watts": 60}, "color": "red"},
/// });
/// let old = conversion.convert(lamp.clone(), "example.com/v1")?;
/// assert_eq!(old["spec"], json!({"watts": 60}));
/// assert_eq!(conversion.convert(old, "example.com/v2")?, lamp);
/// # Ok::<(), windlass::Error>(())
/// ```
pub struct Conversion<H> {
    versions: Versions,
    hub: PhantomData<fn() -> H>,
}

/// The versions of one kind.
#[derive(Clone)]
pub(crate) struct Versions {
    hub: Version,
    others: Vec<Version>,
    /// The functions from every other version to the hub and back.
    scheme: Scheme,
    /// What is wrong with the declaration.
    problems: BTreeSet<String>,
}

#[derive(Clone)]
struct Version {
    kind: Kind,
    schema: Value,
    stored: bool,
    /// Returns why an object does not fit the type of the version.
    fits: fn(&Value) -> Result<()>,
}

// === impl Conversion ===

impl<H: Object<DynamicType = ()> + CustomResourceExt> Conversion<H> {
    /// Starts with the version in which objects are stored.
    #[allow(clippy::new_without_default, reason = "a hub alone converts nothing")]
    pub fn new() -> Self {
        let hub = Version::of::<H>();
        let (others, problems) = (Vec::new(), BTreeSet::new());
        let versions = Versions { hub, others, scheme: Scheme::default(), problems };
        Self { versions, hub: PhantomData }
    }

    /// Adds a version by the fields in which it differs from the stored one. Fields of equal paths
    /// are carried over, and what only one of the two versions has is kept in an annotation.
    pub fn version<S: Object<DynamicType = ()> + CustomResourceExt>(
        mut self,
        fields: Fields,
    ) -> Self {
        let other = Version::of::<S>();
        let hub = &self.versions.hub;
        let problems = fields.problems(&other.schema, &hub.schema);
        let (to_hub, from_hub) = fields.functions(
            (&other.kind.api_version(), &other.schema),
            (&hub.kind.api_version(), &hub.schema),
        );
        self.versions.scheme.insert(&other.kind, &hub.kind, to_hub);
        self.versions.scheme.insert(&hub.kind, &other.kind, from_hub);
        self.versions.add(other, problems);
        self
    }

    /// Adds a version by two functions, or by `TryFrom` of both types:
    /// `.version_with(v2::Lamp::try_from, v1::Lamp::try_from)`.
    ///
    /// The functions keep `metadata` except for labels and annotations, and do not validate: a value
    /// that the other version does not know is an error only if it cannot be left out. What a
    /// function leaves out is kept in an annotation.
    ///
    /// ```
    /// use windlass::conversion::Conversion;
    /// # mod v1 {
    /// #     #[windlass::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    /// #     pub struct LampSpec { pub milliwatts: i64 }
    /// # }
    /// # mod v2 {
    /// #     #[windlass::api(group = "example.com", version = "v2", kind = "Lamp")]
    /// #     pub struct LampSpec { pub watts: i64 }
    /// # }
    ///
    /// let conversion = Conversion::<v2::Lamp>::new().version_with(
    ///     |old: v1::Lamp| {
    ///         let spec = v2::LampSpec { watts: old.spec.milliwatts / 1000 };
    ///         Ok(v2::Lamp { metadata: old.metadata, spec })
    ///     },
    ///     |new: v2::Lamp| {
    ///         let spec = v1::LampSpec { milliwatts: new.spec.watts.saturating_mul(1000) };
    ///         Ok(v1::Lamp { metadata: new.metadata, spec })
    ///     },
    /// );
    /// conversion.assert_round_trip(); // 1500 milliwatts survive, although v2 has whole watts
    /// ```
    pub fn version_with<S: Object<DynamicType = ()> + CustomResourceExt>(
        mut self,
        to_hub: impl Fn(S) -> Result<H> + Send + Sync + 'static,
        from_hub: impl Fn(H) -> Result<S> + Send + Sync + 'static,
    ) -> Self {
        self.versions.scheme = self.versions.scheme.convert_with(to_hub).convert_with(from_hub);
        self.versions.add(Version::of::<S>(), Vec::new());
        self
    }

    /// Converts an object to another version.
    ///
    /// # Errors
    ///
    /// Fails if the object is of another kind or version, if a function fails or panics, or if the
    /// rest that the version cannot express does not fit into an annotation.
    pub fn convert(&self, object: Value, api_version: &str) -> Result<Value> {
        self.versions.convert(object, api_version)
    }

    /// Answers a `ConversionReview` of the API server.
    ///
    /// One object that cannot be converted fails the whole review, as the API server wants it; the
    /// message names the object. In tests the embedded server calls this without a socket:
    ///
    /// ```
    /// # use windlass::conversion::{Conversion, Fields};
    /// # mod v1 {
    /// #     #[windlass::api(group = "example.com", version = "v1", kind = "Lamp", storage = false)]
    /// #     pub struct LampSpec { pub watts: i32 }
    /// # }
    /// # mod v2 {
    /// #     #[windlass::api(group = "example.com", version = "v2", kind = "Lamp")]
    /// #     pub struct LampSpec { pub power: i32 }
    /// # }
    /// # let conversion = Conversion::<v2::Lamp>::new()
    /// #     .version::<v1::Lamp>(Fields::new().moved(".spec.watts", ".spec.power"));
    /// # let server = windlass_apiserver::ApiServer::start();
    /// server.register_webhook("https://lamps-webhook-service.lamps-system.svc/convert", move |review| {
    ///     let answer = conversion.review(review);
    ///     async { answer }
    /// });
    /// ```
    pub fn review(&self, review: Value) -> Value {
        review::answer(review, |_| Some(&self.versions))
    }

    /// Converts generated objects of every version to every other version and back, and panics if
    /// one of them differs or a converted object does not fit its type: a property test in one line.
    ///
    /// # Panics
    ///
    /// Panics with the first object that does not survive, or with what is wrong with the
    /// declaration.
    #[track_caller]
    pub fn assert_round_trip(&self) {
        if let Err(why) = round_trip::check(&self.versions) {
            panic!("{why}");
        }
    }

    #[cfg_attr(not(feature = "operator"), expect(dead_code, reason = "for operators"))]
    pub(crate) fn into_versions(self) -> Versions {
        self.versions
    }
}

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.versions.all().map(|version| version.kind.to_string());
        f.debug_list().entries(versions).finish()
    }
}

// === impl Versions ===

impl Versions {
    fn add(&mut self, version: Version, problems: Vec<String>) {
        let (one, hub) = (&version.kind, &self.hub.kind);
        for problem in problems {
            self.problems.insert(format!("{one}: {problem}"));
        }
        if (one.group(), one.kind()) != (hub.group(), hub.kind()) {
            self.problems.insert(format!("{one} is no version of {hub}"));
        }
        if self.all().any(|known| known.kind == *one) {
            self.problems.insert(format!("{one} is declared twice"));
        }
        if version.stored || !self.hub.stored {
            let text = "set `storage = false` on every version but that of the conversion";
            self.problems.insert(format!("{hub} must be the version that is stored: {text}"));
        }
        self.others.push(version);
    }

    fn all(&self) -> impl Iterator<Item = &Version> {
        std::iter::once(&self.hub).chain(&self.others)
    }

    fn version(&self, api_version: &str) -> Option<&Version> {
        self.all().find(|known| known.kind.api_version() == api_version)
    }

    /// The group and kind that all versions share.
    pub(crate) fn group_kind(&self) -> (&str, &str) {
        (self.hub.kind.group(), self.hub.kind.kind())
    }

    /// Fails with everything that is wrong with the declaration.
    pub(crate) fn check(&self) -> Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let all: Vec<&str> = self.problems.iter().map(String::as_str).collect();
        Err(Error::Invalid(format!("the conversion of {}: {}", self.hub.kind, all.join("; "))))
    }

    /// The names of all versions.
    #[cfg(feature = "operator")]
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.all().map(|version| version.kind.version().to_owned()).collect()
    }

    /// The name of the version that is stored.
    #[cfg(feature = "operator")]
    pub(crate) fn stored(&self) -> &str {
        self.hub.kind.version()
    }

    fn convert(&self, object: Value, to: &str) -> Result<Value> {
        self.check()?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (kind, from) = (text("kind").to_owned(), text("apiVersion").to_owned());
        if kind != self.hub.kind.kind() {
            return Err(Error::Invalid(format!("{kind:?} is not {}", self.hub.kind.kind())));
        }
        for version in [from.as_str(), to] {
            if self.version(version).is_none() {
                let known: Vec<String> = self.all().map(|v| v.kind.api_version()).collect();
                let known = known.join(", ");
                let text = format!("{kind} has no version {version:?}, only {known}");
                return Err(Error::Invalid(text));
            }
        }
        let path = self.scheme.path(&kind, &from, to)?;
        let mut steps = path.iter().filter_map(|next| self.version(next));
        steps.try_fold(object, |object, next| self.step(&object, next))
    }

    /// Converts an object one step, restores what the target version had kept, and keeps what the
    /// target version cannot express.
    fn step(&self, object: &Value, to: &Version) -> Result<Value> {
        let (mut stash, plain) = Stash::take(object);
        let from = plain["apiVersion"].as_str().unwrap_or_default().to_owned();
        let api_version = to.kind.api_version();
        let mut converted = self.scheme.step(plain.clone(), &api_version)?;
        complete(&plain, &mut converted, &api_version);
        stash.restore(&api_version, &to.schema, &mut converted);
        let mut returned = self.scheme.step(converted.clone(), &from)?;
        complete(&plain, &mut returned, &from);
        stash.keep(&from, &returned, &plain);
        stash.put(&mut converted)?;
        Ok(converted)
    }
}

/// Sets what no conversion changes: the kind, the version, and metadata except for labels and
/// annotations.
fn complete(original: &Value, converted: &mut Value, api_version: &str) {
    converted["apiVersion"] = api_version.into();
    converted["kind"] = original["kind"].clone();
    let given = converted["metadata"].take();
    let mut metadata = original["metadata"].clone();
    if let Value::Object(fields) = &mut metadata {
        for name in ["labels", "annotations"] {
            match given.get(name) {
                Some(Value::Object(texts)) if !texts.is_empty() || fields.contains_key(name) => {
                    fields.insert(name.into(), Value::Object(texts.clone()));
                }
                _ => drop(fields.remove(name)),
            }
        }
    }
    converted["metadata"] = metadata;
}

impl Version {
    fn of<K: Object<DynamicType = ()> + CustomResourceExt>() -> Self {
        let kind = Kind::of::<K>();
        let definition = crd::to_value(&K::crd());
        let versions = definition["spec"]["versions"].as_array();
        let mine = versions.into_iter().flatten().find(|v| v["name"] == kind.version());
        let mine = mine.cloned().unwrap_or_default();
        Self {
            kind,
            schema: mine["schema"]["openAPIV3Schema"].clone(),
            stored: mine["storage"] == true,
            fits: |object| match serde_json::from_value::<K>(object.clone()) {
                Ok(_) => Ok(()),
                Err(source) => Err(Error::Decode { what: Kind::of::<K>().to_string(), source }),
            },
        }
    }
}

#[cfg(test)]
mod tests;
