//! The Cargo workspace around a new project.

use std::path::{Path, PathBuf};

use toml_edit::{Array, Document};

use super::modules;
use crate::failure::Failure;

/// A workspace that a new project becomes a member of.
pub struct Workspace {
    pub root: PathBuf,
    /// Its Cargo.toml.
    pub text: String,
}

impl Workspace {
    /// Finds the workspace that a directory is in.
    pub fn find(directory: &Path) -> Result<Option<Self>, Failure> {
        for root in directory.ancestors() {
            let path = root.join("Cargo.toml");
            if path.is_file() {
                let text = modules::read_text(&path, &path)?;
                let manifest = super::package::parse(&text)?;
                if manifest.get("workspace").is_some() {
                    return Ok(Some(Self { root: root.to_owned(), text }));
                }
            }
        }
        Ok(None)
    }

    /// Returns `true` if Cargo.toml excludes a directory below the root.
    pub fn excludes(&self, member: &str) -> bool {
        let manifest = super::package::parse(&self.text).ok();
        let exclude =
            manifest.as_ref().and_then(|m| m.get("workspace")?.get("exclude")?.as_array());
        let mut exclude = exclude.into_iter().flatten().filter_map(|item| item.as_str());
        exclude.any(|one| Path::new(member).starts_with(one))
    }

    /// Returns `true` if builds for development optimize the dependencies, however little.
    pub fn optimizes_dependencies(&self) -> bool {
        let manifest = super::package::parse(&self.text).ok();
        let level = manifest.as_ref().and_then(|manifest| {
            let dev = manifest.get("profile")?.get("dev")?;
            let all = dev.get("package").and_then(|package| package.get("*"));
            all.and_then(|all| all.get("opt-level")).or_else(|| dev.get("opt-level"))
        });
        level.is_some_and(|level| level.as_integer() != Some(0))
    }

    /// Cargo.toml with one more member, every other byte as before.
    pub fn with_member(&self, member: &str) -> Result<String, Failure> {
        let text = &self.text;
        let refused = || {
            Failure::other(format!(
                "cannot add {member:?} to workspace.members in {}; add it by hand and repeat",
                self.root.join("Cargo.toml").display()
            ))
        };
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let document = Document::parse(text.as_str()).map_err(|_| refused())?;
        let workspace = document.get("workspace").ok_or_else(refused)?;
        let Some(members) = workspace.get("members") else {
            let table = workspace.as_table().filter(|table| !table.is_dotted());
            let header = table.and_then(|table| table.span()).ok_or_else(refused)?;
            let end = text[header.start..].find('\n').map(|newline| header.start + newline + 1);
            let end = end.unwrap_or(text.len());
            let gap = if text[..end].ends_with('\n') { "" } else { newline };
            return Ok(format!(
                "{}{gap}members = [\"{member}\"]{newline}{}",
                &text[..end],
                &text[end..]
            ));
        };
        let members = members.as_array().ok_or_else(refused)?;
        let known = members.iter().filter_map(|item| item.as_str());
        if known.into_iter().any(|known| covers(known, member)) {
            return Ok(text.clone());
        }
        let edited = insert(text, members, member).ok_or_else(refused)?;
        // What was written is read again, so that a member is never added to something else.
        let check = super::package::parse(&edited).map_err(|_| refused())?;
        let found = check["workspace"]["members"]
            .as_array()
            .map(|array| array.iter().filter_map(|item| item.as_str()).any(|one| one == member));
        if found == Some(true) { Ok(edited) } else { Err(refused()) }
    }
}

