//! Which paths in the code of a package lead to modules and types of its library.
//!
//! This follows modules, `use` items and globs as the compiler does, as far as it needs no types. A
//! name that leads to something else, such as a field, a variant or a type of another crate, is
//! never taken for one of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::modules::Module;
use super::package::Package;
use super::scope::{Name, Scopes};
use super::source::{Source, Token, tokens};

/// How many names are looked up to find out what one of them means.
const STEPS_MAX: usize = 256;

/// The names of all files of a package.
pub struct Index<'a> {
    library: Option<&'a str>,
    files: Vec<File<'a>>,
    /// The scope of each module, by its crate and its path. The main crate is the first.
    modules: BTreeMap<At, (usize, usize)>,
    /// Names that attributes add to modules of the main crate.
    generated: BTreeSet<Vec<String>>,
}

/// A file of the package.
pub struct File<'a> {
    pub source: &'a Source,
    in_crate: usize,
    scopes: Scopes,
}

/// A module or an item: the number of its crate, and its path there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    in_crate: usize,
    path: Vec<String>,
}

/// What a name was found to be.
#[derive(Clone)]
struct Found {
    at: At,
    /// Whether the name is the one that it was declared with, not an alias.
    own_name: bool,
}

/// The names that are being looked up, so that circles of `use` items end.
#[derive(Default)]
struct Walk {
    open: Vec<(String, usize, String)>,
    steps: usize,
}

/// A name in the code that leads to something of the main crate.
#[derive(Debug)]
pub struct Mention {
    /// Where the name is.
    pub range: Range<usize>,
    /// What it leads to: a path in the main crate.
    pub path: Vec<String>,
    /// Whether the name is the one that it was declared with, not an alias.
    pub own_name: bool,
    /// Whether the name is looked up in a scope, or added to it.
    pub in_scope: bool,
    /// Whether it is one word among the tokens of a macro that may take it for something else.
    pub unclear: bool,
    /// The literal that the name is in.
    pub literal: Option<Range<usize>>,
}

/// The macros whose arguments are expressions, patterns and types.
const MACROS: [&str; 32] = [
    "assert",
    "assert_eq",
    "assert_matches",
    "assert_ne",
    "bail",
    "concat",
    "dbg",
    "debug",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "ensure",
    "eprint",
    "eprintln",
    "error",
    "format",
    "format_args",
    "info",
    "join",
    "json",
    "matches",
    "panic",
    "pin",
    "print",
    "println",
    "select",
    "trace",
    "try_join",
    "vec",
    "warn",
    "write",
    "writeln",
];

// === impl File ===

impl File<'_> {
    /// Returns `true` if the file is the root of a crate.
    pub fn is_root(&self) -> bool {
        self.scopes.all[0].module.is_empty()
    }
}

// === impl Index ===

impl<'a> Index<'a> {
    /// Reads the names of a package.
    ///
    /// `others` are its crates apart from the main one.
    pub fn new(package: &'a Package, others: &'a [Vec<Module>]) -> Self {
        let defined = package.defined().into_iter();
        let generated = defined.map(|one| [&one.module[..], &[one.kind]].concat());
        let mut index = Self {
            library: package.library.as_deref(),
            files: Vec::new(),
            modules: BTreeMap::new(),
            generated: generated.collect(),
        };
        let crates = std::iter::once(&package.modules).chain(others);
        for (in_crate, modules) in crates.enumerate() {
            for module in modules {
                let scopes = Scopes::of(&module.source, &module.path);
                for (scope, one) in scopes.all.iter().enumerate() {
                    if one.parent.is_none() {
                        let at = At { in_crate, path: one.module.clone() };
                        index.modules.entry(at).or_insert((index.files.len(), scope));
                    }
                }
                index.files.push(File { source: &module.source, in_crate, scopes });
            }
        }
        index
    }

