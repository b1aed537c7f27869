//! `windlass create api`: a kind, a controller, or both.

use std::path::Path;

use clap::{ArgAction, Args};

use super::chain::{self, Chain};
use super::changes::{Changes, How};
use super::package::{Defined, Package};
use super::source::{Edit, Source};
use super::subject::Subject;
use super::template::{Kind, Reconciled};
use super::{Named, Names, dependencies, modules, names, subject};
use crate::failure::Failure;

#[derive(Args)]
pub struct CreateApiArgs {
    #[command(flatten)]
    names: Names,

    /// The plural of the kind; by default formed as in English.
    #[arg(long, value_name = "PLURAL")]
    plural: Option<String>,

    /// Objects belong to no namespace.
    #[arg(long, conflicts_with = "namespaced")]
    cluster_scoped: bool,

    /// Whether objects belong to a namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        action = ArgAction::Set)]
    namespaced: Option<bool>,

    /// Create no types: the kind is built in, or defined elsewhere.
    #[arg(long, conflicts_with = "resource")]
    no_resource: bool,

    /// Whether to create types.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        action = ArgAction::Set)]
    resource: Option<bool>,

    /// Create no controller.
    #[arg(long, conflicts_with = "controller")]
    no_controller: bool,

    /// Whether to create a controller; by default one for the first version of a kind.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        action = ArgAction::Set)]
    controller: Option<bool>,

    /// The name of the controller; by default the kind in lower case.
    #[arg(long, value_name = "NAME")]
    controller_name: Option<String>,

    /// The Rust type of a kind that is neither built in nor of this project, such as
    /// `acme_api::v1::Widget`; needs --no-resource.
    #[arg(long, value_name = "PATH")]
    external_api_path: Option<String>,

    #[command(flatten)]
    how: How,
}

/// What is to be created, checked.
struct Request {
    group: String,
    version: String,
    kind: String,
    plural: Option<String>,
    cluster_scoped: Option<bool>,
    controller: Option<bool>,
    controller_name: Option<String>,
}

/// Creates an API.
pub fn run(args: CreateApiArgs) -> Result<(), Failure> {
    let package = Package::find(Path::new("."))?;
    let given = args.names.complete()?;
    let plural = args.plural.as_deref().map(names::plural).transpose().map_err(Failure::usage)?;
    let controller_name = args.controller_name.as_deref().map(names::controller).transpose();
    let request = Request {
        group: given.group,
        version: given.version,
        kind: given.kind,
        plural,
        cluster_scoped: if args.cluster_scoped { Some(true) } else { args.namespaced.map(|n| !n) },
        controller: if args.no_controller { Some(false) } else { args.controller },
        controller_name: controller_name.map_err(Failure::usage)?,
    };
    let resource = !args.no_resource && args.resource != Some(false);
    let changes = match resource {
        true if args.external_api_path.is_some() => {
            return Err(Failure::usage("--external-api-path needs --no-resource"));
        }
        true => Creator::new(&package)?.kind(request)?,
        false => Creator::new(&package)?.controller(request, args.external_api_path.as_deref())?,
    };
    changes.finish(&package.root, &args.how)
}

/// Collects the changes of a package.
pub struct Creator<'a> {
    pub package: &'a Package,
    pub defined: Vec<Defined>,
    /// The file with the operator expression, and the expression.
    pub operator: Option<(&'a Source, Chain)>,
}

// === impl Creator ===

impl<'a> Creator<'a> {
    pub fn new(package: &'a Package) -> Result<Self, Failure> {
        Ok(Self { package, defined: package.defined(), operator: operator(package)? })
    }

    /// A kind with its types.
    fn kind(self, request: Request) -> Result<Changes, Failure> {
        let group = self.package.group(&request.group);
        if !group.contains('.') {
            return Err(Failure::usage(format!(
                "the group {group:?} needs a domain: give --group {group}.example.com, or set \
                 domain in [package.metadata.windlass] of Cargo.toml"
            )));
        }
        names::domain(&group).map_err(Failure::usage)?;
        let same = |one: &&Defined| one.group == group && one.kind == request.kind;
        let versions: Vec<&Defined> = self.defined.iter().filter(same).collect();
        if let Some(found) = versions.iter().find(|one| one.version == request.version) {
            return Err(Failure::usage(format!(
                "{}/{} {} exists already, in {}",
                group, found.version, found.kind, found.file
            )));
        }
        for other in self.defined.iter().filter(|one| one.group == group) {
            other.check_distinct(&request.kind, request.plural.as_deref())?;
        }
        let built_in = subject::built_in(&request.group, &request.version, &request.kind);
        let first = versions.first().copied().cloned();
        let kind = Kind {
            cluster_scoped: request.cluster_scoped.unwrap_or(false),
            plural: request.plural,
            version: request.version,
            kind: request.kind,
            group,
            further: first.is_some(),
        };
        let request_kind = kind.kind.clone();
        let name = format!("{request_kind} of group {}", kind.group);
        let mut changes = match first {
            Some(first) => self.further_version(kind, &first, request.controller),
            None => self.first_version(kind, request.controller, request.controller_name),
        }?;
        if built_in.is_some() {
            changes.note(format!(
                "note: {name} is a new kind; a controller of the built-in {request_kind} needs \
                 --no-resource"
            ));
        }
        Ok(changes)
    }

