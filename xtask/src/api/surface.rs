//! The public items of a crate: what can be reached from its root, at its shortest path.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Field, ImplItem, Item, ItemImpl, ItemTrait, Path, Signature, TraitItem,
};

use super::resolve::{Target, is_public, type_of, value_of};
use super::source::{ModulePath, Source, is_hidden};

/// Crates whose items may appear in signatures without being listed.
const STANDARD: [&str; 3] = ["std", "core", "alloc"];

/// One line for each public item, sorted.
#[derive(Default)]
pub struct Surface {
    pub lines: BTreeSet<String>,
}

/// An item: its module and its name.
type Definition = (ModulePath, String);

struct Walk<'a> {
    source: &'a Source,
    /// The shortest public path of each public item.
    reachable: BTreeMap<Definition, String>,
    seen: BTreeSet<(ModulePath, String)>,
    reexports: BTreeSet<String>,
}

/// Notes items of other crates that appear in what it visits.
struct Foreign<'a> {
    source: &'a Source,
    module: &'a ModulePath,
    lines: &'a mut BTreeSet<String>,
}

// === impl Surface ===

impl Surface {
    /// Returns the lines of the crate's own items, each with the path of the item.
    pub fn items(&self) -> impl Iterator<Item = (&str, &str)> {
        let split =
            |line: &'_ String| line.split_once(' ').is_some_and(|(what, _)| !is_other(what));
        let own = self.lines.iter().filter(move |line| split(line));
        own.filter_map(|line| Some((line.as_str(), line.split_once(' ')?.1)))
    }

    /// Returns the lines about other crates: re-exports, and items in public signatures.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let other = |line: &&str| line.split_once(' ').is_some_and(|(what, _)| is_other(what));
        self.lines.iter().map(String::as_str).filter(other)
    }

    /// Returns the items of other crates that appear in public signatures.
    pub fn foreign(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| line.strip_prefix("foreign "))
    }
}

/// Returns `true` for lines about other crates.
fn is_other(what: &str) -> bool {
    matches!(what, "foreign" | "use")
}

/// Lists the public items of a crate.
pub fn surface(source: &Source) -> Surface {
    let mut walk = Walk {
        source,
        reachable: BTreeMap::new(),
        seen: BTreeSet::new(),
        reexports: BTreeSet::new(),
    };
    walk.module(&Vec::new(), &source.name);
    let mut lines: BTreeSet<String> =
        walk.reexports.iter().map(|path| format!("use {path}")).collect();
    for (path, module) in &source.modules {
        for item in &module.items {
            let mut foreign = Foreign { source, module: path, lines: &mut lines };
            match item {
                Item::Impl(block) => list_impl(&walk, path, block, &mut foreign),
                item => list_item(&walk, path, item, &mut foreign),
            }
        }
    }
    Surface { lines }
}

// === impl Walk ===

impl Walk<'_> {
    /// Notes the public items of a module that is public as `shown`.
    fn module(&mut self, path: &ModulePath, shown: &str) {
        if !self.seen.insert((path.clone(), shown.to_owned())) {
            return;
        }
        let source = self.source;
        let Some(module) = source.modules.get(path) else { return };
        for item in &module.items {
            if let Item::Mod(inner) = item {
                if is_public(&inner.vis) {
                    let mut child = path.clone();
                    child.push(inner.ident.to_string());
                    self.module(&child, &format!("{shown}::{}", inner.ident));
                }
            } else if let Some((name, _, true)) = type_of(item).or_else(|| value_of(item)) {
                self.reach(path.clone(), name.to_string(), format!("{shown}::{name}"));
            }
        }
        for import in module.imports.iter().filter(|import| import.public) {
            let target = source.resolve(path, &import.path);
            match (target, &import.name) {
                (Some(Target::Module(inner)), None) => self.module(&inner, shown),
                (Some(Target::Module(inner)), Some(name)) => {
                    self.module(&inner, &format!("{shown}::{name}"));
                }
                (Some(Target::Item(at, item)), Some(name)) => {
                    self.reach(at, item, format!("{shown}::{name}"));
                }
                (Some(Target::Foreign(path)), _) => {
                    self.reexports.insert(path.join("::"));
                }
                (Some(Target::Item(..)) | None, _) => {}
            }
        }
    }

    fn reach(&mut self, module: ModulePath, name: String, shown: String) {
        let length = |path: &String| (path.matches("::").count(), path.clone());
        let known = self.reachable.entry((module, name)).or_insert_with(|| shown.clone());
        if length(&shown) < length(known) {
            *known = shown;
        }
    }

    fn shown(&self, module: &ModulePath, name: &str) -> Option<&String> {
        self.reachable.get(&(module.clone(), name.to_owned()))
    }
}

fn list_item(walk: &Walk<'_>, path: &ModulePath, item: &Item, foreign: &mut Foreign<'_>) {
    let Some((name, what, true)) = type_of(item).or_else(|| value_of(item)) else { return };
    let Some(shown) = walk.shown(path, &name.to_string()) else { return };
    foreign.lines.insert(format!("{what} {shown}"));
    match item {
        Item::Trait(item) => list_trait(shown, item, foreign),
        Item::Fn(item) => foreign.visit_signature(&item.sig),
        item => foreign.visit_item(item),
    }
}

