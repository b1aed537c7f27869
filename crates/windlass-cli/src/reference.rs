//! The page with all commands is made from what `--help` says, and the commands that the
//! documentation shows are ones that the command line takes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _};

use crate::Cli;

/// What is not on a command's own `--help`.
const HEAD: &str = "# Commands

This page is what `windlass COMMAND --help` says. All commands take `--help`, and `--log FILTER` for more messages on standard error.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | it failed; the last line on standard error says why |
| 2 | the command line is wrong, or needs a cluster or a confirmation; nothing was done |
| 127 | a program that it needs, such as cargo, cannot be started |

Some commands add to that: `run` and `envtest` end with the status of the program that they run, `explore` with that of `cargo test`, `doctor`
and `manifests --check` with 1 if something is not as it should be. `crd diff` and `plan` have [statuses](plan.md) for scripts: of `crd diff`, 1 says that
a change is breaking, and 2 that something cannot be read; of `plan`, 1 is any failure, and 2 says that something would be lost.

With `--output json`, a command prints JSON on standard output and nothing else there; errors, questions and progress go to standard error.
The exit statuses are the same.

| command | JSON |
|---|---|
| `init`, `create`, `delete`, `rename` | `dryRun`, `changes` with `action` and `path`, `notes`, `next` |
| `manifests` | `check`, `changes` with `action`, `path` and `diff`; with `--check`, the action is what would be done |
| `install`, `uninstall`, `deploy`, `undeploy` | `cluster`, `changes` with `object` and `action` |
| `plan` | `changes` with `resource`, `namespace`, `name`, `change`, `before` and `after`; `restarts` with `pod` and `of`; `destructive` |
| `crd diff` | `breaking`, `changes` with `definition`, `version`, `path`, `rule`, `effect` and `message`; `objects` with `object`, `apiVersion` and `message` |
| `doctor` | a list with `check`, `status` (`ok`, `warn` or `fail`), `text` and `hint` |
| `version` | `windlass`, `kubernetes` |
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page.
fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut page = HEAD.to_owned();
    describe(&mut command, &mut page);
    page
}

/// Adds the commands below a command.
fn describe(command: &mut Command, page: &mut String) {
    for inner in command.get_subcommands_mut() {
        if inner.get_name() == "help" || inner.is_hide_set() {
            continue;
        }
        if inner.has_subcommands() {
            describe(inner, page);
            continue;
        }
        let usage = inner.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        let about = inner.get_long_about().or_else(|| inner.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let name = inner.get_bin_name().unwrap_or_default().to_owned();
        let _ = write!(page, "\n## {name}\n\n{}\n\n```text\n{usage}\n```\n", escaped(&about));
        let arguments: Vec<String> = inner.get_arguments().filter_map(row).collect();
        if !arguments.is_empty() {
            let _ = write!(page, "\n| argument | |\n|---|---|\n{}", arguments.concat());
        }
    }
}

/// The line of an argument in the table.
fn row(argument: &Arg) -> Option<String> {
    let name = argument.get_id().as_str();
    if ["help", "version", "log"].contains(&name) || argument.is_hide_set() {
        return None;
    }
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let values: Vec<String> = values.filter(|_| takes_value).collect();
    let flags = [
        argument.get_short().map(|c| format!("-{c}")),
        argument.get_long().map(|l| format!("--{l}")),
    ];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    let shown = [flags.join(", "), values.join(" ")].join(" ");
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut help = escaped(&help).replace('\n', " ");
    let possible = argument.get_possible_values();
    if takes_value && !possible.is_empty() {
        let names: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
        let _ = write!(help, " ({})", names.join(", "));
    }
    let default = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let default: Vec<_> = default.filter(|_| takes_value).collect();
    if !default.is_empty() {
        let _ = write!(help, " [default: {}]", default.join(" "));
    }
    Some(format!("| `{}` | {help} |\n", shown.trim().replace('|', "\\|")))
}

/// A text in which Markdown sees no table and no HTML.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn the_page_of_commands_is_what_they_say_themselves() {
    let file = root().join("docs/commands.md");
    let page = page();
    if std::env::var_os("WINDLASS_WRITE").is_some() {
        std::fs::write(&file, &page).expect("is written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(new, old)| new != old);
    assert!(
        page == written,
        "docs/commands.md differs: write it with WINDLASS_WRITE=1; {differs:?}"
    );
}

/// The pages of the documentation.
fn pages() -> Vec<(String, String)> {
    let root = root();
    let names = |directory: &str| {
        let entries = std::fs::read_dir(root.join(directory)).expect("is a directory");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let docs: Vec<String> = names("docs");
    let examples: Vec<String> = names("examples");
    let mut files: Vec<String> = docs
        .iter()
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .chain(examples.iter().map(|name| format!("examples/{name}/README.md")))
        .chain(["README.md".to_owned()])
        .filter(|path| root.join(path).is_file())
        .collect();
    files.sort();
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path)).expect("can be read");
        (path, text)
    };
    files.into_iter().map(read).collect()
}

/// The commands `windlass …` of a page: of its shells, its transcripts, and its indented lines.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut language = None;
    for line in text.replace("\\\n", " ").lines() {
        if let Some(fence) = line.strip_prefix("```") {
            language = match language {
                None => Some(fence.to_owned()),
                Some(_) => None,
            };
            continue;
        }
        let command = match language.as_deref() {
            Some("sh") => line,
            Some("console") => line.strip_prefix("$ ").unwrap_or_default(),
            None => line.strip_prefix("    ").unwrap_or_default(),
            Some(_) => "",
        };
        let start = ["windlass ", "cargo run -p windlass-cli -- "];
        for part in command.split(" && ") {
            let Some(rest) = start.iter().find_map(|start| part.trim().strip_prefix(start)) else {
                continue;
            };
            let words = rest.split_whitespace();
            let ends =
                |word: &&str| !["|", ">", "&", "<", ";"].contains(word) && !word.starts_with('#');
            all.push(
                words
                    .take_while(ends)
                    .map(|word| word.trim_matches(['\'', '"']).to_owned())
                    .collect(),
            );
        }
    }
    all
}

#[test]
fn every_command_that_the_documentation_shows_is_one() {
    let mut count = 0;
    for (page, text) in pages() {
        for words in commands(&text) {
            count += 1;
            let line = words.join(" ");
            let parsed = Cli::try_parse_from(["windlass".to_owned()].into_iter().chain(words));
            if let Err(error) = parsed {
                let answers = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
                assert!(answers.contains(&error.kind()), "{page}: windlass {line}\n{error}");
            }
        }
    }
    assert!(count > 30, "{count} commands were found");
}

#[test]
fn commands_are_found_where_people_read_them() {
    let text = "```sh\nmkdir a && windlass init \\\n  --domain b # c\n```\n\n    windlass dev | cat\n\n\
                ```console\n$ windlass run\nwindlass no\n```\n```text\nwindlass no\n```\n";
    let found = commands(text);
    assert_eq!(found, [vec!["init", "--domain", "b"], vec!["dev"], vec!["run"]]);
}
