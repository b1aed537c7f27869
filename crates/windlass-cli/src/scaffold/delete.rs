//! `windlass delete api`: what `create api` created, undone.

use std::ops::Range;
use std::path::Path;

use clap::Args;

use super::chain::Chain;
use super::changes::{Changes, How};
use super::create;
use super::package::{Defined, Package};
use super::source::{Edit, Source, tokens};
use super::template::{Kind, Reconciled};
use super::{Named, Names, modules, names};
use crate::failure::Failure;

#[derive(Args)]
pub struct DeleteApiArgs {
    #[command(flatten)]
    names: Names,

    /// Delete only the controller of this name.
    #[arg(long, value_name = "NAME")]
    controller_name: Option<String>,

    /// Delete files that were changed since they were created, and what other code uses.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    how: How,
}

/// Deletes an API.
pub fn run(args: DeleteApiArgs) -> Result<(), Failure> {
    let package = Package::find(Path::new("."))?;
    let named = args.names.complete()?;
    let remover = Remover {
        operator: create::operator(&package)?,
        package: &package,
        force: args.force,
        changes: Changes::default(),
        changed: Vec::new(),
    };
    let changes = remover.remove(&named, args.controller_name.as_deref())?;
    changes.finish(&package.root, &args.how)
}

struct Remover<'a> {
    package: &'a Package,
    operator: Option<(&'a Source, Chain)>,
    force: bool,
    changes: Changes,
    /// The files that would be lost.
    changed: Vec<String>,
}

// === impl Remover ===

impl Remover<'_> {
    fn remove(mut self, named: &Named, controller: Option<&str>) -> Result<Changes, Failure> {
        let Named { version, kind, .. } = named;
        let group = self.package.group(&named.group);
        let defined = self.package.defined();
        let same = |one: &&Defined| one.group == group && one.kind == *kind;
        let own = defined.iter().filter(same).find(|one| one.version == *version);
        match own {
            Some(own) if controller.is_none() => {
                let other = defined.iter().filter(same).find(|one| one.version != *version);
                if let (Some(other), 1) = (other, own.module.len()) {
                    return Err(Failure::usage(format!(
                        "version {} of {kind} is in a module of version {version}; delete it first",
                        other.version
                    )));
                }
                self.kind(own)?;
            }
            _ => self.controller(named, controller)?,
        }
        if !self.changed.is_empty() && !self.force {
            return Err(Failure::other(format!(
                "{} changed since `create api`, and would be lost; commit the work and repeat with \
                 --force, nothing was changed",
                listed(&self.changed)
            )));
        }
        if self.package.root.join("config/crd").is_dir() {
            self.changes.next("windlass manifests  # removes what was generated for it");
        }
        Ok(self.changes)
    }

    /// Removes a version of a kind.
    fn kind(&mut self, own: &Defined) -> Result<(), Failure> {
        let kind = kind_of(own);
        let found = self.package.module(&own.module).filter(|found| found.source.path == own.file);
        let found = found.filter(|_| matches!(own.module.len(), 1 | 2)).ok_or_else(|| {
            Failure::other(format!(
                "{} is not in a file of its own, but in {}; delete it by hand, nothing was changed",
                kind.kind, own.file
            ))
        })?;
        let text = &found.source.text;
        let name = controller_name(text);
        self.file(&own.file, text, &[kind.file(None), kind.file(name.as_deref())]);
        let path = own.module.join("::");
        if let Some(library) = create::tested(self.package) {
            let texts = [true, false].map(|controlled| kind.test(library, &path, controlled));
            self.file_if_any(&format!("tests/{}.rs", own.module.join("_")), &texts)?;
        }
        self.file_if_any(&kind.sample_path(), &[kind.sample()])?;
        let prefix = self.prefix();
        let calls = [
            format!(".api::<{prefix}{path}::{}>()", kind.kind),
            format!(".controller({prefix}{path}::controller())"),
        ];
        self.unwire(&own.module, &calls)
    }

    /// Removes a controller of a kind that is defined elsewhere.
    fn controller(&mut self, named: &Named, name: Option<&str>) -> Result<(), Failure> {
        let Named { group, version, kind } = named;
        let default = names::module(kind);
        let short = group.split('.').next().unwrap_or_default();
        let candidates = match name {
            Some(name) => vec![names::module(name)],
            None => vec![format!("{default}_controller"), default.clone()],
        };
        let prefixed = candidates.iter().map(|one| names::module(&format!("{short}-{one}")));
        let candidates: Vec<String> = prefixed.chain(candidates.iter().cloned()).collect();
        let prefix = self.prefix();
        let call = |module: &str| format!(".controller({prefix}{module}::controller())");
        let found = candidates.into_iter().find(|module| {
            let wired = self
                .operator
                .as_ref()
                .is_some_and(|(source, chain)| chain.has(source, &call(module)));
            let file = self.package.module(std::slice::from_ref(module));
            wired && file.is_some_and(|file| imported(&file.source, kind).is_some())
        });
        let module = found.ok_or_else(|| {
            let what = name.map(|name| format!("controller {name} of ")).unwrap_or_default();
            Failure::usage(format!("this project has no {what}{kind} of {group}/{version}"))
        })?;
        let path = vec![module.clone()];
        let source = &self.package.module(&path).expect("was found").source;
        let import = imported(source, kind).expect("was found");
        let name = controller_name(&source.text).unwrap_or_default();
        let full = self.package.group(group);
        let core = create::built_in(group, version, kind).map(|(group, _)| group);
        let groups = [Some(group.clone()), Some(full), core];
        let whats: Vec<String> = groups
            .into_iter()
            .flatten()
            .map(|group| {
                let slash = if group.is_empty() { "" } else { "/" };
                format!("{kind} ({group}{slash}{version})")
            })
            .collect();
        let reconciled =
            whats.iter().map(|what| Reconciled { name: &name, what, path: &import, kind });
        let reconciled: Vec<Reconciled<'_>> = reconciled.collect();
        let texts: Vec<String> = reconciled.iter().map(Reconciled::file).collect();
        self.file(&source.path, &source.text, &texts);
        if let Some(library) = create::tested(self.package) {
            let texts: Vec<String> =
                reconciled.iter().map(|one| one.test(library, &module)).collect();
            self.file_if_any(&format!("tests/{module}.rs"), &texts)?;
        }
        self.unwire(&path, &[call(&module)])
    }

    /// Removes a file; one with another text than it was created with is remembered.
    fn file(&mut self, path: &str, text: &str, created: &[String]) {
        if !created.iter().any(|created| created == text) {
            self.changed.push(path.to_owned());
        }
        self.changes.remove(path, text);
    }

    fn file_if_any(&mut self, path: &str, created: &[String]) -> Result<(), Failure> {
        let file = self.package.root.join(path);
        if file.is_file() {
            let text = modules::read_text(&file, Path::new(path))?;
            self.file(path, &text, created);
        }
        Ok(())
    }

    /// Removes the declaration of a module and its calls in the operator expression.
    fn unwire(&mut self, module: &[String], calls: &[String]) -> Result<(), Failure> {
        let (name, parent) = module.split_last().expect("a module has a name");
        let parent = &self.package.module(parent).expect("a module has a parent").source;
        let declaration = modules::remove(parent, name).ok_or_else(|| {
            Failure::other(format!(
                "the line of `mod {name}` in {} has changed; remove it by hand and repeat",
                parent.path
            ))
        })?;
        let mut edits: Vec<(&Source, Vec<Edit>)> = vec![(parent, vec![declaration])];
        if let Some((source, chain)) = &self.operator {
            let removed: Vec<Edit> =
                calls.iter().filter_map(|call| chain.remove(source, call)).collect();
            match edits.iter_mut().find(|(known, _)| known.path == source.path) {
                Some((_, edits)) => edits.extend(removed),
                None => edits.push((source, removed)),
            }
        }
        let mut uses = Vec::new();
        for (source, edits) in edits {
            let removed: Vec<Range<usize>> = edits.iter().map(|edit| edit.range.clone()).collect();
            uses.extend(places(source, module, &removed));
            self.changes.update(&source.path, &source.text, source.edited(edits)?);
        }
        let untouched =
            self.package.modules.iter().filter(|other| {
                !other.path.starts_with(module) && other.source.path != parent.path
            });
        let root = self.operator.as_ref().map(|(source, _)| source.path.as_str());
        for other in untouched.filter(|other| Some(other.source.path.as_str()) != root) {
            uses.extend(places(&other.source, module, &[]));
        }
        match uses.is_empty() || self.force {
            true => Ok(()),
            false => Err(Failure::other(format!(
                "the module {} is used at {}; remove that first, or repeat with --force; nothing \
                 was changed",
                module.join("::"),
                uses.join(", ")
            ))),
        }
    }

    fn prefix(&self) -> String {
        create::prefix(self.package, self.operator.as_ref().map(|(source, _)| *source))
    }
}

