//! Takes modules out of the crate: their declarations, and their calls in the operator expression.

use std::collections::BTreeSet;

use super::Remover;
use crate::failure::Failure;
use crate::scaffold::index::Index;
use crate::scaffold::source::Source;
use crate::scaffold::{chain, modules};

impl<'a> Remover<'a> {
    /// Removes the declarations of the removed modules and their calls in the operator expression.
    pub(super) fn unwire(&mut self) -> Result<(), Failure> {
        let mut edited: Vec<(&'a Source, String)> = Vec::new();
        for (parent, names) in self.declarations() {
            let text = modules::without(parent, &names).ok_or_else(|| {
                Failure::other(format!(
                    "the line of `mod {}` in {} has changed; remove it by hand and repeat",
                    names.join("` or `mod "),
                    parent.path
                ))
            })?;
            edited.push((parent, text));
        }
        if let Some(source) = self.operator.as_ref().map(|(source, _)| *source) {
            let index = edited.iter().position(|(known, _)| known.path == source.path);
            let text = index.map_or_else(|| source.text.clone(), |index| edited[index].1.clone());
            let text = without_calls(&source.path, text, &self.calls)?;
            match index {
                Some(index) => edited[index].1 = text,
                None => edited.push((source, text)),
            }
        }
        let uses = self.uses(&edited)?;
        if !uses.is_empty() && !self.force {
            let removed = self.modules.iter().map(|module| module.join("::"));
            return Err(Failure::other(format!(
                "the module {} is used at {}; remove that first, or repeat with --force; nothing \
                 was changed",
                removed.collect::<Vec<_>>().join(" or "),
                uses.join(", ")
            )));
        }
        for (source, text) in edited {
            self.changes.update(&source.path, &source.text, text);
        }
        Ok(())
    }

    /// The files that declare removed modules and stay, and the names of those modules.
    fn declarations(&self) -> Vec<(&'a Source, Vec<String>)> {
        let mut all: Vec<(&'a Source, Vec<String>)> = Vec::new();
        for module in &self.modules {
            let (name, parent) = module.split_last().expect("a module has a name");
            if self.modules.iter().any(|other| !parent.is_empty() && parent.starts_with(other)) {
                continue;
            }
            let parent = &self.package.module(parent).expect("a module has a parent").source;
            match all.iter_mut().find(|(known, _)| known.path == parent.path) {
                Some((_, names)) => names.push(name.clone()),
                None => all.push((parent, vec![name.clone()])),
            }
        }
        all
    }

    /// The places in all code of the package that use removed modules and stay.
    fn uses(&self, edited: &[(&Source, String)]) -> Result<Vec<String>, Failure> {
        let others = self.package.others()?;
        let index = Index::new(self.package, &others);
        let words = self.modules.iter().filter_map(|module| module.last().cloned()).collect();
        let mut uses = Vec::new();
        for file in index.files().filter(|file| !self.changes.removes(&file.source.path)) {
            let source = file.source;
            let new = edited.iter().find(|(known, _)| known.path == source.path);
            let new = new.map(|(_, new)| new.as_str());
            let new = new.or_else(|| self.changes.updated(&source.path));
            let mentions = index.mentions(file, &words).into_iter();
            let gone = |path: &[String]| self.modules.iter().any(|gone| path.starts_with(gone));
            let lines = mentions.filter(|one| gone(&one.path));
            let lines: BTreeSet<usize> = lines.map(|one| source.line(one.range.start)).collect();
            for line in lines {
                let text = source.text.lines().nth(line - 1).unwrap_or_default();
                if new.is_none_or(|new| new.lines().any(|line| line == text)) {
                    uses.push(format!("{}:{line}", source.path));
                }
            }
        }
        Ok(uses)
    }
}

/// A file without some calls of its operator expression.
fn without_calls(path: &str, text: String, calls: &[String]) -> Result<String, Failure> {
    let sources = [Source::parse(path, text)?];
    let Some((source, chain)) = chain::only(&sources)? else {
        let [source] = sources;
        return Ok(source.text);
    };
    let edits = calls.iter().filter_map(|call| chain.remove(source, call)).collect();
    source.edited(edits)
}
