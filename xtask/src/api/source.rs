//! The parsed source of a crate: its modules, their items and imports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Attribute, Item, UseTree, Visibility};

/// The path of a module from the root of the crate; the root's is empty.
pub type ModulePath = Vec<String>;

/// All modules of a crate, without those of tests.
pub struct Source {
    pub name: String,
    pub modules: BTreeMap<ModulePath, Module>,
}

/// One module.
#[derive(Default)]
pub struct Module {
    pub items: Vec<Item>,
    pub imports: Vec<Import>,
}

/// One name, or all names of a module, that a `use` brings into scope.
pub struct Import {
    pub public: bool,
    pub path: Vec<String>,
    /// The name in scope; `None` for all public names of the module at `path`.
    pub name: Option<String>,
}

type Load<'a> = dyn Fn(&str) -> Option<String> + 'a;

// === impl Source ===

impl Source {
    /// Reads the crate whose root is `dir/lib.rs`.
    pub fn read(name: &str, dir: &Path) -> Result<Self, String> {
        Self::load(name, &|file| fs::read_to_string(dir.join(file)).ok())
    }

    /// Reads a crate from texts, each with its path below `src`.
    #[cfg(test)]
    pub fn of(name: &str, files: &[(&str, &str)]) -> Result<Self, String> {
        let found = |file: &str| files.iter().find(|(path, _)| *path == file);
        Self::load(name, &|file| found(file).map(|(_, text)| (*text).to_owned()))
    }

    fn load(name: &str, load: &Load<'_>) -> Result<Self, String> {
        let mut source = Self { name: name.to_owned(), modules: BTreeMap::new() };
        let text = load("lib.rs").ok_or("there is no lib.rs")?;
        source.add_file(Vec::new(), "lib.rs", &text, load)?;
        Ok(source)
    }

    fn add_file(
        &mut self,
        path: ModulePath,
        file: &str,
        text: &str,
        load: &Load<'_>,
    ) -> Result<(), String> {
        let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
        self.add(path, parsed.items, load)
    }

    fn add(&mut self, path: ModulePath, items: Vec<Item>, load: &Load<'_>) -> Result<(), String> {
        let mut module = Module::default();
        for item in items {
            if let Item::Mod(inner) = &item
                && !is_hidden(&inner.attrs)
            {
                let mut child = path.clone();
                child.push(inner.ident.to_string());
                match &inner.content {
                    Some((_, items)) => self.add(child, items.clone(), load)?,
                    None => self.add_child_file(child, load)?,
                }
            }
            if let Item::Use(import) = &item {
                let public = matches!(import.vis, Visibility::Public(_));
                flatten(&import.tree, &mut Vec::new(), public, &mut module.imports);
            }
            module.items.push(item);
        }
        self.modules.insert(path, module);
        Ok(())
    }

    fn add_child_file(&mut self, path: ModulePath, load: &Load<'_>) -> Result<(), String> {
        let stem = path.join("/");
        for file in [format!("{stem}.rs"), format!("{stem}/mod.rs")] {
            if let Some(text) = load(&file) {
                return self.add_file(path, &file, &text, load);
            }
        }
        Err(format!("module {} has no file", path.join("::")))
    }
}

/// Returns `true` for items of tests and items that are not part of the documentation.
pub fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return false };
        let inner = list.tokens.to_string();
        (list.path.is_ident("cfg") && inner == "test")
            || (list.path.is_ident("doc") && inner == "hidden")
    })
}

/// Turns the tree of a `use` into one import for each name.
fn flatten(tree: &UseTree, path: &mut Vec<String>, public: bool, imports: &mut Vec<Import>) {
    let mut add = |path: &[String], name: Option<String>| {
        // `use a::b::{self}` imports `b`.
        let is_self = path.last().is_some_and(|last| last == "self") && path.len() > 1;
        let path = if is_self { &path[..path.len() - 1] } else { path };
        let name = match name {
            Some(name) if name == "self" => path.last().cloned(),
            name => name,
        };
        imports.push(Import { public, path: path.to_vec(), name });
    };
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, public, imports);
            path.pop();
        }
        UseTree::Name(last) => {
            path.push(last.ident.to_string());
            add(path, Some(last.ident.to_string()));
            path.pop();
        }
        UseTree::Rename(last) => {
            path.push(last.ident.to_string());
            add(path, Some(last.rename.to_string()));
            path.pop();
        }
        UseTree::Glob(_) => add(path, None),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, path, public, imports));
        }
    }
}
