//! `windlass rename api`: another kind or group for all versions of a kind.
//!
//! Files that are as `create api` wrote them are written anew with the new names. In all others, the
//! names that lead to the kind and its module change ([`code`]), and everything else stays.

mod code;
#[cfg(test)]
mod tests;

use std::path::Path;

use clap::Args;

use super::changes::{Changes, How};
use super::create;
use super::delete::{controller_name, kind_of};
use super::hooks::{Hooks, Part, converted};
use super::index::{File, Index};
use super::package::{Defined, Package};
use super::source::Source;
use super::template::Kind;
use super::{modules, names, prompt, samples};
use crate::failure::Failure;

use code::Code;

#[derive(Args)]
pub struct RenameApiArgs {
    /// The group of the kind.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// The kind.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// The new kind; by default it stays.
    #[arg(long, value_name = "KIND", required_unless_present = "to_group")]
    to: Option<String>,

    /// The new group; by default it stays.
    #[arg(long, value_name = "GROUP")]
    to_group: Option<String>,

    #[command(flatten)]
    how: How,
}

/// Renames an API.
pub fn run(args: RenameApiArgs) -> Result<(), Failure> {
    let package = Package::find(Path::new("."))?;
    let ask = "which group does the kind belong to, such as cache";
    let group = prompt::required(args.group, "group", ask, names::group)?;
    let kind = prompt::required(args.kind, "kind", "what is the kind called", names::kind)?;
    let to = args.to.as_deref().map(names::kind).transpose().map_err(Failure::usage)?;
    let to_group = args.to_group.as_deref().map(names::group).transpose();
    let to_group = to_group.map_err(Failure::usage)?;
    let renaming = Renaming::new(&package, &group, &kind, to, to_group)?;
    let changes = renaming.changes()?;
    changes.finish(&package.root, &args.how)
}

struct Renaming<'a> {
    package: &'a Package,
    /// The versions of the kind.
    versions: Vec<Defined>,
    kind: String,
    new_kind: String,
    new_group: String,
    module: String,
    new_module: String,
    hooks: Option<Hooks>,
}

// === impl Renaming ===

impl<'a> Renaming<'a> {
    fn new(
        package: &'a Package,
        group: &str,
        kind: &str,
        to: Option<String>,
        to_group: Option<String>,
    ) -> Result<Self, Failure> {
        let full = package.group(group);
        let all = package.defined();
        let mine = |one: &&Defined| one.group == full && one.kind == kind;
        let versions: Vec<Defined> = all.iter().filter(mine).cloned().collect();
        let first = versions.iter().min_by_key(|one| one.module.len()).ok_or_else(|| {
            Failure::usage(format!("this project does not define {kind} of group {full}"))
        })?;
        let new_kind = to.unwrap_or_else(|| kind.to_owned());
        let new_group = to_group.map_or(full.clone(), |group| package.group(&group));
        names::domain(&new_group).map_err(Failure::usage)?;
        if all.iter().any(|one| one.group == new_group && one.kind == new_kind) {
            return Err(Failure::usage(format!("{new_kind} of group {new_group} exists already")));
        }
        let others = all.iter().filter(|one| one.group == new_group && !mine(one));
        for other in others {
            other.check_distinct(&new_kind, first.plural.as_deref())?;
        }
        if kind != new_kind && all.iter().any(|one| one.kind == kind && one.group != full) {
            return Err(Failure::usage(format!(
                "another group has a kind {kind}, so that its name in the code is not clear; rename \
                 it by hand"
            )));
        }
        let module = match &first.module[..] {
            [module] => module.clone(),
            _ => {
                return Err(Failure::other(format!(
                    "{kind} is in {}, which is not a module of the crate's root; rename it by hand",
                    first.file
                )));
            }
        };
        let names = [names::module(kind), package.module_name(kind)];
        let named_after_kind = names.contains(&module) && kind != new_kind;
        let new_module = match named_after_kind {
            true => package.module_name(&new_kind),
            false => module.clone(),
        };
        if new_module != module && modules::has(package.main(), &new_module) {
            return Err(Failure::other(format!("the module {new_module} exists already")));
        }
        let hooks = Hooks::of(package, &all, &full, kind);
        let kind = kind.to_owned();
        Ok(Self { package, versions, kind, new_kind, new_group, module, new_module, hooks })
    }

