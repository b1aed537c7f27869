//! The Cargo package of a project: its manifest, its files, the kinds and controllers in them.
//!
//! There is no file that describes the project: everything is read from `Cargo.toml` and the source.

use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Expr, Item, Lit, Meta, Token};
use toml_edit::DocumentMut;

use super::modules::{self, Module};
use super::source::Source;
use super::{names, targets};
use crate::failure::Failure;

/// A package whose source is edited.
pub struct Package {
    /// Its directory.
    pub root: PathBuf,
    /// Its name.
    pub name: String,
    /// The suffix of its groups, as `windlass init` was given it.
    pub domain: Option<String>,
    /// The name of the library for `use`; `None` if there is none.
    pub library: Option<String>,
    /// The dependencies, by the names that code uses.
    pub dependencies: Vec<String>,
    /// The modules of the library, or of the program if there is no library.
    pub modules: Vec<Module>,
    /// The file of the program, if there is also a library.
    pub program: Option<Source>,
    /// Its Cargo.toml.
    pub manifest: DocumentMut,
    /// The directory of the modules, with a slash at its end.
    code: String,
}

/// A kind that the package defines: a version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: Option<String>,
    pub cluster_scoped: bool,
    /// Whether objects are stored in this version.
    pub storage: bool,
    /// The module that has it.
    pub module: Vec<String>,
    /// The file that has it.
    pub file: String,
    /// The value of `group` in the file, with its quotes.
    pub group_range: Range<usize>,
    /// The value of `kind` in the file, with its quotes.
    pub kind_range: Range<usize>,
}

// === impl Defined ===

impl Defined {
    /// Names what a project has that somebody may have meant by a kind, as the end of a sentence.
    pub fn others(all: &[Self], kind: &str) -> String {
        let close = |one: &&Self| strsim::jaro_winkler(&one.kind, kind) > 0.85;
        let named = |one: &Self| format!("{} of {}/{}", one.kind, one.group, one.version);
        let same = all.iter().filter(|one| one.kind == kind).map(named);
        let mut found: Vec<String> = same.collect();
        if found.is_empty() {
            found.extend(all.iter().filter(close).map(named));
        }
        match found.is_empty() {
            true => String::new(),
            false => format!("; it has {}", found.join(" and ")),
        }
    }

    /// Fails if another kind of the same group would have the resource name of this one.
    pub fn check_distinct(&self, kind: &str, plural: Option<&str>) -> Result<(), Failure> {
        if self.kind == kind {
            return Ok(()); // another version
        }
        let list = |one: &str, two: &str| one.strip_suffix("List") == Some(two);
        if list(&self.kind, kind) || list(kind, &self.kind) {
            return Err(Failure::usage(format!(
                "{kind} and {} of group {}: the longer one is the kind of a list of the other; \
                 choose another kind",
                self.kind, self.group
            )));
        }
        let (mine, other) = (self.kind.to_lowercase(), kind.to_lowercase());
        let same = match (self.plural.as_deref(), plural) {
            (Some(one), Some(two)) => one == two,
            (Some(one), None) => is_plural(&other, one),
            (None, Some(two)) => is_plural(&mine, two),
            (None, None) => false,
        };
        if mine != other && !same {
            return Ok(());
        }
        let (known, group) = (&self.kind, &self.group);
        let what = if mine == other { "another kind" } else { "another plural with --plural" };
        Err(Failure::usage(format!(
            "{kind} and {known} of group {group} would have the same resource name; choose {what}"
        )))
    }
}

/// Returns `true` if a text can be the plural of a word.
fn is_plural(word: &str, text: &str) -> bool {
    let end = text.strip_prefix(word.trim_end_matches('y')).unwrap_or("-");
    matches!(end, "" | "s" | "es" | "y" | "ys" | "ies")
}

// === impl Package ===

impl Package {
    /// Reads the package of a directory or of the nearest directory above.
    pub fn find(here: &Path) -> Result<Self, Failure> {
        let here = here
            .canonicalize()
            .map_err(|error| Failure::other(format!("{}: {error}", here.display())))?;
        for directory in here.ancestors() {
            let path = directory.join("Cargo.toml");
            if path.is_file() {
                let text = modules::read_text(&path, Path::new("Cargo.toml"))?;
                let manifest = parse(&text)?;
                if manifest.get("package").is_some() {
                    return Self::read(directory, &manifest);
                }
                return Err(Failure::usage(
                    "this is the root of a workspace, not a project; change to the directory of \
                     an operator, or start one with `windlass init`",
                ));
            }
        }
        Err(Failure::usage(
            "found no Cargo.toml here or above; start a project with `windlass init`",
        ))
    }

