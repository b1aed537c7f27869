//! `cargo xtask alone`: every crate builds by itself, and not only within the workspace.
//!
//! If all crates are built together, a dependency is built once, with the features of all of them.
//! A crate may then use a feature that it does not declare, and fails as soon as somebody builds it
//! alone. Building each crate alone would find that, and costs minutes: most dependencies are built
//! again for each set of features. So the sets are compared instead, which costs seconds.
//!
//! For each crate and each of its direct dependencies, the features with which `cargo tree` would
//! build the dependency for that crate alone are compared with those of the workspace. If both are
//! equal, the crate sees the same API, and the build of the workspace proves that it builds alone.
//! A feature that only others enable is an error, unless [`LENT`] lists it; then the source of the
//! crate must contain nothing that needs it.
//!
//! The version of Kubernetes is such a feature of `k8s-openapi`, which does not compile without one. A
//! library leaves it to its users; built alone, it takes the version that `.cargo/config.toml` sets,
//! which has to be the one of the workspace.
//!
//! Not covered: features of the crates themselves (`./test` builds windlass without any), and tests,
//! which may use what dev-dependencies enable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// A feature that crates may see without declaring it.
struct Lent {
    dependency: &'static str,
    feature: &'static str,
    /// What the source of such a crate must not contain; empty for a feature without an API.
    needs: &'static [&'static str],
}

/// The features that others may lend.
const LENT: [Lent; 21] = [
    // Libraries do not choose a version of Kubernetes; binaries and tests do, and for a library that
    // is built alone `.cargo/config.toml` does, which is checked.
    Lent { dependency: "k8s-openapi", feature: "v1_36", needs: &[] },
    Lent {
        dependency: "kube",
        feature: "derive",
        needs: &["kube::CustomResource,", "kube_derive"],
    },
    Lent { dependency: "kube", feature: "kube-derive", needs: &["kube_derive"] },
    // The crypto provider is chosen by binaries, and by the features `ring` and `aws-lc-rs` of windlass.
    Lent { dependency: "kube", feature: "ring", needs: &[] },
    Lent { dependency: "tokio", feature: "process", needs: &["tokio::process"] },
    Lent {
        dependency: "tokio",
        feature: "test-util",
        needs: &["time::pause(", "time::advance(", "time::resume(", "start_paused"],
    },
    Lent { dependency: "serde", feature: "alloc", needs: &[] },
    Lent { dependency: "serde_json", feature: "alloc", needs: &[] },
    Lent { dependency: "serde_json", feature: "raw_value", needs: &["RawValue"] },
    Lent { dependency: "syn", feature: "visit-mut", needs: &["visit_mut"] },
    Lent {
        dependency: "proc-macro2",
        feature: "span-locations",
        needs: &["byte_range(", "LineColumn"],
    },
    Lent { dependency: "rustix", feature: "time", needs: &["rustix::time"] },
    Lent { dependency: "rustix", feature: "fs", needs: &["rustix::fs"] },
    Lent { dependency: "rustix", feature: "process", needs: &["rustix::process"] },
    Lent { dependency: "hyper-util", feature: "client", needs: &["hyper_util::client"] },
    // Of another version of rand, which OpenTelemetry uses.
    Lent { dependency: "rand", feature: "os_rng", needs: &["OsRng"] },
    Lent { dependency: "rand", feature: "small_rng", needs: &["SmallRng"] },
    Lent { dependency: "opentelemetry", feature: "logs", needs: &["opentelemetry::logs"] },
    Lent { dependency: "opentelemetry", feature: "metrics", needs: &["opentelemetry::metrics"] },
    Lent { dependency: "opentelemetry", feature: "testing", needs: &["opentelemetry::testing"] },
    Lent { dependency: "tracing", feature: "log", needs: &[] },
];

/// Sets the version of Kubernetes for libraries that are built alone.
const CONFIG: &str = ".cargo/config.toml";

/// The features of each package.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Checks every crate of the workspace, and lists everything that is wrong.
pub fn run() -> Result<(), String> {
    let root = crate::peers::root();
    let together = tree(&root, &["--workspace", "-e", "normal,build,dev"])?;
    let metadata = cargo(&root, &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let config = fs::read_to_string(root.join(CONFIG)).map_err(|e| format!("{CONFIG}: {e}"))?;
    let mut found = Vec::from_iter(other_version(&config, &together));
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let alone = tree(&root, &["-p", name, "-e", "normal,build"])?;
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let source = source(&manifest.with_file_name("src"))?;
        for (dependency, feature) in lent(&direct(package), &alone, &together) {
            found.extend(wrong(name, &dependency, &feature, &source));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("some crates do not build alone:\n  {}", found.join("\n  "))),
    }
}

/// Returns what is wrong if the configuration does not set the version of Kubernetes that the
/// workspace is built with.
fn other_version(config: &str, together: &Features) -> Option<String> {
    let mut lines =
        config.lines().filter_map(|line| line.strip_prefix("K8S_OPENAPI_ENABLED_VERSION = "));
    let version = lines.next().map(|version| version.trim_matches('"')).unwrap_or_default();
    let feature = format!("v{}", version.replace('.', "_"));
    let enabled = together.get("k8s-openapi").into_iter().flatten();
    let versions: Vec<&str> =
        enabled.filter(|name| name.starts_with("v1_")).map(String::as_str).collect();
    (versions != [feature.as_str()]).then(|| {
        format!(
            "K8S_OPENAPI_ENABLED_VERSION of {CONFIG} is {version:?}, and the workspace builds \
             k8s-openapi with {}: set the same version",
            versions.join(" and ")
        )
    })
}

