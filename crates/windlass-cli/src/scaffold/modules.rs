//! The modules of a crate: finding their files, adding and removing their declarations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::{Item, ItemMod};

use super::source::{Edit, SIZE_MAX, Source};
use crate::failure::Failure;

/// How many files a crate may have.
const FILES_MAX: usize = 1000;

/// A file of a crate.
pub struct Module {
    /// The names of the modules from the root of the crate to this one.
    pub path: Vec<String>,
    pub source: Source,
}

/// Reads a file and those of its modules. `root` is the directory of the package, `file` a path
/// below it.
pub fn read(root: &Path, file: &str) -> Result<Vec<Module>, Failure> {
    let directory = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
    let mut open = vec![(Vec::new(), PathBuf::from(file), directory)];
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some((path, file, directory)) = open.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        if seen.len() > FILES_MAX {
            return Err(Failure::other(format!("the crate has more than {FILES_MAX} files")));
        }
        let source = Source::parse(&shown(&file), read_text(&root.join(&file), &file)?)?;
        let mut inner = Vec::new();
        declared(&source.syntax.items, &path, &directory, &mut inner);
        for (path, directory) in inner {
            let (plain, nested) = (directory.with_extension("rs"), directory.join("mod.rs"));
            let found = [plain, nested].into_iter().find(|file| root.join(file).is_file());
            open.extend(found.map(|file| (path, file, directory)));
        }
        all.push(Module { path, source });
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Reads a text file.
pub fn read_text(path: &Path, shown: &Path) -> Result<String, Failure> {
    let cannot = |why: String| Failure::other(format!("cannot read {}: {why}", shown.display()));
    let size = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if size > SIZE_MAX as u64 {
        return Err(cannot(format!("it is larger than {SIZE_MAX} bytes")));
    }
    std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))
}

/// A path with slashes, as it is shown to people.
pub fn shown(path: &Path) -> String {
    let names = path.components().map(|name| name.as_os_str().to_string_lossy().into_owned());
    names.collect::<Vec<_>>().join("/")
}

/// The modules with files of their own, and the directories of their own modules.
fn declared(
    items: &[Item],
    path: &[String],
    directory: &Path,
    all: &mut Vec<(Vec<String>, PathBuf)>,
) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if module.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
            continue;
        }
        let name = module.ident.to_string();
        let inner = [path, std::slice::from_ref(&name)].concat();
        let below = directory.join(name.trim_start_matches("r#"));
        match &module.content {
            Some((_, items)) => declared(items, &inner, &below, all),
            None => all.push((inner, below)),
        }
    }
}

/// Returns `true` if a file declares a module.
pub fn has(source: &Source, name: &str) -> bool {
    source.syntax.items.iter().any(|item| matches!(item, Item::Mod(item) if item.ident == name))
}

/// Declares a module: in the order of the alphabet among the others, or before the first item.
pub fn insert(source: &Source, name: &str) -> Edit {
    let newline = source.newline();
    let line = format!("pub mod {name};");
    let others = outline(source);
    let before = others.iter().rev().find(|other| other.ident.to_string().as_str() < name);
    if let Some(before) = before {
        let end = source.line_end(source.range(before.span()).end);
        return Edit::insert(end, format!("{newline}{line}"));
    }
    let first = match others.first() {
        Some(first) => Some(source.range(first.span()).start),
        None => source.syntax.items.first().map(|item| source.item_range(item).start),
    };
    let Some(first) = first else {
        let missing =
            if source.text.is_empty() || source.text.ends_with('\n') { "" } else { newline };
        return Edit::insert(source.text.len(), format!("{missing}{line}{newline}"));
    };
    let gap = if others.is_empty() { newline } else { "" };
    Edit::insert(above_comments(source, first), format!("{line}{newline}{gap}"))
}

/// Removes a declaration that [`insert`] added; `None` if it is not there, or not on a line of its
/// own.
pub fn remove(source: &Source, name: &str) -> Option<Edit> {
    let others = outline(source);
    let index = others.iter().position(|other| other.ident == name)?;
    let range = source.range(others[index].span());
    let (start, end) = (source.line_start(range.start), source.next_line(range.end));
    let whole =
        source.text[start..end].trim_end_matches(['\n', '\r']) == format!("pub mod {name};");
    if !whole {
        return None;
    }
    let follows_module = index > 0 && {
        let before = source.range(others[index - 1].span());
        source.next_line(before.end) == start
    };
    if end == source.text.len() && !source.text.ends_with('\n') && start > 0 {
        return Some(Edit::remove(source.line_end(source.line_start(start - 1))..end));
    }
    let next_end = source.next_line(end);
    let blank = end < next_end && source.text[end..next_end].trim_matches(['\n', '\r']).is_empty();
    Some(Edit::remove(start..if blank && !follows_module { next_end } else { end }))
}

/// The modules of a file that have files of their own.
fn outline(source: &Source) -> Vec<&ItemMod> {
    let items = source.syntax.items.iter();
    let modules = items.filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module),
        _ => None,
    });
    modules.collect()
}

/// The start of the comments directly above a byte, or of its line.
fn above_comments(source: &Source, at: usize) -> usize {
    let mut start = source.line_start(at);
    while start > 0 {
        let above = source.line_start(start - 1);
        let line = source.text[above..start].trim();
        if !line.starts_with("//") || line.starts_with("//!") {
            break;
        }
        start = above;
    }
    start.max(source.skipped)
}

/// The text of a file with the declarations of some more modules.
pub fn with(path: &str, mut text: String, names: &[String]) -> Result<String, Failure> {
    for name in names {
        let source = Source::parse(path, text)?;
        text = source.edited(vec![insert(&source, name)])?;
    }
    Ok(text)
}

/// The text of a file without the declarations of some modules; `None` if they cannot be removed.
pub fn without(source: &Source, names: &[String]) -> Option<String> {
    let mut text = source.text.clone();
    for name in names {
        let source = Source::parse(&source.path, text).ok()?;
        text = source.edited(vec![remove(&source, name)?]).ok()?;
    }
    Some(text)
}