/// Adds an item to an array, on a line of its own if the others have one.
fn insert(text: &str, members: &Array, member: &str) -> Option<String> {
    let array = members.span()?;
    let Some(last) = members.iter().last().and_then(|item| item.span()) else {
        let close = array.end - 1;
        return Some(format!("{}\"{member}\"{}", &text[..close], &text[close..]));
    };
    let line_start = text[..last.start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = &text[line_start..last.start];
    if line_start <= array.start || !indent.trim().is_empty() {
        return Some(format!("{}, \"{member}\"{}", &text[..last.end], &text[last.end..]));
    }
    let line_end = text[last.end..].find('\n').map(|newline| last.end + newline)?;
    let (line_end, newline) = match text[..line_end].ends_with('\r') {
        true => (line_end - 1, "\r\n"),
        false => (line_end, "\n"),
    };
    let comma = text[last.end..line_end].trim_start().starts_with(',');
    let (first, second) = if comma { ("", ",") } else { (",", "") };
    Some(format!(
        "{}{first}{}{newline}{indent}\"{member}\"{second}{}",
        &text[..last.end],
        &text[last.end..line_end],
        &text[line_end..]
    ))
}

/// Returns `true` if an entry of `workspace.members`, which may have `*`, means a directory.
fn covers(pattern: &str, member: &str) -> bool {
    let (pattern, member) = (pattern.trim_end_matches('/'), member.trim_end_matches('/'));
    let (mut patterns, mut names) = (pattern.split('/'), member.split('/'));
    loop {
        match (patterns.next(), names.next()) {
            (None, None) => return true,
            (Some(pattern), Some(name)) if matches(pattern, name) => {}
            _ => return false,
        }
    }
}

/// Matches one name of a path.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices().map(|(at, _)| &name[at..]).chain([""]).any(|end| matches(rest, end))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_member(text: &str, member: &str) -> String {
        let workspace = Workspace { root: "/w".into(), text: text.into() };
        workspace.with_member(member).unwrap_or_else(|failure| failure.to_string())
    }

    #[test]
    fn a_member_is_added_where_the_others_are_and_comments_stay() {
        let cases = [
            ("[workspace]\n", "[workspace]\nmembers = [\"shop\"]\n"),
            (
                "[workspace] # all\nresolver = \"3\"\n",
                "[workspace] # all\nmembers = [\"shop\"]\nresolver = \"3\"\n",
            ),
            ("[workspace]\nmembers = []\n", "[workspace]\nmembers = [\"shop\"]\n"),
            (
                "[workspace]\nmembers = [\"a\"] # b\n",
                "[workspace]\nmembers = [\"a\", \"shop\"] # b\n",
            ),
            (
                "[workspace]\nmembers = [\n  \"a\", # one\n  # two\n]\n",
                "[workspace]\nmembers = [\n  \"a\", # one\n  \"shop\",\n  # two\n]\n",
            ),
            (
                "[workspace]\nmembers = [\n  \"a\" # one\n]\n",
                "[workspace]\nmembers = [\n  \"a\", # one\n  \"shop\"\n]\n",
            ),
            ("workspace.members = [\"a\"]\n", "workspace.members = [\"a\", \"shop\"]\n"),
            ("[workspace]\nmembers = [\"*\"]\n", "[workspace]\nmembers = [\"*\"]\n"),
            ("[workspace]\nmembers = [\"s*p/\"]\n", "[workspace]\nmembers = [\"s*p/\"]\n"),
        ];
        for (before, after) in cases {
            assert_eq!(with_member(before, "shop"), after);
            let windows = |text: &str| text.replace('\n', "\r\n");
            assert_eq!(with_member(&windows(before), "shop"), windows(after));
        }
        assert!(with_member("workspace = { resolver = \"3\" }\n", "shop").contains("by hand"));
    }

    #[test]
    fn excluded_directories_are_no_members() {
        let text = "[workspace]\nexclude = [\"old\"]\n".to_owned();
        let workspace = Workspace { root: "/w".into(), text };
        assert!(workspace.excludes("old/shop") && !workspace.excludes("older"));
    }

    #[test]
    fn a_profile_optimizes_dependencies_in_several_ways() {
        let cases = [
            ("", false),
            ("[profile.dev]\nopt-level = 1\n", true),
            ("[profile.dev.package.\"*\"]\nopt-level = 1\n", true),
            ("[profile.dev.package]\n\"*\".opt-level = \"s\"\n", true),
            ("[profile.dev.package]\n\"*\".opt-level = 0\nsyn.opt-level = 3\n", false),
            ("[profile.dev]\nopt-level = 1\npackage.\"*\".opt-level = 0\n", false),
            ("[profile.release.package.\"*\"]\nopt-level = 3\n", false),
        ];
        for (profile, expected) in cases {
            let text = format!("[workspace]\n\n{profile}");
            let workspace = Workspace { root: "/w".into(), text };
            assert_eq!(workspace.optimizes_dependencies(), expected, "{profile}");
        }
    }
}
