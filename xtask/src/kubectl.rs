//! `cargo xtask kubectl`: the steps of the Memcached tutorial with a real kubectl.
//!
//! The operator of `examples/memcached` runs on `windlass cluster`. What kubectl prints is compared
//! with the blocks of the chapter, apart from ages and the ends of the names of pods; the commands are
//! those of the chapter.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::peers::cluster::Cluster;
use crate::peers::go::done;
use crate::peers::kubectl::Kubectl;
use crate::peers::process::Process;
use crate::peers::{real, root, target, until};

const SAMPLE: &str = "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata:\n  \
                      name: sample\nspec:\n  size: 3\n";

/// Takes the steps.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let root = root();
    let program = real::kubectl(&root)?;
    match arguments {
        [] => {
            let mut build = Command::new("cargo");
            build.args(["build", "-p", "windlass-cli", "-p", "memcached-operator", "--bins"]);
            build.current_dir(&root);
            done(build, "building windlass and the operator")?;
        }
        ["--no-build"] => {}
        _ => return Err("kubectl takes --no-build and nothing else".into()),
    }
    let debug = target(&root).join("debug");
    let chapter = root.join("examples/memcached/README.md");
    let chapter = std::fs::read_to_string(&chapter)
        .map_err(|error| format!("{}: {error}", chapter.display()))?;
    let cluster = Cluster::embedded(&debug)?;
    let kubectl = Kubectl::new(program, cluster.kubeconfig.clone());
    Tutorial { kubectl, chapter }.follow(&debug.join("memcached-operator"))
}

struct Tutorial {
    kubectl: Kubectl,
    chapter: String,
}

// === impl Tutorial ===

impl Tutorial {
    fn follow(&self, operator: &Path) -> Result<(), String> {
        let definition = Command::new(operator).arg("crd").output();
        let definition = definition.map_err(|error| format!("{}: {error}", operator.display()))?;
        let definition = String::from_utf8_lossy(&definition.stdout).into_owned();
        self.apply(
            &definition,
            "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created",
        )?;
        let mut command = Command::new(operator);
        command.arg("--kubeconfig").arg(self.kubectl.kubeconfig());
        command.args(["--health-probe-bind-address", "0"]).stderr(Stdio::null());
        let operator = Process::spawn(command)?;
        let outcome = self.steps();
        operator.end();
        outcome
    }

    fn steps(&self) -> Result<(), String> {
        let shown = self.blocks("console");
        expect(shown.len() == 3, &format!("the chapter has {} transcripts, not 3", shown.len()))?;
        for (block, size) in shown.into_iter().zip([3, 3, 5]) {
            self.transcript(block)?;
            self.nodes_are_the_pods(size)?;
        }
        let error = self.kubectl.refused(&["apply", "-f", "-"], &SAMPLE.replace('3', "9"))?;
        let texts = self.blocks("text");
        // kubectl shows the kind in words of its own, and the rest as the API server says it.
        let text = texts.first().and_then(|text| text.split_once("is invalid: "));
        let (_, text) = text.ok_or("the chapter shows no object that is invalid")?;
        expect(error.contains(text.trim()), &error)?;
        println!("ok      kubectl apply of size 9: {}", text.trim());
        Ok(())
    }

    /// Applies a manifest; the last line that kubectl prints is known.
    fn apply(&self, manifest: &str, expected: &str) -> Result<(), String> {
        let said = self.kubectl.with_input(&["apply", "-f", "-"], manifest)?;
        expect(said.trim_end().ends_with(expected), &said)
    }

    /// Runs the commands of a transcript; those that only read, until they print what it shows.
    fn transcript(&self, block: &str) -> Result<(), String> {
        for step in block.split("$ kubectl ").skip(1) {
            let (line, expected) = step.split_once('\n').unwrap_or((step, ""));
            let words: Vec<&str> = line.split(' ').collect();
            match &words[..] {
                ["apply", "-f", _] => self.apply(SAMPLE, expected.trim_end())?,
                ["edit", ..] => {
                    let said = self.kubectl.with_editor(&words, "sed -i 's/size: 3/size: 5/'")?;
                    expect(said.trim_end() == expected.trim_end(), &said)?;
                }
                ["delete", "pod", shown] => self.delete_pod(shown, expected)?,
                _ => until(|| {
                    let printed = self.kubectl.run(&words)?;
                    expect(mask(&printed) == mask(expected), &format!("{line} printed\n{printed}"))
                })?,
            }
            println!("ok      kubectl {line}");
        }
        Ok(())
    }

    /// Deletes a pod in the place of one whose name the chapter shows.
    fn delete_pod(&self, shown: &str, expected: &str) -> Result<(), String> {
        let pods = self.pods()?;
        let gone = pods.first().ok_or("there is no pod to delete")?;
        let said = self.kubectl.run(&["delete", "pod", gone])?;
        let expected = expected.trim_end().replace(shown, gone);
        // Newer versions add the namespace.
        expect(said.starts_with(&expected), &said)?;
        until(|| expect(!self.pods()?.contains(gone), "the deleted pod is still there"))
    }

    /// Waits until `status.nodes` in the YAML of the object lists the pods.
    fn nodes_are_the_pods(&self, count: usize) -> Result<(), String> {
        until(|| {
            let yaml = self.kubectl.run(&["get", "memcached", "sample", "-o", "yaml"])?;
            let nodes = yaml.split("\n  nodes:\n").nth(1).unwrap_or_default();
            let nodes = nodes.lines().map_while(|line| line.strip_prefix("  - "));
            let (nodes, pods) = (nodes.map(str::to_owned).collect::<Vec<_>>(), self.pods()?);
            expect(nodes == pods && pods.len() == count, &format!("{pods:?} and\n{yaml}"))
        })?;
        println!("ok      kubectl get memcached sample -o yaml: {count} nodes");
        Ok(())
    }

    fn pods(&self) -> Result<Vec<String>, String> {
        let printed = self.kubectl.run(&["get", "pods", "--no-headers"])?;
        let alive = printed.lines().filter(|line| line.contains("Running"));
        Ok(alive.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect())
    }

    /// The blocks of the chapter in a language.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let start = format!("\n```{language}\n");
        let blocks = self.chapter.split(&start).skip(1);
        blocks.filter_map(|rest| rest.split("```").next()).collect()
    }
}

/// A table without what differs from run to run: the last column, which is the age, the ends of the
/// names of pods, and the width of columns.
fn mask(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if !line.starts_with("NAME") {
            words.pop();
            if let [pod, _, _] = &words[0].split('-').collect::<Vec<_>>()[..] {
                words[0] = format!("{pod}-#-#");
            }
        }
        words.join(" ")
    });
    rows.collect()
}

fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_widths_and_the_names_of_pods_may_differ() {
        let one = "NAME   READY   AGE\nsample-94fffcb66-7mtnb   1/1   10s\n";
        let two = "NAME     READY   AGE\nsample-5fff85889b-hrplc   1/1     3m\n";
        assert_eq!(mask(one), mask(two));
        assert_ne!(mask(one), mask(&two.replace("1/1", "0/1")));
    }
}
