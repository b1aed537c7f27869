//! Settings of a manager in a file, which can change while it runs.
//!
//! ```yaml
//! log: info,windlass=debug     # what is logged, as in RUST_LOG
//! workers: 4                   # of every controller
//! controllers:
//!   shops: {workers: 8}        # of this one
//! namespaceSelector:           # or a list, `namespaces`
//!   matchLabels: {team: blue}
//! ```
//!
//! What the file does not mention is as the program and its flags say.
//!
//! **Invariant:** a file that is not valid changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::{Map, Value, json};

use crate::cache::Choice;
use crate::error::{Error, Result};
use crate::selector;

/// Most workers of a controller.
const WORKERS_MAX: u64 = 100_000;

/// What a file can set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The directives of the log.
    pub(super) log: Option<String>,
    /// The workers of every controller.
    workers: Option<usize>,
    /// The workers of single controllers.
    controllers: BTreeMap<String, usize>,
    /// Where objects are cached.
    pub(super) namespaces: Option<Choice>,
}

// === impl Settings ===

impl Settings {
    /// Reads and checks the content of a file.
    ///
    /// # Errors
    ///
    /// Fails with a sentence that names the field.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut documents = windlass_manifests::yaml::read(text).map_err(Error::Invalid)?;
        let value = match (documents.pop(), documents.is_empty()) {
            (None, _) => return Ok(Self::default()),
            (Some(value), true) => value,
            (Some(_), false) => return Err(wrong("more than one document")),
        };
        let mut settings = Self::default();
        for (name, value) in fields(&value, "the file")? {
            match name.as_str() {
                "log" => settings.log = Some(log(value)?),
                "workers" => settings.workers = Some(workers(value, "workers")?),
                "controllers" => settings.controllers = controllers(value)?,
                "namespaces" | "namespaceSelector" if settings.namespaces.is_some() => {
                    return Err(wrong("namespaces and namespaceSelector: only one can be set"));
                }
                "namespaces" => settings.namespaces = Some(Choice::Names(namespaces(value)?)),
                "namespaceSelector" => {
                    settings.namespaces = Some(Choice::Labels(namespace_selector(value)?));
                }
                other => {
                    return Err(wrong(format!(
                        "{other}: unknown field, expected log, workers, controllers, namespaces or \
                         namespaceSelector"
                    )));
                }
            }
        }
        Ok(settings)
    }

    /// Fails if the settings are about a controller that does not exist.
    pub(super) fn check<'a>(&self, known: impl Iterator<Item = &'a str>) -> Result<()> {
        let known: BTreeSet<&str> = known.collect();
        let Some(unknown) = self.controllers.keys().find(|name| !known.contains(name.as_str()))
        else {
            return Ok(());
        };
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Err(wrong(format!("controllers.{unknown}: there is no such controller, only {known}")))
    }

    /// Returns the number of workers of a controller, if it is set.
    pub(super) fn workers(&self, controller: &str) -> Option<usize> {
        self.controllers.get(controller).copied().or(self.workers)
    }

    /// Returns what is set, for the diagnostics page.
    pub(super) fn report(&self) -> Value {
        let namespaces = self.namespaces.as_ref().map(|choice| match choice {
            Choice::Names(names) => names.iter().cloned().collect::<Vec<_>>().join(", "),
            Choice::Labels(selector) => format!("those that match {selector}"),
        });
        json!({
            "log": self.log,
            "workers": self.workers,
            "controllers": self.controllers,
            "namespaces": namespaces,
        })
    }
}

fn fields<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(format!("{at}: expected fields with values")))
}

fn log(value: &Value) -> Result<String> {
    let text = value.as_str().ok_or_else(|| wrong("log: expected a text such as info"))?;
    match crate::log::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(wrong(format!("log: {error}"))),
    }
}

fn workers(value: &Value, at: &str) -> Result<usize> {
    let number = value.as_u64().filter(|number| (1..=WORKERS_MAX).contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| wrong(format!("{at}: expected a number from 1 to {WORKERS_MAX}")))
}

fn controllers(value: &Value) -> Result<BTreeMap<String, usize>> {
    let mut all = BTreeMap::new();
    for (name, value) in fields(value, "controllers")? {
        let at = format!("controllers.{name}");
        for (field, value) in fields(value, &at)? {
            match field.as_str() {
                "workers" => {
                    all.insert(name.clone(), workers(value, &format!("{at}.workers"))?);
                }
                other => {
                    return Err(wrong(format!("{at}.{other}: unknown field, expected workers")));
                }
            }
        }
    }
    Ok(all)
}