    fn read(root: &Path, manifest: &DocumentMut) -> Result<Self, Failure> {
        let text = |path: &[&str]| {
            let mut item = manifest.as_item();
            for name in path {
                item = item.get(name)?;
            }
            item.as_str().map(str::to_owned)
        };
        let name = text(&["package", "name"])
            .ok_or_else(|| Failure::other("Cargo.toml has no package.name"))?;
        let library_file = text(&["lib", "path"]).unwrap_or("src/lib.rs".into());
        let has_library = root.join(&library_file).is_file();
        let program_file = "src/main.rs";
        let has_program = root.join(program_file).is_file();
        if !has_library && !has_program {
            return Err(Failure::usage(format!(
                "package {name} has neither {library_file} nor {program_file}"
            )));
        }
        let library =
            has_library.then(|| text(&["lib", "name"]).unwrap_or_else(|| name.replace('-', "_")));
        let main = if has_library { &library_file } else { program_file };
        let program = match has_library && has_program {
            false => None,
            true => {
                let file = Path::new(program_file);
                Some(Source::parse(program_file, modules::read_text(&root.join(file), file)?)?)
            }
        };
        let dependencies = manifest.get("dependencies").and_then(|item| item.as_table_like());
        let dependencies = dependencies.into_iter().flat_map(|table| table.iter());
        let code = main.rfind('/').map_or("", |slash| &main[..=slash]).to_owned();
        Ok(Self {
            manifest: manifest.clone(),
            code,
            domain: text(&["package", "metadata", "windlass", "domain"]),
            modules: modules::read(root, main)?,
            root: root.to_owned(),
            dependencies: dependencies.map(|(name, _)| name.replace('-', "_")).collect(),
            name,
            library,
            program,
        })
    }

    /// The full name of a group: `cache` in the domain `example.com` is `cache.example.com`.
    pub fn group(&self, group: &str) -> String {
        match &self.domain {
            None => group.to_owned(),
            Some(domain) if group.is_empty() => domain.clone(),
            Some(domain) => {
                let full = group == domain || group.ends_with(&format!(".{domain}"));
                if full { group.to_owned() } else { format!("{group}.{domain}") }
            }
        }
    }

    /// The file of a module, which may not exist.
    pub fn file(&self, module: &[&str]) -> String {
        format!("{}{}.rs", self.code, module.join("/"))
    }

    /// The name of the module of a kind, which is not that of a dependency.
    pub fn module_name(&self, kind: &str) -> String {
        let name = names::module(kind);
        if self.dependencies.contains(&name) { format!("{name}_kind") } else { name }
    }

    /// The crates of the package apart from the main one, each with its modules.
    pub fn others(&self) -> Result<Vec<Vec<Module>>, Failure> {
        targets::read(&self.root, &self.manifest, &self.modules)
    }

    /// The root of the crate that has the modules.
    pub fn main(&self) -> &Source {
        let root = self.modules.iter().find(|module| module.path.is_empty());
        &root.expect("the root is always read").source
    }

    /// The module of a path.
    pub fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.iter().find(|module| module.path == path)
    }

    /// All kinds that the package defines.
    pub fn defined(&self) -> Vec<Defined> {
        let mut all = Vec::new();
        for module in &self.modules {
            collect(&module.source, &module.source.syntax.items, &module.path, &mut all);
        }
        all
    }
}

/// Parses a Cargo.toml.
pub fn parse(text: &str) -> Result<DocumentMut, Failure> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        Failure::other(format!("Cargo.toml{line}: {}", error.message()))
    })
}

/// Collects the structs with the attribute `api`.
fn collect(source: &Source, items: &[Item], path: &[String], all: &mut Vec<Defined>) {
    for item in items {
        match item {
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    let inner = [path, &[module.ident.to_string()]].concat();
                    collect(source, items, &inner, all);
                }
            }
            Item::Struct(item) => {
                let attribute = item.attrs.iter().find(|attribute| {
                    attribute.path().segments.last().is_some_and(|last| last.ident == "api")
                });
                all.extend(attribute.and_then(|attribute| defined(source, path, attribute)));
            }
            _ => {}
        }
    }
}

fn defined(source: &Source, path: &[String], attribute: &syn::Attribute) -> Option<Defined> {
    let arguments = Punctuated::<Meta, Token![,]>::parse_terminated;
    let arguments = attribute.parse_args_with(arguments).ok()?;
    let value = |key: &str| {
        arguments.iter().find_map(|argument| match argument {
            Meta::NameValue(pair) if pair.path.is_ident(key) => Some(&pair.value),
            _ => None,
        })
    };
    let text = |key: &str| match value(key)? {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some((text.value(), source.range(text.span()))),
            _ => None,
        },
        _ => None,
    };
    let scope = value("scope").is_some_and(|scope| match scope {
        Expr::Path(path) => path.path.is_ident("Cluster"),
        _ => false,
    });
    let (group, group_range) = text("group")?;
    let (kind, kind_range) = text("kind")?;
    Some(Defined {
        group,
        version: text("version")?.0,
        kind,
        plural: text("plural").map(|(plural, _)| plural),
        cluster_scoped: scope,
        storage: value("storage").is_none_or(|value| !is_false(value)),
        module: path.to_vec(),
        file: source.path.clone(),
        group_range,
        kind_range,
    })
}

fn is_false(value: &Expr) -> bool {
    matches!(value, Expr::Lit(literal) if matches!(&literal.lit, Lit::Bool(flag) if !flag.value))
}