/// The kind that `create api` would create to get what is defined.
pub fn kind_of(own: &Defined) -> Kind {
    Kind {
        group: own.group.clone(),
        version: own.version.clone(),
        kind: own.kind.clone(),
        plural: own.plural.clone(),
        cluster_scoped: own.cluster_scoped,
        further: own.module.len() > 1,
    }
}

/// The name of the controller that a file builds.
pub fn controller_name(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Controller::builder(\"")?;
    rest.split_once('"').map(|(name, _)| name.to_owned())
}

/// The path by which a file imports a kind alone.
fn imported(source: &Source, kind: &str) -> Option<String> {
    source.syntax.items.iter().find_map(|item| {
        let syn::Item::Use(item) = item else { return None };
        let (mut tree, mut path) = (&item.tree, Vec::new());
        while let syn::UseTree::Path(next) = tree {
            path.push(next.ident.to_string());
            tree = &next.tree;
        }
        match tree {
            syn::UseTree::Name(name) if name.ident == kind => {
                path.push(kind.to_owned());
                Some(path.join("::"))
            }
            _ => None,
        }
    })
}

/// The places in a file that use a module by its path, without those that are removed.
fn places(source: &Source, module: &[String], removed: &[Range<usize>]) -> Vec<String> {
    let tokens = tokens(&source.text[source.skipped..]).unwrap_or_default();
    let mut wanted: Vec<&str> = Vec::new();
    for name in module {
        wanted.extend([name.as_str(), ":", ":"]);
    }
    let uses = tokens
        .windows(wanted.len())
        .filter(|window| window.iter().map(|token| token.text.as_str()).eq(wanted.iter().copied()));
    let uses = uses.map(|window| window[0].at + source.skipped);
    uses.filter(|at| !removed.iter().any(|range| range.contains(at)))
        .map(|at| format!("{}:{}", source.path, source.line(at)))
        .collect()
}

/// Names in a sentence.
fn listed(names: &[String]) -> String {
    match names {
        [one] => format!("{one} was"),
        many => format!("{} were", many.join(", ")),
    }
}
