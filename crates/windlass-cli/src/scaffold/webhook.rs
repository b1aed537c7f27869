//! `windlass create webhook`: what completes and checks the objects of a kind, and what converts them
//! between its versions.

use std::path::Path;

use clap::Args;

use super::changes::{Changes, How};
use super::create::{Creator, next_steps};
use super::delete::foreign_test;
use super::hooks::{Hooks, Part, Task};
use super::modules::{self, Module};
use super::package::Package;
use super::subject::Subject;
use super::template::webhook::Admission;
use super::{Named, Names, names, prompt};
use crate::failure::Failure;

#[derive(Args)]
pub struct CreateWebhookArgs {
    #[command(flatten)]
    names: Names,

    /// Fill in defaults.
    #[arg(long)]
    defaulting: bool,

    /// Check objects with code.
    #[arg(long, visible_alias = "validation")]
    programmatic_validation: bool,

    /// Convert between versions; --version is the one that is stored.
    #[arg(long)]
    conversion: bool,

    /// The versions to convert to and from; by default all others.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', requires = "conversion")]
    spoke: Vec<String>,

    /// The Rust type of a kind that is neither built in nor of this project, such as
    /// `acme_api::v1::Widget`.
    #[arg(long, value_name = "PATH", conflicts_with = "conversion")]
    external_api_path: Option<String>,

    #[command(flatten)]
    how: How,
}

/// What a webhook does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tasks {
    defaulting: bool,
    validation: bool,
    conversion: bool,
}

/// Creates a webhook.
pub fn run(args: CreateWebhookArgs) -> Result<(), Failure> {
    let package = Package::find(Path::new("."))?;
    let named = args.names.complete()?;
    let spokes = args.spoke.iter().map(|text| names::version(text)).collect::<Result<_, _>>();
    let spokes: Vec<String> = spokes.map_err(Failure::usage)?;
    let given = Tasks {
        defaulting: args.defaulting,
        validation: args.programmatic_validation,
        conversion: args.conversion,
    };
    let tasks = given.or_asked()?;
    let creator = Creator::new(&package)?;
    if creator.operator.is_none() {
        return Err(creator.no_operator());
    }
    let external = args.external_api_path.as_deref();
    let subject = Subject::find(&package, &creator.defined, &named, external)?;
    let mut changes = Changes::default();
    match subject.own {
        Some(_) => Own::find(&creator, &subject, &named)?.create(&mut changes, tasks, &spokes)?,
        None if tasks.conversion => {
            return Err(Failure::usage(format!(
                "the versions of {} are not those of this project; only its own kinds are converted",
                named.kind
            )));
        }
        None => foreign(&creator, &mut changes, &subject, &named, tasks)?,
    }
    next_steps(&mut changes);
    changes.finish(&package.root, &args.how)
}

// === impl Tasks ===

impl Tasks {
    /// What was given; asks if nothing was.
    fn or_asked(self) -> Result<Self, Failure> {
        if self != Self::default() {
            return Ok(self);
        }
        let question = "what the webhook does: defaulting, programmatic-validation or conversion";
        let flags = "--defaulting, --programmatic-validation or --conversion";
        let missing = format!("{flags} is missing: {question}");
        let answer =
            prompt::asked(question, &missing, |text| Self::read(text).map(|_| text.into()))?;
        Self::read(&answer).map_err(Failure::usage)
    }

    /// Reads words with commas or spaces between them.
    fn read(text: &str) -> Result<Self, String> {
        let mut tasks = Self::default();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            match word.trim_start_matches('-') {
                "defaulting" => tasks.defaulting = true,
                "programmatic-validation" | "validation" => tasks.validation = true,
                "conversion" => tasks.conversion = true,
                other => return Err(format!("{other:?} is not what a webhook does")),
            }
        }
        match tasks == Self::default() {
            true => Err("name at least one".into()),
            false => Ok(tasks),
        }
    }
}

/// A kind of the project that gets webhooks.
struct Own<'a> {
    creator: &'a Creator<'a>,
    hooks: Hooks,
    /// The file of the kind, which declares the modules of its webhooks.
    parent: &'a Module,
    version: String,
}