fn namespaces(value: &Value) -> Result<BTreeSet<String>> {
    let names = value.as_array().filter(|names| !names.is_empty());
    let names = names.ok_or_else(|| wrong("namespaces: expected a list of at least one name"))?;
    let name = |value: &Value| match value.as_str() {
        Some(name) if windlass_text::name::dns1123_label(name) => Ok(name.to_owned()),
        _ => Err(wrong(format!("namespaces: {value} is not the name of a namespace"))),
    };
    names.iter().map(name).collect()
}

fn namespace_selector(value: &Value) -> Result<Selector> {
    let known = ["matchLabels", "matchExpressions"];
    for (name, _) in fields(value, "namespaceSelector")? {
        if !known.contains(&name.as_str()) {
            return Err(wrong(format!(
                "namespaceSelector.{name}: unknown field, expected matchLabels or matchExpressions"
            )));
        }
    }
    let selector: LabelSelector = serde_json::from_value(value.clone())
        .map_err(|error| wrong(format!("namespaceSelector: {error}")))?;
    selector::labels_of(selector).map_err(|error| wrong(format!("namespaceSelector: {error}")))
}

fn wrong(what: impl Into<String>) -> Error {
    Error::Invalid(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Settings::read(text).expect_err(text).to_string()
    }

    #[test]
    fn everything_that_can_be_set_is_read() {
        let text = "log: info,windlass=debug\nworkers: 4\ncontrollers:\n  shops: {workers: 8}\n\
                    namespaceSelector:\n  matchLabels: {team: blue}\n";
        let settings = Settings::read(text).expect("valid");
        assert_eq!((settings.workers("shops"), settings.workers("maps")), (Some(8), Some(4)));
        assert_eq!(
            settings.report(),
            json!({
                "log": "info,windlass=debug", "workers": 4, "controllers": {"shops": 8},
                "namespaces": "those that match team=blue",
            })
        );
        let names = Settings::read(r#"{"namespaces": ["b", "a"]}"#).expect("valid");
        assert_eq!(names.report()["namespaces"], "a, b");
        for empty in ["", "# nothing\n", "{}"] {
            assert_eq!(Settings::read(empty).expect("valid").workers("a"), None, "{empty}");
        }
    }

    #[test]
    fn the_guide_shows_a_file_that_is_read() {
        let guide = include_str!("../../../../docs/finished-operator.md");
        let block = guide.split("```yaml\n").nth(1).expect("a file");
        let settings = Settings::read(block.split("```").next().unwrap_or_default());
        let report = settings.expect("valid").report();
        assert_eq!(report["controllers"], json!({"shops": 8}));
        assert_eq!(report["namespaces"], "those that match shops=allowed");
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        for (text, said) in [
            ("a: [", "not YAML: "),
            ("workers: 0", "workers: expected a number from 1 to 100000"),
            ("workers: many", "workers: expected a number from 1 to 100000"),
            ("workers: 1.5", "workers: expected a number from 1 to 100000"),
            ("worker: 1", "worker: unknown field, expected log, workers, controllers, namespaces"),
            ("log: 3", "log: expected a text such as info"),
            ("log: windlass=loud", "log: the log filter \"windlass=loud\" is not valid: "),
            ("[1]", "the file: expected fields with values"),
            ("a: 1\n---\nb: 2", "more than one document"),
            ("controllers: [a]", "controllers: expected fields with values"),
            ("controllers: {a: {workers: -1}}", "controllers.a.workers: expected a number"),
            ("controllers: {a: {size: 1}}", "controllers.a.size: unknown field, expected workers"),
            ("namespaces: []", "namespaces: expected a list of at least one name"),
            ("namespaces: [A_B]", "namespaces: \"A_B\" is not the name of a namespace"),
            ("namespaceSelector: {labels: {}}", "namespaceSelector.labels: unknown field"),
            (
                "namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}",
                "namespaceSelector: ",
            ),
            (
                "namespaceSelector: {matchLabels: {a!: b}}",
                "namespaceSelector: label selector: invalid",
            ),
            (
                "namespaces: [a]\nnamespaceSelector: {matchLabels: {a: b}}",
                "namespaces and namespaceSelector: only one can be set",
            ),
        ] {
            let problem = problem(text);
            assert!(problem.starts_with(said), "{text}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
        let settings = Settings::read("controllers: {shop: {workers: 1}}").expect("valid");
        let error = settings.check(["shops", "maps"].into_iter()).expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "controllers.shop: there is no such controller, only maps, shops"
        );
    }
}