fn list_trait(shown: &str, item: &ItemTrait, foreign: &mut Foreign<'_>) {
    foreign.visit_generics(&item.generics);
    item.supertraits.iter().for_each(|bound| foreign.visit_type_param_bound(bound));
    for inner in &item.items {
        match inner {
            TraitItem::Fn(function) if !is_hidden(&function.attrs) => {
                foreign.lines.insert(format!("fn {shown}::{}", function.sig.ident));
                foreign.visit_signature(&function.sig);
            }
            TraitItem::Type(inner) => foreign.visit_trait_item_type(inner),
            _ => {}
        }
    }
}

/// Lists the public methods of a public type, or notes which trait of another crate it has.
fn list_impl(walk: &Walk<'_>, path: &ModulePath, block: &ItemImpl, foreign: &mut Foreign<'_>) {
    let syn::Type::Path(of) = &*block.self_ty else { return };
    let Some(Target::Item(at, name)) = walk.source.resolve(path, &segments(&of.path)) else {
        return;
    };
    let Some(shown) = walk.shown(&at, &name) else { return };
    if let Some((_, of, _)) = &block.trait_ {
        return foreign.visit_path(of);
    }
    for item in &block.items {
        match item {
            ImplItem::Fn(f) if is_public(&f.vis) && !is_hidden(&f.attrs) => {
                foreign.lines.insert(format!("fn {shown}::{}", f.sig.ident));
                foreign.visit_generics(&block.generics);
                foreign.visit_signature(&f.sig);
            }
            ImplItem::Const(c) if is_public(&c.vis) && !is_hidden(&c.attrs) => {
                foreign.lines.insert(format!("const {shown}::{}", c.ident));
                foreign.visit_type(&c.ty);
            }
            _ => {}
        }
    }
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

// === impl Foreign ===

impl<'ast> Visit<'ast> for Foreign<'_> {
    fn visit_path(&mut self, path: &'ast Path) {
        if let Some(Target::Foreign(found)) = self.source.resolve(self.module, &segments(path))
            && !STANDARD.contains(&found[0].as_str())
        {
            self.lines.insert(format!("foreign {}", found.join("::")));
        }
        visit::visit_path(self, path);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        // The fields of an enum's variants have no visibility of their own; those that are
        // private to a struct are no part of its API.
        if is_public(&field.vis) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        variant.fields.iter().for_each(|field| self.visit_type(&field.ty));
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        visit::visit_signature(self, signature);
    }

    fn visit_attribute(&mut self, _attribute: &'ast Attribute) {}

    fn visit_expr(&mut self, _value: &'ast Expr) {}

    fn visit_visibility(&mut self, _visibility: &'ast syn::Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let source = Source::of("demo", files).expect("parses");
        surface(&source).lines.into_iter().collect()
    }

    #[test]
    fn private_modules_count_only_through_their_reexports() {
        let root = "mod inner; pub mod open; pub use inner::deep::{Shown as Named, run};";
        let found = lines(&[
            ("lib.rs", root),
            ("inner.rs", "pub mod deep; pub struct Unseen;"),
            ("inner/deep.rs", "pub struct Shown; pub struct Kept; pub fn run() {}"),
            ("open.rs", "pub use crate::inner::deep::Shown; pub(crate) struct Own;"),
        ]);
        assert_eq!(found, ["fn demo::run", "struct demo::Named"]);
    }

    #[test]
    fn methods_count_with_their_public_type_wherever_they_are_written() {
        let found = lines(&[
            ("lib.rs", "mod a; mod b; pub use a::{Key, Get};"),
            ("a.rs", "pub struct Key; pub trait Get { fn get(&self); } impl Get for Key {}"),
            (
                "b.rs",
                "use super::a::Key; struct Own; impl Own { pub fn own(&self) {} }
                 impl Key { pub fn name(&self) {} fn hash(&self) {} pub const MAX: u8 = 1; }",
            ),
        ]);
        let expected = [
            "const demo::Key::MAX",
            "fn demo::Get::get",
            "fn demo::Key::name",
            "struct demo::Key",
            "trait demo::Get",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn feature_gated_items_count_and_tests_and_hidden_items_do_not() {
        let text = r#"
            #[cfg(feature = "tls")] pub fn gated() {}
            #[cfg(test)] pub mod tests { pub fn helper() {} }
            #[doc(hidden)] pub fn hidden() {}
        "#;
        assert_eq!(lines(&[("lib.rs", text)]), ["fn demo::gated"]);
    }

    #[test]
    fn types_of_other_crates_in_public_signatures_are_listed() {
        let text = "
            use std::time::Duration;
            use kube::{Client, core::Selector};
            pub struct Options<K> { pub value: serde_json::Value, secret: bytes::Bytes, of: K }
            pub enum Error { Api(http::StatusCode) }
            impl<K> Options<K> {
                pub fn with(client: Client, after: Duration, of: K) -> Vec<Option<Selector>> {}
                fn private(error: thiserror::Error) {}
            }
            impl<K> futures::Stream for Options<K> { type Item = K; }
        ";
        let found = lines(&[("lib.rs", text)]);
        let foreign: Vec<&str> =
            found.iter().filter_map(|line| line.strip_prefix("foreign ")).collect();
        let expected = [
            "futures::Stream",
            "http::StatusCode",
            "kube::Client",
            "kube::core::Selector",
            "serde_json::Value",
        ];
        assert_eq!(foreign, expected);
    }
}
