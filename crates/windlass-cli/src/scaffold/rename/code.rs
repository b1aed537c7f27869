//! The names of a kind in the code of a package, and what they become.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Renaming;
use crate::failure::Failure;
use crate::scaffold::delete::kind_of;
use crate::scaffold::index::{File, Index};
use crate::scaffold::modules;
use crate::scaffold::source::{Edit, Source, tokens};

/// How many places a sentence names.
const PLACES_MAX: usize = 10;

/// What is renamed, by its path in the library.
pub struct Code<'a> {
    index: &'a Index<'a>,
    renaming: &'a Renaming<'a>,
    names: BTreeMap<Vec<String>, String>,
    /// The names as they are.
    words: BTreeSet<String>,
}

// === impl Code ===

impl<'a> Code<'a> {
    pub fn new(index: &'a Index<'a>, renaming: &'a Renaming<'a>) -> Result<Self, Failure> {
        let mut names = BTreeMap::new();
        let (old, new) = (&renaming.module, &renaming.new_module);
        names.insert(vec![old.clone()], new.clone());
        let (kind, new_kind) = (&renaming.kind, &renaming.new_kind);
        for own in &renaming.versions {
            if kind != new_kind && index.declares(&own.module, new_kind) {
                return Err(Failure::other(format!(
                    "{} has a {new_kind} already; choose another kind, nothing was changed",
                    own.file
                )));
            }
            for end in ["", "Spec", "Status"] {
                let name = format!("{kind}{end}");
                if end.is_empty() || index.declares(&own.module, &name) {
                    let path = [&own.module[..], &[name]].concat();
                    names.insert(path, format!("{new_kind}{end}"));
                }
            }
        }
        names.retain(|path, new| path.last() != Some(new));
        let words = names.keys().filter_map(|path| path.last().cloned()).collect();
        Ok(Self { index, renaming, names, words })
    }

    /// The edits of a file; places that are not clear are added to a list.
    pub fn edits(&self, file: &File<'_>, unclear: &mut Vec<String>) -> Vec<Edit> {
        let source = file.source;
        let mut places: BTreeSet<usize> = BTreeSet::new();
        places.extend(self.index.parameters(file, &self.words));
        places.extend(self.shared(file));
        let (mut edits, mut literals) = (Vec::new(), BTreeMap::new());
        for mention in self.index.mentions(file, &self.words) {
            let Some(new) = self.names.get(&mention.path).filter(|_| mention.own_name) else {
                continue;
            };
            if mention.unclear || self.index.is_taken(file, &mention, new) {
                places.insert(mention.range.start);
            }
            match mention.literal {
                None => edits.push(Edit::replace(mention.range, new.clone())),
                Some(literal) => {
                    let inner: &mut Vec<_> = literals.entry(literal.start).or_default();
                    inner.push((literal, mention.range, new));
                }
            }
        }
        edits.extend(literals.into_values().map(|inner| with_names(source, &inner)));
        edits.extend(self.samples(source));
        for own in self.renaming.versions.iter().filter(|own| own.file == source.path) {
            let (kind, group) = (&self.renaming.new_kind, &self.renaming.new_group);
            edits.push(Edit::replace(own.kind_range.clone(), format!("{kind:?}")));
            edits.push(Edit::replace(own.group_range.clone(), format!("{group:?}")));
        }
        edits.retain(|edit| source.text[edit.range.clone()] != edit.text);
        let shown = |at: usize| format!("{}:{}", source.path, source.line(at));
        unclear.extend(places.into_iter().map(shown));
        edits
    }

    /// Where another crate declares the file of the kind as a module of its own.
    fn shared(&self, file: &File<'_>) -> Option<usize> {
        let (source, module) = (file.source, &self.renaming.module);
        let directory = |path: &str| path.rfind('/').map(|slash| path[..slash].to_owned());
        let main = &self.renaming.package.main().path;
        let beside = source.path != *main && directory(&source.path) == directory(main);
        let root = beside && file.is_root() && modules::has(source, module);
        root.then(|| source.text.find(&format!("mod {module}")).unwrap_or_default())
    }

    /// The literals that name samples of the kind, with the new names.
    fn samples(&self, source: &Source) -> Vec<Edit> {
        let all = tokens(&source.text[source.skipped..]).unwrap_or_default();
        let edits = all.into_iter().filter_map(|token| {
            let at = token.at + source.skipped;
            let range = at..at + token.text.len();
            let new = self.sample_in(&token.text)?;
            // The place of documentation is that of the comment.
            (source.text.get(range.clone()) == Some(&token.text)).then(|| Edit::replace(range, new))
        });
        edits.collect()
    }

    /// A literal that names a sample of the kind, with the new name of the sample.
    fn sample_in(&self, literal: &str) -> Option<String> {
        if !literal.starts_with('"') {
            return None;
        }
        self.renaming.versions.iter().find_map(|own| {
            let (kind, renamed) = (kind_of(own), self.renaming.renamed(&kind_of(own)));
            let head = literal.strip_suffix(&format!("{}\"", kind.sample_path()))?;
            let whole = head.ends_with(['/', '"']);
            whole.then(|| format!("{head}{}\"", renamed.sample_path()))
        })
    }
}

/// A literal with new names at some of its places.
fn with_names(source: &Source, inner: &[(Range<usize>, Range<usize>, &String)]) -> Edit {
    let whole = inner[0].0.clone();
    let mut text = source.text[whole.clone()].to_owned();
    for (_, range, new) in inner.iter().rev() {
        text.replace_range(range.start - whole.start..range.end - whole.start, new);
    }
    Edit::replace(whole, text)
}

/// Refuses a renaming with places that are not clear.
pub fn refused(kind: &str, unclear: &[String]) -> Result<(), Failure> {
    if unclear.is_empty() {
        return Ok(());
    }
    let more = match unclear.len().saturating_sub(PLACES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = &unclear[..unclear.len().min(PLACES_MAX)];
    Err(Failure::other(format!(
        "it is not clear how to rename {kind} at {}{more}; write a path such as crate::… there, or \
         choose a name that is free, and repeat; nothing was changed",
        shown.join(", ")
    )))
}