    fn first_version(
        self,
        kind: Kind,
        controller: Option<bool>,
        controller_name: Option<String>,
    ) -> Result<Changes, Failure> {
        let controlled = controller.unwrap_or(true);
        if controlled && self.operator.is_none() {
            return Err(self.no_operator());
        }
        let group = kind.group.split('.').next().unwrap_or_default();
        let module = self.free_module(&names::module(&kind.kind), group)?;
        let name =
            controller_name.unwrap_or_else(|| controller_name_of(&kind.kind, &module, group));
        let name = controlled.then_some(name.as_str());
        let mut changes = Changes::default();
        let file = self.package.file(&[&module]);
        changes.create(file.clone(), kind.file(name));
        self.test(&mut changes, &module, |library| kind.test(library, &module, controlled));
        changes.create(kind.sample_path(), kind.sample());
        let prefix = self.prefix();
        let mut calls = vec![format!(".api::<{prefix}{module}::{}>()", kind.kind)];
        if controlled {
            calls.push(format!(".controller({prefix}{module}::controller())"));
        }
        self.wire(&mut changes, &module, &calls)?;
        dependencies::add(self.package, &mut changes)?;
        let what = match controlled {
            true => format!("the fields of {}Spec, and what reconcile does", kind.kind),
            false => format!("the fields of {}Spec", kind.kind),
        };
        changes.next(format!("edit {file}: {what}"));
        match self.operator {
            Some(_) => next_steps(&mut changes),
            None => changes.next("cargo check"),
        }
        Ok(changes)
    }

    fn further_version(
        self,
        mut kind: Kind,
        first: &Defined,
        controller: Option<bool>,
    ) -> Result<Changes, Failure> {
        let (name, older) = (&kind.kind, &first.version);
        if controller == Some(true) {
            return Err(Failure::usage(format!(
                "{name} has version {older} already: its controller is for all versions, and \
                 another one is created with --no-resource --controller-name NAME"
            )));
        }
        let differs = kind.cluster_scoped && !first.cluster_scoped
            || kind.plural.is_some() && kind.plural != first.plural;
        if differs {
            return Err(Failure::usage(format!(
                "all versions of {name} have the scope and the plural of version {older}; leave \
                 them out"
            )));
        }
        (kind.cluster_scoped, kind.plural) = (first.cluster_scoped, first.plural.clone());
        let parent = self.package.module(&first.module).filter(|_| first.module.len() == 1);
        let parent = parent.ok_or_else(|| {
            Failure::other(format!(
                "version {older} of {name} is in {}, which is not a module of the crate's root; \
                 add version {} by hand, nothing was changed",
                first.file, kind.version
            ))
        })?;
        let module = &first.module[0];
        let version = &kind.version;
        if modules::has(&parent.source, version) {
            return Err(Failure::other(format!(
                "{} has a module {version} already; nothing was changed",
                parent.source.path
            )));
        }
        let mut changes = Changes::default();
        let file = self.package.file(&[module, version]);
        changes.create(file.clone(), kind.file(None));
        let test = format!("{module}_{version}");
        let path = format!("{module}::{version}");
        self.test(&mut changes, &test, |library| kind.test(library, &path, false));
        changes.create(kind.sample_path(), kind.sample());
        let declared = parent.source.edited(vec![modules::insert(&parent.source, version)])?;
        changes.update(&parent.source.path, &parent.source.text, declared);
        let call = format!(".api::<{}{path}::{}>()", self.prefix(), kind.kind);
        self.add_calls(&mut changes, &[call])?;
        changes.next(format!("edit {file}: the fields of {}Spec", kind.kind));
        changes.note(format!(
            "note: objects are stored as {older}, and both versions are read as they are stored"
        ));
        next_steps(&mut changes);
        Ok(changes)
    }

    /// A controller of a kind that is defined elsewhere.
    fn controller(self, request: Request, external: Option<&str>) -> Result<Changes, Failure> {
        if request.controller == Some(false) {
            return Err(Failure::usage(
                "neither types nor a controller: there is nothing to create",
            ));
        }
        if self.operator.is_none() {
            return Err(self.no_operator());
        }
        let named = Named {
            group: request.group.clone(),
            version: request.version.clone(),
            kind: request.kind.clone(),
        };
        let subject = Subject::find(self.package, &self.defined, &named, external)?;
        let kind = &request.kind;
        let default = names::module(kind);
        let wanted = match &request.controller_name {
            Some(name) => names::module(name),
            None if subject.own.is_some() => format!("{default}_controller"),
            None => default,
        };
        let group = subject.group.split('.').next().unwrap_or_default();
        let module = self.free_module(&wanted, group)?;
        let name = request.controller_name.unwrap_or_else(|| module.replace('_', "-"));
        let reconciled = Reconciled { name: &name, what: &subject.what, path: &subject.path, kind };
        let mut changes = Changes::default();
        let file = self.package.file(&[&module]);
        changes.create(file.clone(), reconciled.file());
        self.test(&mut changes, &module, |library| reconciled.test(library, &module));
        let mut calls = vec![format!(".controller({}{module}::controller())", self.prefix())];
        // The definition of a kind of another project is not this operator's to install.
        if external.is_some() && dependencies::defines(self.package, &subject.path, &named) {
            let call = format!(".api::<{}>()", subject.path);
            if !self.operator.as_ref().is_some_and(|(source, chain)| chain.has(source, &call)) {
                calls.insert(0, call);
            }
        }
        self.wire(&mut changes, &module, &calls)?;
        changes.next(format!("edit {file}: what reconcile does"));
        next_steps(&mut changes);
        Ok(changes)
    }

