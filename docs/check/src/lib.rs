//! The book's pages whose examples are complete programs: `cargo test` compiles and runs them.
//!
//! Pages that quote an example or a transcript are compared with it by the tests of that example.

#[doc = include_str!("../../api-types.md")]
pub mod api_types {}

#[doc = include_str!("../../how-to.md")]
pub mod how_to {}

#[doc = include_str!("../../manifests.md")]
pub mod manifests {}

#[doc = include_str!("../../policies.md")]
pub mod policies {}

#[doc = include_str!("../../sim.md")]
pub mod sim {}

#[doc = include_str!("../../testing.md")]
pub mod testing {}

#[doc = include_str!("../../versions.md")]
pub mod versions {}

#[rustfmt::skip]
pub mod readme;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in docs").to_owned()
    }

    /// The targets of the links of a page, without those to other sites.
    fn links(page: &str) -> Vec<String> {
        let parts = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let own = parts.filter(|link| !link.contains("://") && !link.starts_with('#'));
        own.map(|link| link.split('#').next().unwrap_or_default().to_owned())
            .filter(|link| !link.is_empty() && !link.contains([' ', '`', '"']))
            .collect()
    }

    fn pages() -> Vec<String> {
        let mut pages: Vec<String> = fs::read_dir(docs())
            .expect("the directory can be read")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".md"))
            .collect();
        pages.sort();
        pages
    }

    #[test]
    fn every_page_is_in_the_summary() {
        let summary = fs::read_to_string(docs().join("SUMMARY.md")).expect("a summary");
        let listed: BTreeSet<String> =
            links(&summary).iter().map(|link| link.trim_start_matches("./").to_owned()).collect();
        let missing: Vec<String> = pages()
            .into_iter()
            .filter(|page| page != "SUMMARY.md" && !listed.contains(page))
            .collect();
        assert!(missing.is_empty(), "add to docs/SUMMARY.md: {missing:?}");
    }

    /// The languages of the blocks of each page. Every one of them is compiled, run or compared by a test:
    /// here, in the tests of windlass, windlass-cli and windlass-sim, or in those of an example. Commands
    /// of shells are parsed if they are ours, and not run.
    const BLOCKS: [(&str, &str); 19] = [
        ("README.md", "diff rust sh text toml"),
        ("docs/api-types.md", "rust sh"),
        ("docs/build-times.md", "toml"),
        ("docs/commands.md", "text"),
        ("docs/dev.md", "text"),
        ("docs/envtest.md", "sh"),
        // What is typed at a console is for kubectl.
        ("docs/finished-operator.md", "console rust yaml"),
        ("docs/how-to.md", "rust"),
        // A diagram.
        ("docs/life-of-a-change.md", "text"),
        // Two programs that do not end.
        ("docs/manifests.md", "rust rust,no_run"),
        ("docs/memcached-side-by-side.md", "go rust"),
        ("docs/plan.md", "sh text"),
        ("docs/policies.md", "rust text"),
        ("docs/scaffold.md", "console rust sh toml"),
        ("docs/sim.md", "rust rust,no_run text"),
        ("docs/testing.md", "rust toml"),
        ("docs/versions.md", "rust text"),
        ("docs/webhooks.md", "rust text"),
        ("docs/zh.md", "console diff rust sh text"),
    ];

    #[test]
    fn every_block_has_a_language_that_somebody_checks() {
        let root = docs().parent().expect("docs is in the project").to_owned();
        let pages = pages().into_iter().map(|page| format!("docs/{page}"));
        let mut found = Vec::new();
        for page in [String::from("README.md")].into_iter().chain(pages) {
            let text = fs::read_to_string(root.join(&page)).expect("a page");
            let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
            let languages: BTreeSet<&str> = fences.clone().step_by(2).collect();
            assert!(fences.skip(1).step_by(2).all(str::is_empty), "{page}: a block is not closed");
            if !languages.is_empty() {
                found.push((page, languages.into_iter().collect::<Vec<_>>().join(" ")));
            }
        }
        let expected = BLOCKS.map(|(page, languages)| (page.to_owned(), languages.to_owned()));
        assert_eq!(found, expected, "let a test check new blocks, and add them to the list");
    }

    #[test]
    fn the_profile_is_the_same_on_all_pages() {
        let root = docs().parent().expect("docs is in the project").to_owned();
        let readme = fs::read_to_string(root.join("README.md")).expect("a page");
        let (_, rest) = readme.split_once("[profile.dev.package]\n").expect("the profile");
        let (profile, _) = rest.split_once("```").expect("the end of the block");
        assert!(profile.contains("\"*\".opt-level = 1\n"), "{profile}");
        for page in ["build-times.md", "scaffold.md", "testing.md"] {
            let text = fs::read_to_string(docs().join(page)).expect("a page");
            let shown = format!("[profile.dev.package]\n{profile}```");
            assert!(text.contains(&shown), "{page} does not show\n{shown}");
        }
    }

    #[test]
    fn every_link_of_a_page_has_a_target() {
        let root = docs().parent().expect("docs is in the project").to_owned();
        let inside = pages().into_iter().map(|page| docs().join(page));
        let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name));
        let mut broken = Vec::new();
        for page in inside.chain(top) {
            let text = fs::read_to_string(&page).expect("a page");
            let place = page.parent().expect("a page is in a directory");
            for link in links(&text) {
                if !place.join(&link).exists() {
                    broken.push(format!("{}: {link}", page.display()));
                }
            }
        }
        assert!(broken.is_empty(), "links without a target:\n{}", broken.join("\n"));
    }

    /// The Rust files of a directory and those below it, as one text.
    fn code(directory: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                text.push_str(&code(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).expect("a file"));
            }
        }
        text
    }

    #[test]
    fn the_code_in_the_chapter_of_an_example_is_code_of_the_example() {
        let examples = docs().parent().expect("docs is in the project").join("examples");
        let (mut count, mut missing) = (0, Vec::new());
        for example in fs::read_dir(examples).expect("there are examples").flatten() {
            let Ok(chapter) = fs::read_to_string(example.path().join("README.md")) else {
                continue;
            };
            let code = code(&example.path().join("src")) + &code(&example.path().join("tests"));
            for block in chapter.split("\n```rust\n").skip(1) {
                let quoted = block.split("\n```").next().unwrap_or_default();
                count += 1;
                if !code.contains(quoted) {
                    missing.push(format!("{}:\n{quoted}", example.path().display()));
                }
            }
        }
        assert!(count > 10, "only {count} blocks were found");
        assert!(missing.is_empty(), "code that is in no example:\n{}", missing.join("\n"));
    }

    #[test]
    fn the_operator_of_the_readme_compiles() {
        let root = docs().parent().expect("docs is in the project").to_owned();
        let readme = fs::read_to_string(root.join("README.md")).expect("a page");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let code = words(include_str!("readme.rs"));
        let blocks: Vec<&str> = readme.split("\n```rust\n").skip(1).collect();
        assert_eq!(blocks.len(), 1);
        let shown = blocks[0].split("\n```").next().unwrap_or_default();
        for part in shown.split("\n\n") {
            assert!(code.contains(&words(part)), "{part}");
        }
    }

    #[test]
    fn the_chinese_page_shows_the_code_and_transcripts_of_the_others() {
        let page = fs::read_to_string(docs().join("zh.md")).expect("a page");
        let start = fs::read_to_string(docs().join("scaffold.md")).expect("a page");
        let root = docs().parent().expect("docs is in the project").to_owned();
        let readme = fs::read_to_string(root.join("README.md")).expect("a page");
        let examples = root.join("examples");
        let code = code(&examples.join("memcached/src")) + &code(&examples.join("scaffold/src"));
        let blocks = |mark: &'static str| {
            let blocks = page.split(mark).skip(1);
            blocks.filter_map(|block| block.split("\n```").next().map(str::to_owned))
        };
        let missing: Vec<String> = blocks("\n```console\n")
            .filter(|block| !start.contains(block.as_str()))
            .chain(blocks("\n```diff\n").filter(|block| !readme.contains(block.as_str())))
            .chain(blocks("\n```text\n").filter(|block| !readme.contains(block.as_str())))
            .chain(blocks("\n```rust\n").filter(|block| !code.contains(block.as_str())))
            .collect();
        assert!(missing.is_empty(), "out of date:\n{}", missing.join("\n"));
    }

    /// The rows of the tables below a heading, without links.
    fn rows(text: &str, heading: &str) -> Vec<String> {
        let part = text.split(heading).nth(1).expect("the heading is there");
        let end = part.find("\n# ").or(part.find("\n## ")).unwrap_or(part.len());
        let rows = part[..end].lines().filter(|line| line.starts_with('|'));
        rows.map(|row| {
            let mut plain = String::new();
            for (at, piece) in row.split("[`").enumerate() {
                let Some((name, rest)) = piece.split_once("`]").filter(|_| at > 0) else {
                    plain += piece;
                    continue;
                };
                let rest = match rest.strip_prefix('(') {
                    Some(link) => link.split_once(')').map_or(link, |(_, rest)| rest),
                    None => rest,
                };
                plain += &format!("`{}`{rest}", name.trim_start_matches("macro@"));
            }
            plain
        })
        .collect()
    }

    #[test]
    fn the_tables_for_moving_over_are_those_of_the_documentation_of_the_crate() {
        let page = fs::read_to_string(docs().join("migration.md")).expect("a page");
        let root = docs().parent().expect("docs is in the project").to_owned();
        let code = fs::read_to_string(root.join("crates/windlass/src/lib.rs")).expect("a file");
        let text: String = code
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
            .collect();
        for from in ["controller-runtime", "kube-rs"] {
            let known = rows(&text, &format!("# Coming from {from}\n"));
            assert!(known.len() > 10, "{known:?}");
            assert_eq!(rows(&page, &format!("## From {from}\n")), known);
        }
    }
}
