//! What a path in the source refers to.

use syn::{Ident, Item, Visibility};

use super::source::{ModulePath, Source, is_hidden};

/// What a path refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Module(ModulePath),
    /// An item of the crate: its module and its name.
    Item(ModulePath, String),
    /// An item of another crate, with its path there.
    Foreign(Vec<String>),
}

/// Imports that are followed before a path is given up as a circle.
const DEPTH_MAX: usize = 32;

// === impl Source ===

impl Source {
    /// Finds what `path` refers to inside `module`. `None` for type parameters and what the
    /// standard library puts into every scope.
    pub fn resolve(&self, module: &ModulePath, path: &[String]) -> Option<Target> {
        self.resolve_at(module, path, 0)
    }

    fn resolve_at(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        if depth > DEPTH_MAX {
            return None;
        }
        let start = match first.as_str() {
            "crate" => Target::Module(Vec::new()),
            "self" => Target::Module(module.clone()),
            "super" => Target::Module(module.split_last()?.1.to_vec()),
            name => match self.look_up(module, name, depth) {
                Some(target) => target,
                // Crates have lower case names. Other unknown names are type parameters, and one
                // without a path is a primitive type.
                None if name.starts_with(char::is_lowercase) && !rest.is_empty() => {
                    return Some(Target::Foreign(path.to_vec()));
                }
                None => return None,
            },
        };
        match start {
            target if rest.is_empty() => Some(target),
            Target::Module(inner) => match rest[0].as_str() {
                "super" | "self" => self.resolve_at(&inner, rest, depth + 1),
                name => match self.look_up(&inner, name, depth)? {
                    Target::Module(inner) if rest.len() > 1 => {
                        let mut path = vec!["self".to_owned()];
                        path.extend_from_slice(&rest[1..]);
                        self.resolve_at(&inner, &path, depth + 1)
                    }
                    target => Some(target),
                },
            },
            Target::Foreign(mut path) => {
                path.extend_from_slice(rest);
                Some(Target::Foreign(path))
            }
            // An associated item or a variant.
            item @ Target::Item(..) => Some(item),
        }
    }

    /// Finds a name in the scope of a module.
    fn look_up(&self, path: &ModulePath, name: &str, depth: usize) -> Option<Target> {
        let module = self.modules.get(path)?;
        let child = || {
            let mut child = path.clone();
            child.push(name.to_owned());
            child
        };
        if module.items.iter().any(|item| type_of(item).is_some_and(|(known, ..)| known == name)) {
            return Some(Target::Item(path.clone(), name.to_owned()));
        }
        if self.modules.contains_key(&child()) {
            return Some(Target::Module(child()));
        }
        if let Some(import) = module.imports.iter().find(|i| i.name.as_deref() == Some(name)) {
            // `use serde;` names the crate itself.
            if import.path.len() == 1 && import.path[0] == name {
                return Some(Target::Foreign(import.path.clone()));
            }
            return self.resolve_at(path, &import.path, depth + 1);
        }
        if module.items.iter().any(|item| value_of(item).is_some_and(|(known, ..)| known == name)) {
            return Some(Target::Item(path.clone(), name.to_owned()));
        }
        module.imports.iter().filter(|import| import.name.is_none()).find_map(|import| {
            match self.resolve_at(path, &import.path, depth + 1)? {
                Target::Module(inner) if inner != *path => self.look_up(&inner, name, depth + 1),
                _ => None,
            }
        })
    }
}

/// Returns the name, what it is and the visibility, if the item defines a type.
pub fn type_of(item: &Item) -> Option<(&Ident, &'static str, bool)> {
    let (ident, what, visibility, attributes) = match item {
        Item::Struct(item) => (&item.ident, "struct", &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, "enum", &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, "trait", &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, "type", &item.vis, &item.attrs),
        Item::Union(item) => (&item.ident, "union", &item.vis, &item.attrs),
        _ => return None,
    };
    Some((ident, what, is_public(visibility) && !is_hidden(attributes)))
}

/// Returns the same if the item defines a function or a constant.
pub fn value_of(item: &Item) -> Option<(&Ident, &'static str, bool)> {
    let (ident, what, visibility, attributes) = match item {
        Item::Fn(item) => (&item.sig.ident, "fn", &item.vis, &item.attrs),
        Item::Const(item) => (&item.ident, "const", &item.vis, &item.attrs),
        Item::Static(item) => (&item.ident, "static", &item.vis, &item.attrs),
        _ => return None,
    };
    Some((ident, what, is_public(visibility) && !is_hidden(attributes)))
}

pub fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}
