//! `windlass delete api`: what `create api` created, undone.

mod webhook;
mod wiring;

use std::path::Path;

use clap::Args;

use super::chain::Chain;
use super::changes::{Changes, How};
use super::create;
use super::package::{Defined, Package};
use super::source::Source;
use super::template::{Kind, Reconciled};
use super::{Named, Names, modules, names, subject};
use crate::failure::Failure;

pub use webhook::foreign_test;

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

#[derive(Args)]
pub struct DeleteWebhookArgs {
    #[command(flatten)]
    names: Names,

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
    let remover = Remover::new(&package, args.force)?;
    let changes = remover.remove(&named, args.controller_name.as_deref())?;
    changes.finish(&package.root, &args.how)
}

/// Deletes the webhooks of a kind.
pub fn run_webhook(args: DeleteWebhookArgs) -> Result<(), Failure> {
    let package = Package::find(Path::new("."))?;
    let named = args.names.complete()?;
    let changes = Remover::new(&package, args.force)?.remove_webhooks(&named)?;
    changes.finish(&package.root, &args.how)
}

struct Remover<'a> {
    package: &'a Package,
    defined: Vec<Defined>,
    operator: Option<(&'a Source, Chain)>,
    force: bool,
    changes: Changes,
    /// The files that would be lost.
    changed: Vec<String>,
    /// The modules whose files are removed.
    modules: Vec<Vec<String>>,
    /// The calls of the operator expression that are removed.
    calls: Vec<String>,
}

// === impl Remover ===

impl<'a> Remover<'a> {
    fn new(package: &'a Package, force: bool) -> Result<Self, Failure> {
        Ok(Self {
            operator: create::operator(package)?,
            defined: package.defined(),
            package,
            force,
            changes: Changes::default(),
            changed: Vec::new(),
            modules: Vec::new(),
            calls: Vec::new(),
        })
    }

    fn remove(mut self, named: &Named, controller: Option<&str>) -> Result<Changes, Failure> {
        let Named { version, kind, .. } = named;
        let group = self.package.group(&named.group);
        let defined = self.defined.clone();
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
            _ => {
                let found = self.controller(named, controller)?;
                let webhooks = controller.is_none() && self.foreign_webhooks(named)?;
                if !found && !webhooks {
                    let what = controller.map(|name| format!("controller {name} of "));
                    return Err(missing(&what.unwrap_or_default(), named, &defined));
                }
            }
        }
        self.finish()
    }

    /// Completes the changes, unless work would be lost.
    fn finish(mut self) -> Result<Changes, Failure> {
        self.unwire()?;
        if !self.changed.is_empty() && !self.force {
            return Err(Failure::other(format!(
                "{} changed since `windlass create`, and would be lost; commit the work and repeat \
                 with --force, nothing was changed",
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
        let text = modules::without(&found.source, &self.own_webhooks(own));
        let text = text.unwrap_or_else(|| found.source.text.clone());
        let name = controller_name(&text);
        let created = [kind.file(None), kind.file(name.as_deref())];
        if !created.contains(&text) {
            self.changed.push(own.file.clone());
        }
        self.changes.remove(&own.file, &found.source.text);
        let path = own.module.join("::");
        if let Some(library) = create::tested(self.package) {
            let texts = [true, false].map(|controlled| kind.test(library, &path, controlled));
            self.file_if_any(&format!("tests/{}.rs", own.module.join("_")), &texts)?;
        }
        self.file_if_any(&kind.sample_path(), &[kind.sample()])?;
        let prefix = self.prefix();
        self.modules.push(own.module.clone());
        self.calls.push(format!(".api::<{prefix}{path}::{}>()", kind.kind));
        self.calls.push(format!(".controller({prefix}{path}::controller())"));
        self.webhooks_of(own)
    }

    /// Removes a controller of a kind that is defined elsewhere; returns `false` if there is none.
    fn controller(&mut self, named: &Named, name: Option<&str>) -> Result<bool, Failure> {
        let Named { group, version, kind } = named;
        let default = names::module(kind);
        let candidates = match name {
            Some(name) => vec![names::module(name)],
            None => vec![format!("{default}_controller"), default.clone()],
        };
        let prefix = self.prefix();
        let call = |module: &str| format!(".controller({prefix}{module}::controller())");
        let Some((module, source, import)) = self.foreign(&candidates, named, &call) else {
            return Ok(false);
        };
        let name = controller_name(&source.text).unwrap_or_default();
        let whats = self.whats(group, version, kind);
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
        self.calls.push(call(&module));
        let others = self.package.modules.iter().filter(|one| one.source.path != source.path);
        let own = ["crate", "self", "super"].iter().any(|first| import.starts_with(first));
        if !own && others.filter_map(|one| imported(&one.source, kind)).all(|one| one != import) {
            // `create api` adds it with the first controller of a kind of another crate.
            self.calls.push(format!(".api::<{import}>()"));
        }
        self.modules.push(vec![module]);
        Ok(true)
    }

    /// Finds a module of a kind that is defined elsewhere: its name, its file, and the path by which
    /// it imports the kind.
    fn foreign(
        &self,
        candidates: &[String],
        named: &Named,
        call: &dyn Fn(&str) -> String,
    ) -> Option<(String, &'a Source, String)> {
        let (operator, chain) = self.operator.as_ref()?;
        let short = named.group.split('.').next().unwrap_or_default();
        let prefixed = candidates.iter().map(|one| names::module(&format!("{short}-{one}")));
        prefixed.chain(candidates.iter().cloned()).find_map(|module| {
            let file = self.package.module(std::slice::from_ref(&module))?;
            let import = imported(&file.source, &named.kind)?;
            chain.has(operator, &call(&module)).then_some((module, &file.source, import))
        })
    }

    /// How a kind may have been described when its files were created.
    fn whats(&self, group: &str, version: &str, kind: &str) -> Vec<String> {
        let full = self.package.group(group);
        let core = subject::built_in(group, version, kind).map(|(group, _)| group);
        let groups = [Some(group.to_owned()), Some(full), core];
        let whats = groups.into_iter().flatten().map(|group| {
            let slash = if group.is_empty() { "" } else { "/" };
            format!("{kind} ({group}{slash}{version})")
        });
        whats.collect()
    }

    /// Removes a file; one with another text than it was created with is remembered.
    fn file(&mut self, path: &str, text: &str, created: &[String]) {
        if !created.iter().any(|created| created == text) {
            self.changed.push(path.to_owned());
        }
        self.changes.remove(path, text);
    }

    fn file_if_any(&mut self, path: &str, created: &[String]) -> Result<(), Failure> {
        if let Some(text) = self.text_if_any(path)? {
            self.file(path, &text, created);
        }
        Ok(())
    }

    fn text_if_any(&self, path: &str) -> Result<Option<String>, Failure> {
        let file = self.package.root.join(path);
        match file.is_file() {
            true => modules::read_text(&file, Path::new(path)).map(Some),
            false => Ok(None),
        }
    }

    fn prefix(&self) -> String {
        create::prefix(self.package, self.operator.as_ref().map(|(source, _)| *source))
    }
}

/// There is nothing to delete.
fn missing(what: &str, named: &Named, defined: &[Defined]) -> Failure {
    let Named { group, version, kind } = named;
    let others = Defined::others(defined, kind);
    Failure::usage(format!("this project has no {what}{kind} of {group}/{version}{others}"))
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

/// Names in a sentence.
fn listed(names: &[String]) -> String {
    match names {
        [one] => format!("{one} was"),
        many => format!("{} were", many.join(", ")),
    }
}
