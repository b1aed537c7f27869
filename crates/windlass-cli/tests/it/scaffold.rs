//! Projects from an empty directory to several groups and back.

mod undo;
mod workspace;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::support::{TempDir, one_line, windlass};

/// The files and directories below a directory, and the contents of the files.
type Tree = BTreeMap<PathBuf, Option<String>>;

fn tree(root: &Path) -> Tree {
    let (mut all, mut open) = (Tree::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            match path.is_dir() {
                true => {
                    all.insert(name, None);
                    open.push(path);
                }
                false => drop(all.insert(name, Some(fs::read_to_string(&path).unwrap()))),
            }
        }
    }
    all
}

fn run(directory: &Path, line: &str) -> Output {
    let mut command = windlass();
    command.args(line.split_whitespace()).current_dir(directory).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs a command that has to succeed; returns what it prints.
#[track_caller]
fn done(directory: &Path, line: &str) -> String {
    let output = run(directory, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "windlass {line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that has to be refused and to change nothing; returns its one sentence.
#[track_caller]
fn refused(directory: &Path, line: &str, code: i32) -> String {
    let before = tree(directory);
    let output = run(directory, line);
    let sentence = one_line(&output);
    assert_eq!(output.status.code(), Some(code), "windlass {line}: {sentence}");
    assert_eq!(tree(directory), before, "windlass {line} changed something");
    sentence
}

fn edit(directory: &Path, file: &str, change: impl FnOnce(&str) -> String) {
    let path = directory.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text, "nothing to change in {file}");
    fs::write(&path, changed).unwrap();
}

const INIT: &str = "init --domain example.com --name shop";
const MEMCACHED: &str = "--group cache --version v1alpha1 --kind Memcached";

/// A project with one kind.
fn project() -> TempDir {
    let directory = TempDir::new();
    done(directory.path(), INIT);
    done(directory.path(), &format!("create api {MEMCACHED}"));
    directory
}

#[test]
fn an_empty_directory_becomes_an_operator_of_fewer_than_ten_files() {
    let directory = TempDir::new();
    let root = directory.path();
    fs::write(root.join("README.md"), "mine\n").unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    let said = done(root, INIT);
    let expected = "created Cargo.toml\ncreated Makefile\ncreated src/lib.rs\n\
                    created src/main.rs\ncreated .gitignore\n\
                    Next: windlass create api --group GROUP --version v1alpha1 --kind KIND\n";
    assert_eq!(said, expected);
    let said = done(root, &format!("create api {MEMCACHED}"));
    let expected = "created src/memcached.rs\ncreated tests/memcached.rs\n\
                    created config/samples/cache.example.com_v1alpha1_memcached.yaml\n\
                    updated src/lib.rs\nNext: edit src/memcached.rs: ";
    assert!(said.starts_with(expected), "{said}");
    let files = tree(root).into_values().flatten().count() - 1;
    assert_eq!(files, 8, "README.md is not ours");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("[profile.dev.package]\n\"*\".opt-level = 1\n"), "{manifest}");
    assert!(manifest.contains("debug = \"line-tables-only\""), "{manifest}");
    let library = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let chain = "        .version(env!(\"CARGO_PKG_VERSION\"))\n        \
                 .api::<memcached::Memcached>()\n        .controller(memcached::controller())\n}\n";
    assert!(library.ends_with(chain), "{library}");
    assert_eq!(fs::read_to_string(root.join("README.md")).unwrap(), "mine\n");
}

/// The commands that wrote `examples/scaffold`, run in that directory after the first.
const EXAMPLE: [&str; 10] = [
    "init --domain example.com --name scaffold --path examples/scaffold --windlass-path .",
    "create api --group cache --version v1alpha1 --kind Memcached",
    "create api --group cache --version v1beta1 --kind Memcached",
    "create api --group fleet --version v1 --kind Memcached --namespaced=false \
     --plural fleetmemcacheds",
    "create api --group fleet --version v1 --kind CronRoute --no-controller",
    "create api --group apps --version v1 --kind Deployment --resource=false",
    "create api --group cache --version v1alpha1 --kind Memcached --no-resource \
     --controller-name auditor",
    "create webhook --group cache --version v1alpha1 --kind Memcached --defaulting \
     --programmatic-validation",
    "create webhook --group cache --version v1alpha1 --kind Memcached --conversion --spoke v1beta1",
    "create webhook --group core --version v1 --kind Pod --validation",
];

/// The workspace builds that project and runs its tests; so what the commands write compiles, and
/// its tests pass.
#[test]
fn the_example_of_the_workspace_is_what_the_commands_write() {
    let directory = TempDir::new();
    let root = directory.path();
    fs::create_dir_all(root.join("crates/windlass")).unwrap();
    fs::write(root.join("crates/windlass/Cargo.toml"), "").unwrap();
    fs::write(root.join("Cargo.toml"), "[workspace]\nmembers = [\"examples/*\"]\n").unwrap();
    done(root, EXAMPLE[0]);
    let written = root.join("examples/scaffold");
    for line in &EXAMPLE[1..] {
        println!("windlass {line}");
        done(&written, line);
    }
    let mut example = tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scaffold"));
    for ours in ["README.md", "rustfmt.toml"] {
        assert!(example.remove(Path::new(ours)).is_some(), "{ours} is there");
    }
    let written = tree(&written);
    for (path, text) in &written {
        assert_eq!(example.get(path), Some(text), "{}", path.display());
    }
    assert_eq!(written.len(), example.len(), "the example has more files");
}

#[test]
fn webhooks_are_added_step_by_step_and_deleted_byte_for_byte() {
    let directory = project();
    let root = directory.path();
    done(root, "create api --group cache --version v1 --kind Memcached");
    let before = tree(root);
    let webhook = format!("create webhook {MEMCACHED}");
    let said = done(root, &format!("{webhook} --defaulting"));
    let expected = "created src/memcached/webhook.rs\ncreated tests/memcached_webhook.rs\n\
                    updated src/memcached.rs\nupdated src/lib.rs\n\
                    Next: edit src/memcached/webhook.rs: what is filled in, and what is refused\n";
    assert!(said.starts_with(expected), "{said}");
    let library = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    assert!(library.contains("        .webhook(memcached::webhook::webhook())\n}"), "{library}");
    let sentence = refused(root, &format!("{webhook} --defaulting"), 2);
    assert!(sentence.contains("does that already"), "{sentence}");
    let said = done(root, &format!("{webhook} --validation --conversion"));
    assert!(said.contains("updated src/memcached/webhook.rs\n"), "{said}");
    assert!(said.contains("created src/memcached/conversion.rs\n"), "{said}");

    let other = project();
    let at_once = other.path();
    done(at_once, "create api --group cache --version v1 --kind Memcached");
    done(at_once, &format!("{webhook} --defaulting"));
    done(at_once, &format!("{webhook} --conversion"));
    done(at_once, &format!("{webhook} --validation"));
    assert!(tree(at_once) == tree(root), "the order of the steps makes no difference");

    done(root, &format!("delete webhook {MEMCACHED}"));
    assert!(tree(root) == before, "delete webhook left something");
    done(root, &format!("{webhook} --defaulting --validation"));
    edit(root, "src/memcached/webhook.rs", |text| text.replace("63", "40"));
    let sentence = refused(root, &format!("delete webhook {MEMCACHED}"), 1);
    assert!(sentence.contains("src/memcached/webhook.rs was changed"), "{sentence}");
    done(root, &format!("delete webhook {MEMCACHED} --force"));
    assert!(tree(root) == before, "delete webhook left something");
}

#[test]
fn a_webhook_that_the_author_changed_is_not_written_over() {
    let directory = project();
    let root = directory.path();
    let webhook = format!("create webhook {MEMCACHED}");
    done(root, &format!("{webhook} --defaulting"));
    edit(root, "src/memcached/webhook.rs", |text| text.replace("shop", "us"));
    let sentence = refused(root, &format!("{webhook} --validation"), 1);
    assert!(sentence.contains("add the functions and the calls by hand"), "{sentence}");
    fs::write(root.join("src/memcached/conversion.rs"), "// mine\n").unwrap();
    done(root, "create api --group cache --version v1 --kind Memcached");
    let sentence = refused(root, &format!("{webhook} --conversion"), 1);
    assert!(sentence.contains("src/memcached/conversion.rs exists already"), "{sentence}");
    let line = "create webhook --group cache --version v1 --kind Memcached --conversion";
    let sentence = refused(root, line, 2);
    assert!(sentence.contains("give --version v1alpha1"), "{sentence}");
}

#[test]
fn deleting_a_version_takes_it_out_of_the_conversion() {
    let directory = project();
    let root = directory.path();
    done(root, "create api --group cache --version v1 --kind Memcached");
    done(root, &format!("create webhook {MEMCACHED} --conversion"));
    let one = tree(root);
    done(root, "create api --group cache --version v1beta1 --kind Memcached");
    done(root, &format!("create webhook {MEMCACHED} --conversion --spoke v1beta1"));
    let text = fs::read_to_string(root.join("src/memcached/conversion.rs")).unwrap();
    assert!(text.contains("use super::{Memcached, v1, v1beta1};"), "{text}");
    done(root, "delete api --group cache --version v1beta1 --kind Memcached");
    assert!(tree(root) == one, "the other version is still converted");
    edit(root, "src/memcached/conversion.rs", |text| text.replace("Fields::new()", "fields()"));
    let line = "delete api --group cache --version v1 --kind Memcached";
    let sentence = refused(root, line, 1);
    assert!(sentence.contains("uses version v1 and was changed"), "{sentence}");
    edit(root, "src/memcached/conversion.rs", |text| text.replace("fields()", "Fields::new()"));
    done(root, line);
    assert!(!root.join("src/memcached").exists(), "nothing is left of the conversion");
}

#[test]
fn names_that_break_a_build_are_avoided() {
    let directory = TempDir::new();
    let root = directory.path();
    let sentence = refused(root, "init --domain example.com --name gen", 2);
    assert!(sentence.contains("not a good name"), "{sentence}");
    done(root, INIT);
    for (kind, file) in [("Gen", "src/gen_kind.rs"), ("Bin", "src/bin_kind.rs")] {
        let said = done(root, &format!("create api --group shop --version v1 --kind {kind}"));
        assert!(said.contains(&format!("created {file}\n")), "{said}");
        done(root, &format!("create api --group shop --version v2 --kind {kind}"));
    }
    assert!(!root.join("src/bin").exists(), "cargo takes its files for programs");
    for kind in ["GenList", "Lister --plural gens"] {
        let sentence =
            refused(root, &format!("create api --group shop --version v1 --kind {kind}"), 2);
        assert!(sentence.contains("choose another"), "{sentence}");
    }
    let said = done(root, "create api --group apps --version v1 --kind Deployment");
    let note = "note: Deployment of group apps.example.com is a new kind; a controller of the \
                built-in Deployment needs --no-resource\n";
    assert!(said.contains(note), "{said}");
}

#[cfg(unix)]
#[test]
fn links_to_files_stay_links() {
    let directory = TempDir::new();
    let root = directory.path();
    done(root, INIT);
    fs::rename(root.join("src/lib.rs"), root.join("shared.rs")).unwrap();
    std::os::unix::fs::symlink("../shared.rs", root.join("src/lib.rs")).unwrap();
    done(root, &format!("create api {MEMCACHED}"));
    assert!(root.join("src/lib.rs").is_symlink());
    assert!(fs::read_to_string(root.join("shared.rs")).unwrap().contains("pub mod memcached;"));
}

#[test]
fn a_makefile_of_the_author_stays() {
    let directory = TempDir::new();
    let root = directory.path();
    fs::write(root.join("Makefile"), "mine:\n").unwrap();
    let said = done(root, INIT);
    assert!(said.contains("kept Makefile: "), "{said}");
    assert_eq!(fs::read_to_string(root.join("Makefile")).unwrap(), "mine:\n");
}

#[test]
fn a_broken_project_is_refused_and_nothing_changes() {
    let directory = project();
    let root = directory.path();
    let line = "create api --group shop --version v1 --kind Route";
    let good = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let cases = [
        (good.replace("-> Operator {", "-> Operator {{"), "a bracket or a quote is not"),
        (good.replace("Operator::new(", "Operator::other("), "found no operator expression"),
        (format!("{good}fn two() -> Operator {{ Operator::new(\"b\") }}"), "several operator"),
        (good.replace("CARGO_PKG_VERSION\"))\n", "CARGO_PKG_VERSION\")) /* a\n b */"), ""),
    ];
    for (text, expected) in cases {
        fs::write(root.join("src/lib.rs"), &text).unwrap();
        if expected.is_empty() {
            done(root, &format!("{line} --dry-run"));
            continue;
        }
        let sentence = refused(root, line, 1);
        assert!(sentence.contains(expected), "{sentence}");
        assert!(sentence.contains("nothing was changed"), "{sentence}");
    }
    fs::write(root.join("src/lib.rs"), good).unwrap();
    fs::write(root.join("Cargo.toml"), "[package\n").unwrap();
    let sentence = refused(root, line, 1);
    assert!(sentence.contains("Cargo.toml:1"), "{sentence}");
}

#[test]
fn existing_files_are_never_overwritten() {
    let directory = project();
    let root = directory.path();
    let sentence = refused(root, &format!("create api {MEMCACHED}"), 2);
    assert!(sentence.contains("exists already, in src/memcached.rs"), "{sentence}");
    fs::write(root.join("tests/route.rs"), "// mine\n").unwrap();
    let sentence = refused(root, "create api --group shop --version v1 --kind Route", 1);
    assert!(sentence.contains("tests/route.rs exists already"), "{sentence}");
    let sentence = refused(root, INIT, 2);
    assert!(sentence.contains("has a Cargo.toml already"), "{sentence}");
}

#[test]
fn a_failure_in_the_middle_leaves_nothing_half_written() {
    let directory = project();
    let root = directory.path();
    // A file where a directory is needed: the types and the test are written before it is found.
    fs::remove_dir_all(root.join("config")).unwrap();
    fs::write(root.join("config"), "").unwrap();
    let sentence = refused(root, "create api --group shop --version v1 --kind Route", 1);
    assert!(sentence.contains("cannot write config/samples/"), "{sentence}");
    assert!(sentence.ends_with("nothing was changed"), "{sentence}");
}

#[test]
fn wrong_names_and_missing_answers_are_one_sentence() {
    let directory = project();
    let root = directory.path();
    let api = "create api --group shop --version v1 --kind";
    let cases = [
        ("create api --group shop --version v1".to_owned(), "--kind is missing"),
        (format!("{api} route"), "not a kind such as Memcached"),
        (format!("{api} Context"), "name of a type"),
        (format!("{api} Route --plural Routes"), "not a plural"),
        (format!("{api} Route --no-resource"), "neither built in nor defined"),
        (format!("{api} Route --no-resource --no-controller"), "nothing to create"),
        (format!("{api} Route --no-resource --external-api-path acme::Route"), "depend on acme"),
        ("create api --group Shop --version v1 --kind Route".to_owned(), "not a group"),
        ("create api --group shop --version 1 --kind Route".to_owned(), "not a version"),
        ("delete api --group shop --version v1 --kind Route".to_owned(), "has no Route"),
        ("rename api --group shop --kind Route --to Way".to_owned(), "does not define Route"),
        (format!("create webhook {MEMCACHED}"), "what the webhook does"),
        (format!("create webhook {MEMCACHED} --conversion"), "has one version"),
        (format!("create webhook {MEMCACHED} --conversion --spoke 2"), "not a version"),
        (format!("create webhook {MEMCACHED} --conversion --spoke v2"), "no version v2"),
        ("create webhook --group core --version v1 --kind Pod --conversion".into(), "not those"),
        ("create webhook --group shop --version v1 --kind Way --defaulting".into(), "neither"),
        (format!("delete webhook {MEMCACHED}"), "has no webhook of Memcached"),
    ];
    for (line, expected) in cases {
        let sentence = refused(root, &line, 2);
        assert!(sentence.contains(expected), "{line}: {sentence}");
    }
    let empty = TempDir::new();
    let sentence = refused(empty.path(), "init --name shop", 2);
    assert!(sentence.contains("--domain is missing"), "{sentence}");
    let sentence = refused(empty.path(), "init --domain example.com --name Shop", 2);
    assert!(sentence.contains("not a good name for a project"), "{sentence}");
    let line = format!("{INIT} --windlass-path /nowhere");
    let sentence = refused(empty.path(), &line, 2);
    assert!(sentence.contains("found no checkout of windlass at /nowhere"), "{sentence}");
    let sentence = refused(empty.path(), &format!("create api {MEMCACHED}"), 2);
    assert!(sentence.contains("start a project with `windlass init`"), "{sentence}");
}

#[test]
fn what_is_not_there_is_compared_with_what_is() {
    let directory = project();
    let root = directory.path();
    let there = "; it has Memcached of cache.example.com/v1alpha1";
    let said = refused(root, "delete api --group cache --version v1 --kind Memcached", 2);
    assert_eq!(said, format!("windlass: this project has no Memcached of cache/v1{there}"));
    for (version, kind) in [("v1", "Memcached"), ("v1alpha1", "Memcache")] {
        let named = format!("--group cache --version {version} --kind {kind}");
        let said = refused(root, &format!("create webhook {named} --defaulting"), 2);
        let expected = format!("nor defined in this project{there}; name the Rust type");
        assert!(said.contains(&expected), "{said}");
    }
    let said = refused(root, "delete api --group cache --version v1 --kind Lamp", 2);
    assert_eq!(said, "windlass: this project has no Lamp of cache/v1");
    let said = refused(root, "rename api --group cache --kind Memcached", 2);
    assert!(said.ends_with("were not provided: --to <KIND>; see --help"), "{said}");
}

#[test]
fn two_kinds_of_a_group_have_different_resource_names() {
    let directory = project();
    for (kind, advice) in [
        ("MemCached", "another kind"),
        ("Server --plural memcacheds", "another plural with --plural"),
    ] {
        let line = format!("create api --group cache --version v1 --kind {kind}");
        let said = refused(directory.path(), &line, 2);
        let clash = "and Memcached of group cache.example.com would have the same resource name";
        assert!(said.ends_with(&format!("{clash}; choose {advice}")), "{said}");
    }
    done(directory.path(), "create api --group cache --version v1 --kind Lorry --plural trucks");
    for kind in ["Truck", "Server --plural trucks"] {
        let line = format!("create api --group cache --version v1 --kind {kind}");
        let said = refused(directory.path(), &line, 2);
        assert!(
            said.contains(" and Lorry of group cache.example.com would have the same"),
            "{said}"
        );
    }
    let said = refused(directory.path(), "rename api --group cache --kind Lorry --to MEMCACHED", 2);
    assert!(said.contains("MEMCACHED and Memcached of group"), "{said}");
    // In another group, the names are free.
    done(directory.path(), "create api --group fleet --version v1 --kind Server --plural trucks");
}

#[test]
fn groups_that_belong_to_kubernetes_are_refused_before_an_api_server_does() {
    let directory = TempDir::new();
    for domain in ["k8s.io", "kubernetes.io", "shop.k8s.io"] {
        let said = refused(directory.path(), &format!("init --domain {domain} --name shop"), 2);
        assert!(said.contains("belongs to Kubernetes"), "{said}");
    }
    done(directory.path(), "init --domain notk8s.io --name shop");
}

#[test]
fn files_of_a_project_in_another_directory_are_named_as_seen_from_here() {
    let directory = TempDir::new();
    let said = done(directory.path(), "init --domain example.com --path operators/shop");
    assert!(said.contains("created operators/shop/src/main.rs\n"), "{said}");
    assert!(said.contains("created operators/shop/.gitignore\n"), "{said}");
    assert!(said.contains("Next: cd operators/shop\n"), "{said}");
    assert!(directory.path().join("operators/shop/Cargo.toml").is_file());
    assert!(!directory.path().join("Cargo.toml").exists());
}

#[test]
fn scripts_get_json_and_dry_runs_change_nothing() {
    let directory = project();
    let root = directory.path();
    let before = tree(root);
    let line = "create api --group shop --version v1 --kind Route --dry-run --output json";
    let report: serde_json::Value = serde_json::from_str(&done(root, line)).unwrap();
    assert_eq!(report["dryRun"], true);
    let first = serde_json::json!({"action": "created", "path": "src/route.rs"});
    assert_eq!(report["changes"][0], first);
    assert_eq!(tree(root), before);
    let version: serde_json::Value =
        serde_json::from_str(&done(root, "version --output json")).unwrap();
    assert_eq!(version["windlass"], env!("CARGO_PKG_VERSION"));
    assert!(done(root, "version").starts_with("windlass 0."));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = done(root, &format!("completion {shell}"));
        assert!(script.contains("cluster-scoped"), "{shell}");
    }
}

