//! The scopes of a Rust file: its modules and blocks, and the names that each of them has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proc_macro2::Ident;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use super::source::Source;

/// A module or a block.
pub struct Scope {
    /// The bytes of the file that are in it.
    pub range: Range<usize>,
    /// The module that it is or is in.
    pub module: Vec<String>,
    /// The scope around a block; a module does not see the names around it.
    pub parent: Option<usize>,
    pub names: BTreeMap<String, Name>,
    /// The paths that are imported with `*`.
    pub globs: Vec<Vec<String>>,
}

/// What a name in a scope is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Something that is declared there.
    Item,
    /// Something that is imported; `alias` if it has another name at its origin.
    Import { path: Vec<String>, alias: bool },
}

/// An identifier in a `use` item, and the path that it is the end of.
pub struct Used {
    pub at: usize,
    pub path: Vec<String>,
    /// Whether the scope has the name then.
    pub binds: bool,
}

/// The scopes of a file, and the places that are not paths although they look so.
pub struct Scopes {
    /// The first one is the file.
    pub all: Vec<Scope>,
    /// The identifiers in `use` items.
    pub used: Vec<Used>,
    /// The bytes of `use` items.
    pub uses: Vec<Range<usize>>,
    /// The bytes of attributes.
    pub attributes: Vec<Range<usize>>,
    /// The bytes of macro calls, with the names of the macros.
    pub macros: Vec<(Range<usize>, String)>,
    /// Where type parameters are declared, which hide names that no scope here has.
    pub parameters: Vec<(usize, String)>,
    /// Where variants, fields and associated types are named.
    pub members: BTreeSet<usize>,
}

// === impl Scopes ===

impl Scopes {
    /// Reads the scopes of the file of a module.
    pub fn of(source: &Source, module: &[String]) -> Self {
        let scopes = Self {
            all: Vec::new(),
            used: Vec::new(),
            uses: Vec::new(),
            attributes: Vec::new(),
            macros: Vec::new(),
            parameters: Vec::new(),
            members: BTreeSet::new(),
        };
        let mut reader = Reader { source, scopes, current: 0 };
        reader.open(0..source.text.len() + 1, module.to_owned(), None);
        reader.items(source.syntax.items.iter());
        visit::visit_file(&mut reader, &source.syntax);
        reader.scopes
    }

    /// The innermost scope of a byte.
    pub fn at(&self, at: usize) -> usize {
        let inside = self.all.iter().enumerate().filter(|(_, scope)| scope.range.contains(&at));
        inside.min_by_key(|(_, scope)| scope.range.len()).map_or(0, |(index, _)| index)
    }

    /// The name of the macro whose call has a byte.
    pub fn macro_at(&self, at: usize) -> Option<&str> {
        let inside = self.macros.iter().filter(|(range, _)| range.contains(&at));
        inside.min_by_key(|(range, _)| range.len()).map(|(_, name)| name.as_str())
    }
}

struct Reader<'a> {
    source: &'a Source,
    scopes: Scopes,
    current: usize,
}

