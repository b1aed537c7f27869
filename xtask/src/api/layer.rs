//! The layers of the crate, each with a limit of its own.
//!
//! The runtime is what every operator uses. What is built on it has its own modules, and its own
//! limit, so that growth of one layer does not hide behind another. The limits are close to what
//! there is: a larger one is a decision.

use super::surface::Surface;

/// A part of the public API, and how large it may be.
pub struct Layer {
    pub name: &'static str,
    /// The paths of its items and modules; everything else belongs to the runtime.
    prefixes: &'static [&'static str],
    pub types_max: usize,
    pub functions_max: usize,
}

/// What is not in another layer: what every operator uses.
pub const RUNTIME: Layer =
    Layer { name: "runtime", prefixes: &[], types_max: 60, functions_max: 250 };

/// The layers that are built on the runtime.
pub const OTHERS: [Layer; 4] = [
    Layer {
        name: "finished",
        // What `docs/finished-operator.md` adds to a reconcile function that applies objects.
        prefixes: &[
            // Children as a set, in steps.
            "windlass::Context::children",
            "windlass::controller::Children",
            "windlass::controller::Step",
            // Readiness and the conditions that follow from it.
            "windlass::Readiness",
            "windlass::condition::ConditionBuilder::new",
            "windlass::Context::report",
            "windlass::controller::Builder::conditions",
            // References to other objects.
            "windlass::Context::reference",
            "windlass::Context::stamp",
            "windlass::controller::Builder::references",
            // Claims by selector.
            "windlass::Context::adopt",
            "windlass::Context::claim",
            // Selectors, and what is remembered about an object.
            "windlass::Index::selectors",
            "windlass::List::selecting",
            "windlass::Watch::selected_by",
            "windlass::cache::Selection",
            "windlass::Context::memory",
            // A small typed patch.
            "windlass::client::Api::change",
            // Causes of a reconcile.
            "windlass::Context::causes",
            "windlass::controller::Cause",
            // Kinds that come and go.
            "windlass::Context::serves",
            "windlass::Watch::optional",
            // Schedules and fairness.
            "windlass::schedule",
            "windlass::controller::Builder::fair_by",
            // Switches for those who run the operator.
            "windlass::Context::is_paused",
            "windlass::Manager::annotation_prefix",
            "windlass::Manager::settings_file",
            "windlass::Manager::namespace_selector",
        ],
        types_max: 7,
        functions_max: 38,
    },
    Layer {
        name: "operator",
        prefixes: &["windlass::Operator", "windlass::operator"],
        types_max: 1,
        functions_max: 21,
    },
    Layer {
        name: "webhook",
        prefixes: &[
            "windlass::webhook",
            // The three ways from a manager to its webhooks.
            "windlass::Manager::webhook_server",
            "windlass::Manager::webhooks",
            "windlass::manager::Handle::webhook_address",
        ],
        types_max: 8,
        functions_max: 40,
    },
    Layer {
        name: "conversion",
        prefixes: &["windlass::conversion"],
        types_max: 3,
        functions_max: 10,
    },
];

/// The kinds of lines that count as types.
const TYPES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

// === impl Layer ===

impl Layer {
    /// Returns all layers, the runtime first.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::once(&RUNTIME).chain(&OTHERS)
    }

    /// Returns the layer of an item.
    fn of(path: &str) -> &'static Self {
        OTHERS.iter().find(|layer| layer.has(path)).unwrap_or(&RUNTIME)
    }

    fn has(&self, path: &str) -> bool {
        self.prefixes.iter().any(|prefix| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
    }

    /// Returns the lines of the items of this layer.
    pub fn lines<'a>(&self, surface: &'a Surface) -> impl Iterator<Item = &'a str> {
        surface
            .items()
            .filter(move |(_, path)| Self::of(path).name == self.name)
            .map(|(line, _)| line)
    }

    pub fn types(&self, surface: &Surface) -> usize {
        self.lines(surface).filter(|line| TYPES.contains(&what(line))).count()
    }

    pub fn functions(&self, surface: &Surface) -> usize {
        self.lines(surface).filter(|line| what(line) == "fn").count()
    }

    /// Fails if the layer has more public items than its limits allow.
    pub fn check(&self, surface: &Surface) -> Result<(), String> {
        for (what, count, limit) in [
            ("types", self.types(surface), self.types_max),
            ("functions", self.functions(surface), self.functions_max),
        ] {
            if count > limit {
                let name = self.name;
                return Err(format!(
                    "the {name} layer has {count} public {what}, the limit is {limit}: make some \
                     pub(crate), or raise the limit in xtask/src/api/layer.rs"
                ));
            }
        }
        Ok(())
    }
}

/// Returns what a line lists: `fn`, `struct` and so on.
fn what(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::surface::surface;
    use super::*;

    #[test]
    fn items_belong_to_the_layer_whose_prefix_they_have() {
        for (path, layer) in [
            ("windlass::Operator", "operator"),
            ("windlass::Operator::new", "operator"),
            ("windlass::Operators", "runtime"),
            ("windlass::webhook::Server", "webhook"),
            ("windlass::Manager::new", "runtime"),
            ("windlass::Context::report", "finished"),
            ("windlass::Context::apply", "runtime"),
        ] {
            assert_eq!(Layer::of(path).name, layer, "{path}");
        }
    }

    #[test]
    fn more_types_than_the_limit_of_a_layer_are_an_error() {
        let many: String = (0..=RUNTIME.types_max).map(|n| format!("pub struct S{n};")).collect();
        let source = Source::of("windlass", &[("lib.rs", &many)]).expect("parses");
        let error = RUNTIME.check(&surface(&source)).expect_err("too many");
        assert!(error.contains(&format!("{} public types", RUNTIME.types_max + 1)), "{error}");
        let webhook = [("lib.rs", "pub mod webhook;"), ("webhook.rs", &*many)];
        let source = Source::of("windlass", &webhook).expect("parses");
        assert_eq!(RUNTIME.check(&surface(&source)), Ok(()), "they belong to another layer");
        assert!(OTHERS[2].check(&surface(&source)).is_err());
    }
}