/// Returns the direct dependencies of a package, without those of its tests.
fn direct(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    let normal = all.filter(|dependency| dependency["kind"].is_null());
    normal.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect()
}

/// Returns the features of direct dependencies that only others enable.
fn lent(direct: &BTreeSet<String>, alone: &Features, together: &Features) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for dependency in direct {
        // A dependency that is not there alone belongs to a feature that is off.
        let (Some(own), Some(all)) = (alone.get(dependency), together.get(dependency)) else {
            continue;
        };
        found.extend(all.difference(own).map(|feature| (dependency.clone(), feature.clone())));
    }
    found
}

/// Returns what is wrong with a crate that sees a feature without declaring it.
fn wrong(name: &str, dependency: &str, feature: &str, source: &str) -> Option<String> {
    let known = LENT.iter().find(|known| {
        let part_of = feature.strip_prefix(known.feature);
        known.dependency == dependency
            && part_of.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    match known {
        None => Some(format!(
            "{name} sees feature {feature} of {dependency} only because another crate enables it: \
             declare it in the manifest of {name}, or list it in xtask/src/alone.rs with what \
             needs it"
        )),
        Some(known) => {
            let used = known.needs.iter().find(|needed| source.contains(**needed))?;
            Some(format!(
                "{name} uses `{used}`, which needs feature {feature} of {dependency}: declare it"
            ))
        }
    }
}

/// Returns the code below a folder, without comments, tests, and the table of this file.
fn source(folder: &Path) -> Result<String, String> {
    let mut text = String::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let shown = path.display();
            let entries = fs::read_dir(&path).map_err(|error| format!("{shown}: {error}"))?;
            waiting.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !is_test(&path)
            && !path.ends_with(file!())
        {
            let shown = path.display();
            let file = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
            text.push_str(&code(&file));
        }
    }
    Ok(text)
}

/// Returns `true` for files that hold nothing but tests.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| ["tests", "tests.rs"].iter().any(|test| part.as_os_str() == *test))
}

/// Removes comments, and the tests at the end of a file.
fn code(file: &str) -> String {
    let tests = ["#[cfg(test)]\nmod tests {", "#[cfg(all(test, unix))]\nmod tests {"];
    let end = tests.iter().find_map(|start| file.find(start)).unwrap_or(file.len());
    // Comments, and lines of a text that a program writes, need nothing.
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.ends_with("\\n\\");
    let lines = file[..end].lines().filter(is_code);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the features of all packages in a tree of dependencies.
fn tree(root: &Path, selection: &[&str]) -> Result<Features, String> {
    let fixed = ["tree", "--prefix", "none", "-f", "{p}|{f}"];
    let text = cargo(root, &[&fixed, selection].concat())?;
    let mut found = Features::new();
    for line in text.lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        let name = package.split(' ').next().unwrap_or_default();
        let features = features.split(',').filter(|feature| !feature.is_empty());
        found.entry(name.to_owned()).or_default().extend(features.map(str::to_owned));
    }
    Ok(found)
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let shown = arguments.join(" ");
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo {shown}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo {shown}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(of: &[(&str, &[&str])]) -> Features {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        of.iter().map(|(name, names)| ((*name).to_owned(), set(names))).collect()
    }

    #[test]
    fn a_feature_that_only_another_crate_enables_is_found() {
        let alone = features(&[("k8s-openapi", &["v1_36"]), ("kube", &["client"])]);
        let together = features(&[
            ("k8s-openapi", &["schemars", "v1_36"]),
            ("kube", &["client"]),
            ("x", &["y"]),
        ]);
        let direct = ["k8s-openapi", "kube", "x"].map(str::to_owned).into();
        let found = lent(&direct, &alone, &together);
        assert_eq!(found, [("k8s-openapi".to_owned(), "schemars".to_owned())]);
        let text = wrong("shop", "k8s-openapi", "schemars", "").expect("is not listed");
        assert!(
            text.starts_with("shop sees feature schemars of k8s-openapi only because"),
            "{text}"
        );
    }

    #[test]
    fn a_listed_feature_may_be_lent_to_a_crate_that_does_not_use_it() {
        assert_eq!(wrong("shop", "tokio", "process", "tokio::time::sleep(second)"), None);
        let text = wrong("shop", "tokio", "process", "tokio::process::Command").expect("uses it");
        assert_eq!(
            text,
            "shop uses `tokio::process`, which needs feature process of tokio: declare it"
        );
    }

    #[test]
    fn libraries_that_are_built_alone_get_the_version_of_the_workspace() {
        let together = features(&[("k8s-openapi", &["schemars", "v1_36"])]);
        let config =
            |version: &str| format!("[env]\nK8S_OPENAPI_ENABLED_VERSION = \"{version}\"\n");
        assert_eq!(other_version(&config("1.36"), &together), None);
        for wrong in [config("1.35"), "[env]\n".to_owned()] {
            let text = other_version(&wrong, &together).expect("another version");
            assert!(text.contains("builds k8s-openapi with v1_36"), "{text}");
        }
        let two = features(&[("k8s-openapi", &["v1_35", "v1_36"])]);
        assert!(other_version(&config("1.36"), &two).is_some());
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        let file =
            "/// tokio::process\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    tokio::process\n}\n";
        assert_eq!(code(file), "fn a() {}\n\n");
        assert_eq!(code(&file.replace("(test)", "(all(test, unix))")), "fn a() {}\n\n");
        assert!(is_test(Path::new("src/cache/tests/lists.rs")) && is_test(Path::new("a/tests.rs")));
        assert!(!is_test(Path::new("src/testing.rs")));
    }
}