    /// The files, first those of the main crate.
    pub fn files(&self) -> impl Iterator<Item = &File<'a>> {
        self.files.iter()
    }

    /// Returns `true` if a module of the main crate declares a name.
    pub fn declares(&self, module: &[String], name: &str) -> bool {
        let at = At { in_crate: 0, path: module.to_owned() };
        let found = self.named(&at, name, &mut Walk::default());
        found.is_some_and(|found| found.own_name && found.at.path.starts_with(module))
    }

    /// The places at which a file has a type parameter of one of some names.
    pub fn parameters(&self, file: &File<'_>, names: &BTreeSet<String>) -> Vec<usize> {
        let all = file.scopes.parameters.iter();
        all.filter(|(_, name)| names.contains(name)).map(|(at, _)| *at).collect()
    }

    /// Returns `true` if a new name at the place of another one would mean something else there.
    pub fn is_taken(&self, file: &File<'_>, mention: &Mention, name: &str) -> bool {
        let scope = file.scopes.at(mention.range.start);
        mention.in_scope && self.visible(file, scope, name, &mut Walk::default()).is_some()
    }

    /// The names in a file that lead to something of the main crate, in order, in paths that have
    /// one of some words.
    pub fn mentions(&self, file: &File<'_>, wanted: &BTreeSet<String>) -> Vec<Mention> {
        let source = file.source;
        let all = tokens(&source.text[source.skipped..]).unwrap_or_default();
        let mut mentions = Vec::new();
        let mut next = 0;
        while next < all.len() {
            let first = next;
            let mut words = Vec::new();
            while all.get(next).is_some_and(|token| is_word(source, token)) {
                words.push(next);
                next += 1;
                if !(is(&all, next, ":") && is(&all, next + 1, ":")) {
                    break;
                }
                next += 2;
            }
            if words.is_empty() {
                self.literal(file, &all[next], &mut mentions);
                next += 1;
                continue;
            }
            let at = all[first].at + source.skipped;
            if !words.iter().any(|word| wanted.contains(&all[*word].text)) {
                continue;
            }
            if !file.scopes.uses.iter().any(|range| range.contains(&at)) {
                self.path(file, &all, &words, &mut mentions);
            }
        }
        let used = file.scopes.used.iter();
        for used in used.filter(|used| used.path.iter().any(|name| wanted.contains(name))) {
            let scope = file.scopes.at(used.at);
            let found = self.resolve(file, scope, &used.path, &mut Walk::default()).pop().flatten();
            let name = used.path.last().map_or(0, String::len);
            mentions.extend(self.mention(found, used.at..used.at + name, used.binds));
        }
        mentions.sort_by_key(|one| one.range.start);
        mentions
    }

    fn mention(
        &self,
        found: Option<Found>,
        range: Range<usize>,
        in_scope: bool,
    ) -> Option<Mention> {
        let Found { at, own_name } = found.filter(|found| found.at.in_crate == 0)?;
        let (path, unclear, literal) = (at.path, false, None);
        Some(Mention { range, path, own_name, in_scope, unclear, literal })
    }

    /// Adds the names of a path that is not in a `use` item.
    fn path(&self, file: &File<'_>, all: &[Token], words: &[usize], mentions: &mut Vec<Mention>) {
        let (source, first) = (file.source, words[0]);
        let start = all[first].at + source.skipped;
        let before = |back: usize| first.checked_sub(back).map_or("", |index| &*all[index].text);
        let member = before(1) == "." && before(2) != "." || before(1) == "'";
        let rooted = before(1) == ":" && before(2) == ":";
        if member || rooted || file.scopes.members.contains(&start) {
            return;
        }
        let path: Vec<String> = words.iter().map(|word| all[*word].text.clone()).collect();
        let found = self.resolve(file, file.scopes.at(start), &path, &mut Walk::default());
        let one = words.len() == 1;
        let after = words[words.len() - 1] + 1;
        let in_macro = one.then(|| file.scopes.macro_at(start)).flatten();
        let label = is(all, after, ":") && !is(all, after + 1, ":");
        let unclear = in_macro.is_some_and(|name| !MACROS.contains(&name) || label);
        for (index, (found, word)) in found.into_iter().zip(words).enumerate() {
            // A module alone is only named where it is declared.
            let module = found.as_ref().is_some_and(|found| self.modules.contains_key(&found.at));
            if one && module && before(1) != "mod" && !is_type(&path[0]) {
                continue;
            }
            let at = all[*word].at + source.skipped;
            let range = at..at + all[*word].text.len();
            let mention = self.mention(found, range, index == 0);
            mentions.extend(mention.map(|mention| Mention { unclear, ..mention }));
        }
    }

    /// Adds the names of a path that is the text of an attribute, such as `default = "a::b"`.
    fn literal(&self, file: &File<'_>, token: &Token, mentions: &mut Vec<Mention>) {
        let start = token.at + file.source.skipped;
        let text = token.text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let Some(text) = text.filter(|text| text.contains("::")) else { return };
        let written = file.source.text.get(start + 1..).is_some_and(|rest| rest.starts_with(text));
        if !written || !file.scopes.attributes.iter().any(|range| range.contains(&start)) {
            return;
        }
        let path: Vec<String> = text.split("::").map(str::to_owned).collect();
        let mut at = start + 1;
        let found = self.resolve(file, file.scopes.at(start), &path, &mut Walk::default());
        for (index, (found, name)) in found.into_iter().zip(&path).enumerate() {
            let mention = self.mention(found, at..at + name.len(), index == 0);
            let literal = Some(start..start + token.text.len());
            mentions.extend(mention.map(|mention| Mention { literal, ..mention }));
            at += name.len() + 2;
        }
    }

    /// What each name of a path leads to.
    fn resolve(
        &self,
        file: &File<'_>,
        scope: usize,
        path: &[String],
        walk: &mut Walk,
    ) -> Vec<Option<Found>> {
        let module = &file.scopes.all[scope].module;
        let mut all: Vec<Option<Found>> = Vec::with_capacity(path.len());
        for (index, name) in path.iter().enumerate() {
            let here = |path: Vec<String>| {
                Some(Found { at: At { in_crate: file.in_crate, path }, own_name: false })
            };
            let found = match (name.as_str(), all.last().cloned()) {
                ("crate", _) => here(Vec::new()),
                ("self", None) => here(module.clone()),
                ("super", before) => {
                    let from = before.flatten().map_or(module.clone(), |found| found.at.path);
                    from.split_last().and_then(|(_, outer)| here(outer.to_vec()))
                }
                (_, None) => self.visible(file, scope, name, walk),
                (_, Some(Some(before))) => self.named(&before.at, name, walk),
                (_, Some(None)) => None,
            };
            let ends = found.is_none();
            all.push(found);
            if ends {
                all.resize(path.len(), None);
                break;
            }
            debug_assert_eq!(all.len(), index + 1);
        }
        all
    }

    /// What a name means in a scope or the ones around it.
    fn visible(&self, file: &File<'_>, scope: usize, name: &str, walk: &mut Walk) -> Option<Found> {
        let mut next = Some(scope);
        while let Some(scope) = next {
            let one = &file.scopes.all[scope];
            if one.parent.is_none() {
                let at = At { in_crate: file.in_crate, path: one.module.clone() };
                if let Some(found) = self.named(&at, name, walk) {
                    return Some(found);
                }
            } else if let Some(found) = self.in_scope(file, scope, name, walk) {
                return Some(found);
            }
            next = one.parent;
        }
        let library = self.library == Some(name) && file.in_crate != 0;
        let at = At { in_crate: 0, path: Vec::new() };
        library.then_some(Found { at, own_name: false })
    }

    /// What a name of a module means.
    fn named(&self, module: &At, name: &str, walk: &mut Walk) -> Option<Found> {
        let path = [&module.path[..], &[name.to_owned()]].concat();
        if module.in_crate == 0 && self.generated.contains(&path) {
            return Some(Found { at: At { in_crate: 0, path }, own_name: true });
        }
        let (file, scope) = self.modules.get(module)?;
        self.in_scope(&self.files[*file], *scope, name, walk)
    }

    /// What a name of one scope means.
    fn in_scope(
        &self,
        file: &File<'_>,
        scope: usize,
        name: &str,
        walk: &mut Walk,
    ) -> Option<Found> {
        let step = (file.source.path.clone(), scope, name.to_owned());
        walk.steps += 1;
        if walk.steps > STEPS_MAX || walk.open.contains(&step) {
            return None;
        }
        walk.open.push(step);
        let found = self.declared(file, scope, name, walk);
        walk.open.pop();
        found
    }

    /// What the items of one scope make of a name.
    fn declared(
        &self,
        file: &File<'_>,
        scope: usize,
        name: &str,
        walk: &mut Walk,
    ) -> Option<Found> {
        let one = &file.scopes.all[scope];
        match one.names.get(name) {
            Some(Name::Item) => {
                // What a block declares has a path that no other item has.
                let inner = one.parent.map(|_| format!("{{{scope}}}"));
                let names = one.module.iter().cloned().chain(inner).chain([name.to_owned()]);
                let at = At { in_crate: file.in_crate, path: names.collect() };
                Some(Found { at, own_name: true })
            }
            Some(Name::Import { path, .. }) if path.is_empty() => None,
            Some(Name::Import { path, alias }) => {
                // `use name;` and `use name::…` of a crate lead outwards, not to themselves.
                let found = self.resolve(file, scope, path, walk).pop().flatten();
                let own_name = |found: &Found| found.own_name && !alias;
                // A name from elsewhere is known, but leads nowhere here.
                Some(match found {
                    Some(found) => Found { own_name: own_name(&found), ..found },
                    None => Found { at: elsewhere(path), own_name: false },
                })
            }
            None => one.globs.iter().find_map(|path| {
                let module = self.resolve(file, scope, path, walk).pop().flatten()?;
                self.named(&module.at, name, walk)
            }),
        }
    }
}

/// Something of another crate.
fn elsewhere(path: &[String]) -> At {
    At { in_crate: usize::MAX, path: path.to_owned() }
}

/// Returns `true` if a token is an identifier, at the place where it is written.
fn is_word(source: &Source, token: &Token) -> bool {
    let start = token.at + source.skipped;
    let ident = token.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && token.text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '#');
    // The place of documentation is that of the comment.
    ident && source.text.get(start..start + token.text.len()) == Some(token.text.as_str())
}

fn is(all: &[Token], index: usize, text: &str) -> bool {
    all.get(index).is_some_and(|token| token.text == text)
}

/// Returns `true` for a name as types have it.
fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_uppercase())
}
