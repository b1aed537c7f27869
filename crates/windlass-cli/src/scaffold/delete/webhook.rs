//! Deletes the webhooks of a kind: those of a project's kind are modules of it, those of other kinds
//! have a module of their own.

use super::{Remover, missing};
use crate::failure::Failure;
use crate::scaffold::changes::Changes;
use crate::scaffold::hooks::{Hooks, Part, converted};
use crate::scaffold::package::Defined;
use crate::scaffold::template::webhook::{Admission, Sample, built_in_sample};
use crate::scaffold::{Named, create, names};

impl Remover<'_> {
    /// Removes the webhooks of a kind, and nothing else.
    pub(super) fn remove_webhooks(mut self, named: &Named) -> Result<Changes, Failure> {
        let group = self.package.group(&named.group);
        let found = match Hooks::of(self.package, &self.defined, &group, &named.kind) {
            Some(hooks) => {
                let parts = self.present(&hooks);
                for part in &parts {
                    self.part(&hooks, *part)?;
                }
                !parts.is_empty()
            }
            None => self.foreign_webhooks(named)?,
        };
        match found {
            true => self.finish(),
            false => Err(missing("webhook of ", named, &[])),
        }
    }

    /// The modules of a kind's webhooks that its file declares.
    pub(super) fn own_webhooks(&self, own: &Defined) -> Vec<String> {
        let hooks = Hooks::of(self.package, &self.defined, &own.group, &own.kind);
        let Some(hooks) = hooks.filter(|_| own.module.len() == 1) else { return Vec::new() };
        self.present(&hooks).iter().map(|part| part.name().to_owned()).collect()
    }

    fn present(&self, hooks: &Hooks) -> Vec<Part> {
        let there = |part: &Part| self.package.module(&module(hooks, *part)).is_some();
        Part::ALL.into_iter().filter(there).collect()
    }

    /// Removes what the webhooks of a kind have for one version, or all if that is the first one.
    pub(super) fn webhooks_of(&mut self, own: &Defined) -> Result<(), Failure> {
        let hooks = Hooks::of(self.package, &self.defined, &own.group, &own.kind);
        let Some(hooks) = hooks else { return Ok(()) };
        for part in self.present(&hooks) {
            match own.module.len() {
                1 => self.part(&hooks, part)?,
                _ => self.version(&hooks, part, &own.version)?,
            }
        }
        Ok(())
    }

    /// Removes a file of webhooks and its test.
    fn part(&mut self, hooks: &Hooks, part: Part) -> Result<(), Failure> {
        let path = hooks.file(part);
        if let Some(text) = self.text_if_any(&path)? {
            let others = converted(&text, &hooks.kind);
            self.file(&path, &text, &hooks.texts(part, &others));
            self.file_if_any(&hooks.test_file(part), &hooks.test_texts(part, &others))?;
        }
        let prefix = self.prefix();
        self.calls.push(hooks.call(part, &prefix));
        self.modules.push(module(hooks, part));
        Ok(())
    }

    /// Takes a version that is removed out of a file of webhooks.
    fn version(&mut self, hooks: &Hooks, part: Part, version: &str) -> Result<(), Failure> {
        let path = hooks.file(part);
        let text = self.text_if_any(&path)?.unwrap_or_default();
        if !Hooks::mentions(part, &text, version) {
            return Ok(());
        }
        let others = match part {
            Part::Admission => hooks.task_of(&text).map(|_| Vec::new()),
            Part::Conversion => hooks.others_of(&text),
        };
        let others = others.ok_or_else(|| {
            Failure::other(format!(
                "{path} uses version {version} and was changed since `windlass create`; remove the \
                 version there first, nothing was changed"
            ))
        })?;
        let left: Vec<String> = others.iter().filter(|one| *one != version).cloned().collect();
        if left.is_empty() {
            return self.part(hooks, part);
        }
        self.changes.update(&path, &text, hooks.conversion(&left));
        let test = hooks.test_file(part);
        if let (Some(text), Some(new)) = (self.text_if_any(&test)?, hooks.conversion_test(&left)) {
            match hooks.test_texts(part, &others).contains(&text) {
                true => self.changes.update(&test, &text, new),
                false => self.changes.note(format!("note: {test} still uses version {version}")),
            }
        }
        Ok(())
    }

    /// Removes the webhooks of a kind that is defined elsewhere; returns `false` if there are none.
    pub(super) fn foreign_webhooks(&mut self, named: &Named) -> Result<bool, Failure> {
        let Named { group, version, kind } = named;
        let prefix = self.prefix();
        let call = |module: &str| format!(".webhook({prefix}{module}::webhook())");
        let candidates = [format!("{}_webhook", names::module(kind))];
        let Some((module, source, import)) = self.foreign(&candidates, named, &call) else {
            return Ok(false);
        };
        let (mut files, mut tests) = (Vec::new(), Vec::new());
        let library = create::tested(self.package);
        for what in self.whats(group, version, kind) {
            for (defaulting, validation) in [(true, true), (true, false), (false, true)] {
                let operator = &self.package.name;
                let (what, path) = (&what, &import);
                let admission = Admission { what, path, kind, operator, defaulting, validation };
                files.push(admission.file());
                let test = |library| foreign_test(&admission, library, &module, version);
                tests.extend(library.map(test));
            }
        }
        self.file(&source.path, &source.text, &files);
        self.file_if_any(&format!("tests/{module}.rs"), &tests)?;
        self.calls.push(call(&module));
        self.modules.push(vec![module]);
        Ok(true)
    }
}

fn module(hooks: &Hooks, part: Part) -> Vec<String> {
    vec![hooks.module.clone(), part.name().to_owned()]
}

/// The test of a webhook of a kind that is defined elsewhere.
pub fn foreign_test(
    admission: &Admission<'_>,
    library: &str,
    module: &str,
    version: &str,
) -> String {
    let Admission { path, kind, .. } = admission;
    let name = module.trim_end_matches("_webhook");
    let version =
        if path.contains("::apps::") { format!("apps/{version}") } else { version.into() };
    let sample = path.starts_with("k8s_openapi::").then(|| built_in_sample(&version, kind));
    match sample.flatten() {
        Some(text) => admission.test(library, path, name, &Sample::Text(&text)),
        None => admission.test(library, path, name, &Sample::None),
    }
}