    /// Declares a module and adds calls to the operator expression.
    pub fn wire(
        &self,
        changes: &mut Changes,
        module: &str,
        calls: &[String],
    ) -> Result<(), Failure> {
        let main = self.package.main();
        let declaration = modules::insert(main, module);
        match &self.operator {
            None => {
                changes.update(&main.path, &main.text, main.edited(vec![declaration])?);
                changes.note("note: this package has no operator expression; add the kind to one");
            }
            Some((source, chain)) if source.path == main.path => {
                let edits = vec![declaration, chain.insert(source, calls)];
                changes.update(&main.path, &main.text, main.edited(edits)?);
            }
            Some((source, chain)) => {
                changes.update(&main.path, &main.text, main.edited(vec![declaration])?);
                let edit: Edit = chain.insert(source, calls);
                changes.update(&source.path, &source.text, source.edited(vec![edit])?);
            }
        }
        Ok(())
    }

    /// Adds calls to the operator expression, in a file that declares none of their modules.
    pub fn add_calls(&self, changes: &mut Changes, calls: &[String]) -> Result<(), Failure> {
        let Some((source, chain)) = self.operator.as_ref().filter(|_| !calls.is_empty()) else {
            return Ok(());
        };
        let text = source.edited(vec![chain.insert(source, calls)])?;
        changes.update(&source.path, &source.text, text);
        Ok(())
    }

    /// Adds a test, if the library has the function that tests start from.
    pub fn test(&self, changes: &mut Changes, name: &str, text: impl FnOnce(&str) -> String) {
        match tested(self.package) {
            Some(library) => changes.create(format!("tests/{name}.rs"), text(library)),
            None => changes
                .note("note: no test was created, because the library has no `pub fn operator()`"),
        }
    }

    /// Returns what paths in the operator expression start with.
    pub fn prefix(&self) -> String {
        prefix(self.package, self.operator.as_ref().map(|(source, _)| *source))
    }

    /// A name for a module that does not exist yet; the group makes it different.
    pub fn free_module(&self, name: &str, group: &str) -> Result<String, Failure> {
        let with_group = names::module(&format!("{group}-{name}"));
        let free = |name: &&str| {
            let file = self.package.root.join(self.package.file(&[name]));
            !modules::has(self.package.main(), name) && !file.exists()
        };
        let found = [name, &with_group].into_iter().find(free).map(str::to_owned);
        found.ok_or_else(|| {
            Failure::other(format!(
                "the modules {name} and {with_group} exist already; nothing was changed"
            ))
        })
    }

    pub fn no_operator(&self) -> Failure {
        let main = &self.package.main().path;
        Failure::other(format!(
            "found no operator expression `Operator::new(..)` in {main}, to which the controller \
             would be added; write one, or use --no-controller; nothing was changed"
        ))
    }
}

/// Finds the operator expression of a package.
pub fn operator(package: &Package) -> Result<Option<(&Source, Chain)>, Failure> {
    let sources = [Some(package.main()), package.program.as_ref()];
    chain::only(sources.into_iter().flatten())
}

/// Returns what paths to the modules start with in the file of the operator expression.
pub fn prefix(package: &Package, file: Option<&Source>) -> String {
    match (&package.library, &package.program, file) {
        (Some(library), Some(program), Some(file)) if program.path == file.path => {
            format!("{library}::")
        }
        _ => String::new(),
    }
}

/// The library whose function `operator` tests can call.
pub fn tested(package: &Package) -> Option<&str> {
    let has_operator = package.main().syntax.items.iter().any(|item| match item {
        syn::Item::Fn(function) => {
            let public = matches!(function.vis, syn::Visibility::Public(_));
            public && function.sig.ident == "operator" && function.sig.inputs.is_empty()
        }
        _ => false,
    });
    package.library.as_deref().filter(|_| has_operator)
}

/// The name of the controller of a kind.
fn controller_name_of(kind: &str, module: &str, group: &str) -> String {
    let name = kind.to_lowercase();
    if module == names::module(kind) { name } else { format!("{group}-{name}") }
}

pub fn next_steps(changes: &mut Changes) {
    changes.next("cargo test          # on an embedded cluster, in virtual time");
    changes.next("windlass dev        # run it on an embedded cluster, rebuilt on change");
}