// === impl Own ===

impl<'a> Own<'a> {
    fn find(creator: &'a Creator<'a>, subject: &Subject, named: &Named) -> Result<Self, Failure> {
        let Named { kind, version, .. } = named;
        let hooks = Hooks::of(creator.package, &creator.defined, &subject.group, kind);
        let found = hooks.and_then(|hooks| {
            let parent = creator.package.module(std::slice::from_ref(&hooks.module))?;
            hooks.sample(version)?;
            Some((hooks, parent))
        });
        let (hooks, parent) = found.ok_or_else(|| {
            Failure::other(format!(
                "{kind} {version} is not in a module of the crate's root or of the kind's first \
                 version; add its webhook by hand, nothing was changed"
            ))
        })?;
        Ok(Self { creator, hooks, parent, version: version.clone() })
    }

    fn create(
        &self,
        changes: &mut Changes,
        tasks: Tasks,
        spokes: &[String],
    ) -> Result<(), Failure> {
        let mut added = Vec::new();
        if tasks.conversion {
            added.extend(self.conversion(changes, spokes)?);
        }
        if tasks.defaulting || tasks.validation {
            added.extend(self.admission(changes, tasks)?);
        }
        let names: Vec<String> = added.iter().map(|part| part.name().to_owned()).collect();
        let source = &self.parent.source;
        changes.update(
            &source.path,
            &source.text,
            modules::with(&source.path, source.text.clone(), &names)?,
        );
        let prefix = self.creator.prefix();
        let calls = added.iter().map(|part| self.hooks.call(*part, &prefix));
        self.creator.add_calls(changes, &calls.collect::<Vec<_>>())
    }

    /// Creates admission webhooks, or lets those that exist do more; returns what is new.
    fn admission(&self, changes: &mut Changes, tasks: Tasks) -> Result<Option<Part>, Failure> {
        let (hooks, part) = (&self.hooks, Part::Admission);
        let mut task = Task {
            version: self.version.clone(),
            defaulting: tasks.defaulting,
            validation: tasks.validation,
        };
        let path = hooks.file(part);
        changes.next(format!("edit {path}: what is filled in, and what is refused"));
        let Some(text) = self.existing(part) else {
            changes.create(path, hooks.admission(&task).unwrap_or_default());
            self.test(changes, part, hooks.admission_test(&task), &self.version);
            return Ok(Some(part));
        };
        let known = hooks.task_of(text).filter(|known| known.version == task.version);
        let known = known.ok_or_else(|| self.by_hand(&path, "the functions and the calls"))?;
        task.defaulting |= known.defaulting;
        task.validation |= known.validation;
        if task == known {
            return Err(Failure::usage(format!("{path} does that already")));
        }
        changes.update(&path, text, hooks.admission(&task).unwrap_or_default());
        self.test_again(changes, part, hooks.admission_test(&known), hooks.admission_test(&task))?;
        Ok(None)
    }

    /// Creates a conversion, or adds versions to the one that exists; returns what is new.
    fn conversion(
        &self,
        changes: &mut Changes,
        spokes: &[String],
    ) -> Result<Option<Part>, Failure> {
        let (hooks, part, kind) = (&self.hooks, Part::Conversion, &self.hooks.kind);
        let (stored, is_stored) = hooks.first();
        if self.version != stored || !is_stored {
            return Err(Failure::usage(format!(
                "the versions of {kind} are converted to the one that is stored and from it; give \
                 --version {stored}, and let it be the only one without `storage = false`"
            )));
        }
        let further = hooks.further();
        if let Some(unknown) = spokes.iter().find(|spoke| !further.contains(spoke)) {
            return Err(Failure::usage(format!(
                "{kind} has no version {unknown} in a module of {stored}; create it with `windlass \
                 create api`"
            )));
        }
        if further.is_empty() {
            return Err(Failure::usage(format!(
                "{kind} has one version, so that nothing is converted; create another one with \
                 `windlass create api`"
            )));
        }
        let wanted = if spokes.is_empty() { &further[..] } else { spokes };
        let path = hooks.file(part);
        changes.next(format!("edit {path}: fields that have another path or form"));
        let Some(text) = self.existing(part) else {
            changes.create(path, hooks.conversion(wanted));
            self.test(changes, part, hooks.conversion_test(wanted), stored);
            return Ok(Some(part));
        };
        let known = hooks.others_of(text);
        let known = known.ok_or_else(|| self.by_hand(&path, "calls of `version`"))?;
        let mut all = known.clone();
        all.extend(wanted.iter().filter(|one| !known.contains(one)).cloned());
        if all == known {
            return Err(Failure::usage(format!("{path} does that already")));
        }
        changes.update(&path, text, hooks.conversion(&all));
        self.test_again(changes, part, hooks.conversion_test(&known), hooks.conversion_test(&all))?;
        Ok(None)
    }

