//! The webhooks of a kind of the project: in which files they are, and what `create webhook` writes
//! there.
//!
//! Everything is a module of the kind, so that it is renamed and deleted with it.

use super::create;
use super::delete::kind_of;
use super::package::{Defined, Package};
use super::template::webhook::{Admission, Converted, Sample};

/// The webhooks of a kind in a module of the crate's root.
pub struct Hooks {
    operator: String,
    library: Option<String>,
    /// The file of the module without `.rs`.
    path: String,
    pub module: String,
    pub group: String,
    pub kind: String,
    /// The versions; the one of the module itself is the first.
    versions: Vec<Version>,
}

#[derive(Clone)]
struct Version {
    name: String,
    /// The module of a further version.
    module: Option<String>,
    own: Defined,
}

/// A file of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Admission,
    Conversion,
}

/// What an admission webhook does, and for which version it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub version: String,
    pub defaulting: bool,
    pub validation: bool,
}

// === impl Part ===

impl Part {
    pub const ALL: [Self; 2] = [Self::Admission, Self::Conversion];

    /// The name of the module, of its function, and of the call in the operator expression.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "webhook",
            Self::Conversion => "conversion",
        }
    }
}

// === impl Hooks ===

impl Hooks {
    /// The webhooks that a kind has or may get; `None` if it is not in a module of the crate's root.
    pub fn of(package: &Package, defined: &[Defined], group: &str, kind: &str) -> Option<Self> {
        let same = |one: &&Defined| one.group == group && one.kind == kind;
        let first = defined.iter().filter(same).find(|one| one.module.len() == 1)?;
        let module = first.module[0].clone();
        let further = defined.iter().filter(same).filter_map(|one| match &one.module[..] {
            [outer, inner] if *outer == module && *inner == one.version => {
                Some(Version { name: inner.clone(), module: Some(inner.clone()), own: one.clone() })
            }
            _ => None,
        });
        let stored = Version { name: first.version.clone(), module: None, own: first.clone() };
        Some(Self {
            operator: package.name.clone(),
            library: create::tested(package).map(str::to_owned),
            path: package.file(&[&module]).trim_end_matches(".rs").to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            versions: [stored].into_iter().chain(further).collect(),
            module,
        })
    }

    /// The same webhooks of a kind with other names, in the same files.
    pub fn renamed(&self, module: &str, group: &str, kind: &str) -> Self {
        let versions = self.versions.iter().cloned().map(|mut version| {
            (version.own.group, version.own.kind) = (group.to_owned(), kind.to_owned());
            version
        });
        Self {
            operator: self.operator.clone(),
            library: self.library.clone(),
            path: self.path.clone(),
            module: module.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            versions: versions.collect(),
        }
    }

    /// The versions in modules of their own.
    pub fn further(&self) -> Vec<String> {
        self.versions.iter().filter_map(|version| version.module.clone()).collect()
    }

    /// The first version, and whether it is the one that is stored.
    pub fn first(&self) -> (&str, bool) {
        let first = &self.versions[0];
        let others = self.versions[1..].iter().all(|other| !other.own.storage);
        (&first.name, first.own.storage && others)
    }

    pub fn file(&self, part: Part) -> String {
        format!("{}/{}.rs", self.path, part.name())
    }

    pub fn test_file(&self, part: Part) -> String {
        format!("tests/{}_{}.rs", self.module, part.name())
    }

    /// The call in the operator expression.
    pub fn call(&self, part: Part, prefix: &str) -> String {
        let (module, name) = (&self.module, part.name());
        format!(".{name}({prefix}{module}::{name}::{name}())")
    }

    /// The sample of a version, by its path.
    pub fn sample(&self, version: &str) -> Option<String> {
        let found = self.versions.iter().find(|one| one.name == version)?;
        Some(kind_of(&found.own).sample_path())
    }

