//! Requests that read: single objects, lists and watches.

use crate::generate::Generator;
use crate::sequence::Step;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Returns a request that reads a path.
pub fn get(path: String) -> Step {
    Step { request: format!("GET {path}"), ..Step::default() }
}

// === impl Generator ===

impl Generator<'_> {
    /// An object, in one of several forms.
    pub(crate) fn read(&mut self, name: &str) -> Step {
        let accept =
            *self.draw.pick(&[None, Some(TABLE), Some(METADATA), Some("application/yaml2")]);
        let name = *self.draw.pick(&[name, name, "missing"]);
        Step {
            request: format!("GET {}", self.seed.path(name)),
            accept: accept.map(str::to_owned),
            ..Step::default()
        }
    }

    /// A list with an option.
    pub(crate) fn list(&mut self) -> Step {
        let query = *self.draw.pick(&[
            "labelSelector=app%3Da",
            "labelSelector=app+in+(a,b)",
            "labelSelector=!app",
            "labelSelector=%3D",
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=spec.nothing%3Da",
            "limit=1",
            "limit=x",
            "resourceVersion=0",
            "resourceVersion=x",
            "resourceVersionMatch=Exact",
        ]);
        // Cluster-scoped kinds also have objects of other runs.
        let query = match (self.seed.cluster, query) {
            (true, "labelSelector=!app" | "limit=1" | "resourceVersion=0") => {
                "labelSelector=app%3Dnothing"
            }
            (true, "labelSelector=app%3Da" | "labelSelector=app+in+(a,b)") => {
                "labelSelector=app%3Dnothing"
            }
            (_, query) => query,
        };
        let accept = *self.draw.pick(&[None, Some(TABLE), Some(METADATA)]);
        Step {
            request: format!("GET {}?{query}", self.seed.collection()),
            accept: accept.map(str::to_owned),
            ..Step::default()
        }
    }

    /// The events of the run, or of what is there.
    pub(crate) fn watch(&mut self) -> Step {
        let from = *self.draw.pick(&[
            "&resourceVersion={rv}",
            "&resourceVersion={rv}",
            "",
            "&resourceVersion=0",
            // Bookmarks come after a time that depends on how busy a server is.
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "&resourceVersion=x",
        ]);
        // The real server only knows the events of a new kind from the moment it is served.
        let from = if self.seed.api.contains("{id}") && from.contains("{rv}") { "" } else { from };
        let mut path = self.seed.collection();
        path += "?watch=true&timeoutSeconds=1";
        if self.seed.cluster {
            path += &format!("&fieldSelector=metadata.name%3D{}", self.seed.name("a"));
        }
        let accept = *self.draw.pick(&[None, None, Some(TABLE), Some(METADATA)]);
        let mut step = get(path + from);
        step.accept = accept.map(str::to_owned);
        step
    }
}