/// The blocks of a page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    page.split(&start).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Asserts that a page shows the whole Cargo.toml of a project, apart from the place of windlass.
#[track_caller]
fn assert_manifest_shown(page: &str, root: &Path) {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let checkout = checkout.canonicalize().unwrap().display().to_string();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace(&checkout, "../windlass/crates");
    assert_eq!(blocks(page, "toml"), [manifest.as_str()]);
}

#[test]
fn the_first_steps_of_the_readme_work_as_written() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let page = fs::read_to_string(page).unwrap();
    let start = page.split("## Start an operator").nth(1).expect("the section");
    let directory = TempDir::new();
    let root = directory.path().join("shop");
    fs::create_dir(&root).unwrap();
    let mut done_lines = 0;
    for line in blocks(start, "sh")[0].lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let words = line.strip_prefix("windlass ").filter(|words| !words.starts_with("dev"));
        if let Some(words) = words {
            done(&root, words);
            done_lines += 1;
        }
    }
    assert_eq!(done_lines, 2, "init and create api");
    assert_manifest_shown(&page, &root);
    // The two lines that the reader changes are there, one after the other.
    let change = blocks(start, "diff")[0];
    let old = change.lines().filter_map(|line| line.strip_prefix('-'));
    let old: Vec<&str> = old.collect();
    assert_eq!(old.len(), 2);
    let code = fs::read_to_string(root.join("src/memcached.rs")).unwrap();
    assert!(code.contains(&old.join("\n")), "{code}");
}

#[test]
fn the_guide_shows_what_the_commands_print_and_write() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scaffold.md");
    let page = fs::read_to_string(page).unwrap();
    let directory = TempDir::new();
    let root = directory.path().join("shop");
    fs::create_dir(&root).unwrap();
    let mut code = blocks(&page, "rust");
    assert!(!code.is_empty());
    for block in blocks(&page, "console") {
        let mut steps = block.split("$ ").skip(1).peekable();
        assert!(steps.peek().is_some(), "{block}");
        for step in steps {
            let (line, expected) = step.split_once('\n').unwrap();
            if let Some(line) = line.strip_prefix("windlass ") {
                assert_eq!(done(&root, line), expected, "windlass {line}");
            }
        }
        // What the page quotes is in the files at one time or another.
        let files = tree(&root);
        code.retain(|block| !files.values().flatten().any(|text| text.contains(*block)));
    }
    assert!(code.is_empty(), "no file has {}", code[0]);
    assert_manifest_shown(&page, &root);
}
