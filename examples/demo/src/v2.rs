//! Another version of the kind, in which the image has two parts, and the conversion.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt, Resource};
use serde::{Deserialize, Serialize};
use windlass::conversion::{Conversion, Fields};

use crate::typed::{self, DemoStatus, definition};

/// A number of pods with one image.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Demo {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What people ask for.
    pub spec: DemoSpec,
    /// What the operator reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DemoStatus>,
}

/// What people ask for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DemoSpec {
    /// What the pods run.
    pub image: Image,
    /// How many pods run. The API server fills in a default.
    #[serde(default)]
    pub replicas: i32,
}

/// The name of an image in its parts.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Image {
    /// Where the image is.
    pub repository: String,
    /// Which one of the images there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

// === impl Image ===

impl Image {
    /// Divides a name. Every text has a repository: whether it is valid is a question for the schema.
    pub fn parse(name: &str) -> Self {
        match name.split_once(':') {
            Some((repository, tag)) => {
                Self { repository: repository.into(), tag: Some(tag.into()) }
            }
            None => Self { repository: name.into(), tag: None },
        }
    }

    /// Returns the name.
    pub fn name(&self) -> String {
        match &self.tag {
            Some(tag) => format!("{}:{tag}", self.repository),
            None => self.repository.clone(),
        }
    }
}

// === impl Demo ===

impl Resource for Demo {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Demo".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v2".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "demos".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl CustomResourceExt for Demo {
    fn crd() -> CustomResourceDefinition {
        definition("v2")
    }

    fn crd_name() -> &'static str {
        "demos.example.com"
    }

    fn api_resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }

    fn shortnames() -> &'static [&'static str] {
        &["dm"]
    }
}

/// Converts between the versions: a text here is two fields there.
pub fn conversion() -> Conversion<typed::Demo> {
    let fields = Fields::new().changed(
        ".spec.image",
        ".spec.image",
        |image: Image| Ok(image.name()),
        |name: String| Ok(Image::parse(&name)),
    );
    Conversion::new().version::<Demo>(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_objects_of_both_versions_survive_the_way_to_the_other_and_back() {
        conversion().assert_round_trip();
    }

    #[test]
    fn an_image_and_its_parts_are_the_same() {
        for name in ["nginx", "nginx:1.29-alpine", "registry.example.com/team/web:v1"] {
            assert_eq!(Image::parse(name).name(), name);
        }
    }
}