impl Reader<'_> {
    fn open(&mut self, range: Range<usize>, module: Vec<String>, parent: Option<usize>) -> usize {
        let (names, globs) = (BTreeMap::new(), Vec::new());
        self.scopes.all.push(Scope { range, module, parent, names, globs });
        self.scopes.all.len() - 1
    }

    fn start(&self, ident: &Ident) -> usize {
        self.source.range(ident.span()).start
    }

    fn member(&mut self, ident: &Ident) {
        let at = self.start(ident);
        self.scopes.members.insert(at);
    }

    fn declare(&mut self, ident: &Ident) {
        self.scopes.all[self.current].names.insert(ident.to_string(), Name::Item);
    }

    /// Adds the names of the items of the current scope.
    fn items<'i>(&mut self, items: impl Iterator<Item = &'i Item>) {
        for item in items {
            match item {
                Item::Struct(item) => self.declare(&item.ident),
                Item::Union(item) => self.declare(&item.ident),
                Item::Trait(item) => self.declare(&item.ident),
                Item::TraitAlias(item) => self.declare(&item.ident),
                Item::Type(item) => self.declare(&item.ident),
                Item::Mod(item) => self.declare(&item.ident),
                Item::Enum(item) => {
                    self.declare(&item.ident);
                    self.variants(item);
                }
                Item::Use(item) => self.import(item),
                _ => {}
            }
        }
    }

    /// An enum is a module of its variants: `use Backend::*` imports them.
    fn variants(&mut self, item: &syn::ItemEnum) {
        let outer = &self.scopes.all[self.current];
        if outer.parent.is_some() {
            return; // nothing outside of a block can name it
        }
        let module = [&outer.module[..], &[item.ident.to_string()]].concat();
        let index = self.open(0..0, module, None);
        let names = item.variants.iter().map(|one| (one.ident.to_string(), Name::Item));
        self.scopes.all[index].names.extend(names);
    }

    fn import(&mut self, item: &syn::ItemUse) {
        let range = self.source.range(item.span());
        self.scopes.uses.push(range);
        let mut open = vec![(Vec::new(), &item.tree)];
        while let Some((path, tree)) = open.pop() {
            let longer = |ident: &Ident| [&path[..], &[ident.to_string()]].concat();
            let scope = &mut self.scopes.all[self.current];
            match tree {
                UseTree::Path(tree) => {
                    let path = longer(&tree.ident);
                    let at = self.source.range(tree.ident.span()).start;
                    self.scopes.used.push(Used { at, path: path.clone(), binds: false });
                    open.push((path, &tree.tree));
                }
                UseTree::Group(group) => {
                    open.extend(group.items.iter().map(|tree| (path.clone(), tree)));
                }
                UseTree::Glob(_) => scope.globs.push(path),
                UseTree::Name(tree) if tree.ident == "self" => {
                    let name = path.last().cloned().unwrap_or_default();
                    let import = Name::Import { path, alias: false };
                    scope.names.entry(name).or_insert(import);
                }
                UseTree::Name(tree) => {
                    let path = longer(&tree.ident);
                    let import = Name::Import { path: path.clone(), alias: false };
                    scope.names.entry(tree.ident.to_string()).or_insert(import);
                    let at = self.source.range(tree.ident.span()).start;
                    self.scopes.used.push(Used { at, path, binds: true });
                }
                UseTree::Rename(tree) => {
                    let whole = tree.ident == "self";
                    let path = if whole { path } else { longer(&tree.ident) };
                    let import = Name::Import { path: path.clone(), alias: true };
                    scope.names.entry(tree.rename.to_string()).or_insert(import);
                    let at = self.source.range(tree.ident.span()).start;
                    if !whole {
                        self.scopes.used.push(Used { at, path, binds: false });
                    }
                }
            }
        }
    }

    fn inside(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.current, index);
        visit(self);
        self.current = outer;
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        let Some((_, items)) = &item.content else { return };
        let range = self.source.range(item.span());
        let name = self.source.range(item.ident.span());
        let outer = &self.scopes.all[self.current].module;
        let module = [&outer[..], &[item.ident.to_string()]].concat();
        let index = self.open(name.end..range.end, module, None);
        self.inside(index, |reader| {
            reader.items(items.iter());
            items.iter().for_each(|item| reader.visit_item(item));
        });
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        let module = self.scopes.all[self.current].module.clone();
        let range = self.source.range(block.span());
        let index = self.open(range, module, Some(self.current));
        self.inside(index, |reader| {
            reader.items(block.stmts.iter().filter_map(|statement| match statement {
                syn::Stmt::Item(item) => Some(item),
                _ => None,
            }));
            visit::visit_block(reader, block);
        });
    }

    fn visit_generics(&mut self, generics: &'a syn::Generics) {
        for parameter in generics.type_params() {
            let at = self.start(&parameter.ident);
            self.scopes.parameters.push((at, parameter.ident.to_string()));
        }
        visit::visit_generics(self, generics);
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        let range = self.source.range(attribute.span());
        self.scopes.attributes.push(range);
        visit::visit_attribute(self, attribute);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        let range = self.source.range(call.delimiter.span().join());
        self.scopes.macros.push((range, name.unwrap_or_default()));
        visit::visit_macro(self, call);
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        self.member(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        field.ident.iter().for_each(|ident| self.member(ident));
        visit::visit_field(self, field);
    }

    fn visit_member(&mut self, member: &'a syn::Member) {
        if let syn::Member::Named(ident) = member {
            self.member(ident);
        }
    }

    fn visit_impl_item_type(&mut self, item: &'a syn::ImplItemType) {
        self.member(&item.ident);
        visit::visit_impl_item_type(self, item);
    }

    fn visit_trait_item_type(&mut self, item: &'a syn::TraitItemType) {
        self.member(&item.ident);
        visit::visit_trait_item_type(self, item);
    }

    fn visit_assoc_type(&mut self, item: &'a syn::AssocType) {
        self.member(&item.ident);
        visit::visit_assoc_type(self, item);
    }

    fn visit_constraint(&mut self, item: &'a syn::Constraint) {
        self.member(&item.ident);
        visit::visit_constraint(self, item);
    }
}