    /// The text of a file of webhooks that exists.
    fn existing(&self, part: Part) -> Option<&str> {
        let module = [self.hooks.module.clone(), part.name().to_owned()];
        let found = self.creator.package.module(&module)?;
        Some(&found.source.text)
    }

    fn by_hand(&self, path: &str, what: &str) -> Failure {
        Failure::other(format!(
            "{path} was changed since it was created, or is for another version; add {what} by \
             hand, nothing was changed"
        ))
    }

    /// Creates a test, if there is what it starts from.
    fn test(&self, changes: &mut Changes, part: Part, text: Option<String>, version: &str) {
        let sample = self.hooks.sample(version).unwrap_or_default();
        let there = self.creator.package.root.join(&sample).is_file();
        match text.filter(|_| there) {
            Some(text) => changes.create(self.hooks.test_file(part), text),
            None => changes.note(format!(
                "note: no test was created, because {sample} or `pub fn operator()` is missing"
            )),
        }
    }

    /// Writes a test anew, if it is as it was created.
    fn test_again(
        &self,
        changes: &mut Changes,
        part: Part,
        old: Option<String>,
        new: Option<String>,
    ) -> Result<(), Failure> {
        let path = self.hooks.test_file(part);
        let file = self.creator.package.root.join(&path);
        if !file.is_file() {
            return Ok(());
        }
        let text = modules::read_text(&file, Path::new(&path))?;
        match (old, new) {
            (Some(old), Some(new)) if old == text => changes.update(&path, &text, new),
            _ => changes.note(format!("note: {path} was changed; add tests of what is new")),
        }
        Ok(())
    }
}

/// Creates the webhooks of a kind that is defined elsewhere.
fn foreign(
    creator: &Creator<'_>,
    changes: &mut Changes,
    subject: &Subject,
    named: &Named,
    tasks: Tasks,
) -> Result<(), Failure> {
    let kind = &named.kind;
    let group = subject.group.split('.').next().unwrap_or_default();
    let module = creator.free_module(&format!("{}_webhook", names::module(kind)), group)?;
    let admission = Admission {
        what: &subject.what,
        path: &subject.path,
        kind,
        operator: &creator.package.name,
        defaulting: tasks.defaulting,
        validation: tasks.validation,
    };
    let path = creator.package.file(&[&module]);
    changes.create(&path, admission.file());
    let test = |library: &str| foreign_test(&admission, library, &module, &named.version);
    creator.test(changes, &module, test);
    let call = format!(".webhook({}{module}::webhook())", creator.prefix());
    creator.wire(changes, &module, &[call])?;
    changes.next(format!("edit {path}: what is filled in, and what is refused"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_what_a_webhook_does() {
        let tasks = Tasks::read("defaulting, validation").unwrap();
        assert_eq!(tasks, Tasks { defaulting: true, validation: true, conversion: false });
        let tasks = Tasks::read("--programmatic-validation").unwrap();
        assert_eq!(tasks, Tasks { validation: true, ..Tasks::default() });
        assert!(Tasks::read("").is_err() && Tasks::read("deny").is_err());
    }
}