    fn changes(&self) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        let others = self.package.others()?;
        let index = Index::new(self.package, &others);
        let code = Code::new(&index, self)?;
        let (mut mentions, mut unclear) = (Vec::new(), Vec::new());
        for file in index.files() {
            self.file(&mut changes, &code, file, &mut mentions, &mut unclear)?;
        }
        code::refused(&self.kind, &unclear)?;
        self.samples(&mut changes, &mut mentions)?;
        if !mentions.is_empty() {
            changes.note(format!(
                "note: texts and comments still mention {}: {}",
                self.kind,
                mentions.join(", ")
            ));
        }
        changes.next("cargo test");
        changes.next("windlass manifests  # the definition and the role have new names");
        Ok(changes)
    }

    /// Renames in a file, and the file itself.
    fn file(
        &self,
        changes: &mut Changes,
        code: &Code<'_>,
        file: &File<'_>,
        mentions: &mut Vec<String>,
        unclear: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let source = file.source;
        let anew = self.written_anew(source).or_else(|| self.webhook_anew(source));
        let text = match anew {
            Some(text) => text,
            None => {
                let text = source.edited(code.edits(file, unclear))?;
                self.mention(&self.new_path(&source.path), &text, mentions);
                text
            }
        };
        self.replace(changes, &source.path, self.new_path(&source.path), &source.text, text);
        Ok(())
    }

    /// Adds the lines of a text that mention the old kind.
    fn mention(&self, path: &str, text: &str, mentions: &mut Vec<String>) {
        let mentioned = |line: &str| line.contains(&self.kind) && self.kind != self.new_kind;
        let lines = text.lines().zip(1..).filter(|(line, _)| mentioned(line));
        mentions.extend(lines.map(|(_, line)| format!("{path}:{line}")));
    }

    /// Replaces a file by one with another text, and perhaps another path.
    fn replace(&self, changes: &mut Changes, path: &str, new_path: String, old: &str, new: String) {
        match path == new_path {
            true => changes.update(path, old, new),
            false => {
                changes.create(new_path, new);
                changes.remove(path, old);
            }
        }
    }

    /// Where a file of the kind is after the renaming.
    fn new_path(&self, path: &str) -> String {
        let (old, new) = (&self.module, &self.new_module);
        let (old_file, new_file) = (self.package.file(&[old]), self.package.file(&[new]));
        if path == old_file {
            return new_file;
        }
        if path == format!("tests/{old}.rs") {
            return format!("tests/{new}.rs");
        }
        let directory = |file: &str| format!("{}/", file.trim_end_matches(".rs"));
        if let Some(rest) = path.strip_prefix(&directory(&old_file)) {
            return format!("{}{rest}", directory(&new_file));
        }
        let versions = self.versions.iter().map(|own| own.version.as_str());
        let mut ends = versions.chain(Part::ALL.iter().map(|part| part.name()));
        let end = ends.find(|end| path == format!("tests/{old}_{end}.rs"));
        end.map_or(path.to_owned(), |end| format!("tests/{new}_{end}.rs"))
    }

    fn renamed(&self, kind: &Kind) -> Kind {
        let (group, name) = (self.new_group.clone(), self.new_kind.clone());
        Kind { group, kind: name, ..kind.clone() }
    }

    /// The text of a file with new names, if it is as `create api` wrote it.
    fn written_anew(&self, source: &Source) -> Option<String> {
        let library = create::tested(self.package);
        for own in &self.versions {
            let (kind, renamed) = (kind_of(own), self.renamed(&kind_of(own)));
            let module = own.module.join("::");
            let new_module = module.replacen(&self.module, &self.new_module, 1);
            let name = controller_name(&source.text);
            let new_name = name.as_ref().map(|name| self.new_controller_name(name));
            if source.path == own.file {
                let further = self.further(own);
                let text = modules::without(source, &further)?;
                for (old, new) in [(None, None), (name.as_deref(), new_name.as_deref())] {
                    if kind.file(old) == text {
                        return modules::with(&source.path, renamed.file(new), &further).ok();
                    }
                }
            }
            for controlled in [true, false] {
                let library = library?;
                if kind.test(library, &module, controlled) == source.text {
                    return Some(renamed.test(library, &new_module, controlled));
                }
            }
        }
        None
    }

    /// The modules of the first version: further ones, and webhooks.
    fn further(&self, first: &Defined) -> Vec<String> {
        if first.module.len() > 1 {
            return Vec::new();
        }
        let inside = self.versions.iter().filter(|own| own.module.len() > 1);
        let webhooks = Part::ALL.iter().map(|part| part.name());
        let webhooks = webhooks.filter(|name| {
            let module = [self.module.clone(), (*name).to_owned()];
            self.package.module(&module).is_some()
        });
        inside.map(|own| own.version.as_str()).chain(webhooks).map(str::to_owned).collect()
    }

    /// The text of a file of webhooks with new names, if it is as `create webhook` wrote it.
    fn webhook_anew(&self, source: &Source) -> Option<String> {
        let hooks = self.hooks.as_ref()?;
        let renamed = hooks.renamed(&self.new_module, &self.new_group, &self.new_kind);
        let others = converted(&source.text, &self.kind);
        for part in Part::ALL {
            let pairs = if source.path == hooks.file(part) {
                hooks.texts(part, &others).into_iter().zip(renamed.texts(part, &others))
            } else if source.path == hooks.test_file(part) {
                hooks.test_texts(part, &others).into_iter().zip(renamed.test_texts(part, &others))
            } else {
                continue;
            };
            for (old, new) in pairs {
                if old == source.text {
                    return Some(new);
                }
            }
        }
        None
    }

    /// The name of a controller, which follows that of the kind if it has the same.
    fn new_controller_name(&self, name: &str) -> String {
        match name == self.kind.to_lowercase() {
            true => self.new_kind.to_lowercase(),
            false => name.to_owned(),
        }
    }

    /// Renames the objects in samples, and the files of those that `create api` wrote.
    fn samples(&self, changes: &mut Changes, mentions: &mut Vec<String>) -> Result<(), Failure> {
        let kinds = self.versions.iter().map(|own| {
            let kind = kind_of(own);
            (kind.clone(), self.renamed(&kind))
        });
        let kinds: Vec<(Kind, Kind)> = kinds.collect();
        for (path, text) in samples::read(&self.package.root)? {
            let own = kinds.iter().find(|(kind, _)| kind.sample_path() == path);
            let new_path = own.map_or(path.clone(), |(_, new)| new.sample_path());
            let new = match own {
                Some((kind, new)) if kind.sample() == text => new.sample(),
                _ => {
                    let new = samples::renamed(&text, &kinds);
                    self.mention(&new_path, &new, mentions);
                    new
                }
            };
            self.replace(changes, &path, new_path, &text, new);
        }
        Ok(())
    }
}