    /// The file of the admission webhooks.
    pub fn admission(&self, task: &Task) -> Option<String> {
        self.with_admission(task, |admission, _| admission.file())
    }

    /// The test of the admission webhooks.
    pub fn admission_test(&self, task: &Task) -> Option<String> {
        let (library, sample) = (self.library.as_deref()?, self.sample(&task.version)?);
        self.with_admission(task, |admission, inner| {
            let path = format!("{library}::{}::{inner}{}", self.module, self.kind);
            admission.test(library, &path, &self.module, &Sample::File(&sample))
        })
    }

    fn with_admission(
        &self,
        task: &Task,
        text: impl FnOnce(&Admission<'_>, &str) -> String,
    ) -> Option<String> {
        let version = self.versions.iter().find(|one| one.name == task.version)?;
        let inner = version.module.as_ref().map(|name| format!("{name}::")).unwrap_or_default();
        let Self { group, kind, .. } = self;
        let admission = Admission {
            what: &format!("{kind} ({group}/{})", version.name),
            path: &format!("super::{inner}{kind}"),
            kind,
            operator: &self.operator,
            defaulting: task.defaulting,
            validation: task.validation,
        };
        Some(text(&admission, &inner))
    }

    /// The file of a conversion.
    pub fn conversion(&self, others: &[String]) -> String {
        Converted { kind: &self.kind, stored: &self.versions[0].name, others }.file()
    }

    /// The test of a conversion.
    pub fn conversion_test(&self, others: &[String]) -> Option<String> {
        let stored = &self.versions[0].name;
        let (library, sample) = (self.library.as_deref()?, self.sample(stored)?);
        let converted = Converted { kind: &self.kind, stored, others };
        Some(converted.test(library, &self.module, &sample))
    }

    /// Returns what the admission webhooks in a file do, if it is as it was created.
    pub fn task_of(&self, text: &str) -> Option<Task> {
        self.tasks().into_iter().find(|task| self.admission(task).as_deref() == Some(text))
    }

    /// The versions that the conversion in a file is for, if it is as it was created.
    pub fn others_of(&self, text: &str) -> Option<Vec<String>> {
        let others = converted(text, &self.kind);
        (!others.is_empty() && self.conversion(&others) == text).then_some(others)
    }

    fn tasks(&self) -> Vec<Task> {
        let ways = [(true, true), (true, false), (false, true)];
        let tasks = self.versions.iter().flat_map(|version| {
            ways.map(|(defaulting, validation)| Task {
                version: version.name.clone(),
                defaulting,
                validation,
            })
        });
        tasks.collect()
    }

    /// The texts that a file may have been created with, given the one that it has.
    ///
    /// Those of the same kind under another name have the same order.
    pub fn texts(&self, part: Part, others: &[String]) -> Vec<String> {
        match part {
            Part::Admission => {
                self.tasks().iter().filter_map(|task| self.admission(task)).collect()
            }
            Part::Conversion => vec![self.conversion(others)],
        }
    }

    /// The texts that a test may have been created with.
    pub fn test_texts(&self, part: Part, others: &[String]) -> Vec<String> {
        match part {
            Part::Admission => {
                self.tasks().iter().filter_map(|task| self.admission_test(task)).collect()
            }
            Part::Conversion => self.conversion_test(others).into_iter().collect(),
        }
    }

    /// Returns `true` if a file of webhooks is written for a version.
    pub fn mentions(part: Part, text: &str, version: &str) -> bool {
        match part {
            Part::Admission => text.contains(&format!("super::{version}::")),
            Part::Conversion => text.contains(&format!("<{version}::")),
        }
    }
}

/// The versions that a text with a conversion, or with its test, names: modules in front of the kind.
pub fn converted(text: &str, kind: &str) -> Vec<String> {
    let (start, end) = ("::<", format!("::{kind}>("));
    let found = text.split(start).skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once(&end)?;
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (plain && !name.is_empty()).then(|| name.to_owned())
    });
    found.collect()
}
