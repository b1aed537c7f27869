//! Compares the chapter of an operator with what the embedded cluster prints, in both directions.

use std::collections::BTreeSet;

/// Panics if the chapter lacks something that was printed, or shows something that was not.
///
/// A transcript (`console`) consists of commands, each with its output; blocks of `text` and `yaml`
/// are compared as a whole. Blocks of code and indented commands are not output.
pub fn assert_shows(chapter: &str, printed: &[String]) {
    let shown: BTreeSet<&str> = outputs(chapter).into_iter().map(str::trim_end).collect();
    let printed: BTreeSet<&str> = printed.iter().map(|text| text.trim_end()).collect();
    let join = |texts: Vec<&&str>| texts.into_iter().copied().collect::<Vec<_>>().join("\n\n");
    let missing: Vec<&&str> = printed.difference(&shown).collect();
    let wrong: Vec<&&str> = shown.difference(&printed).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "the chapter lacks:\n{}\n\nthe chapter shows what nobody printed:\n{}",
        join(missing),
        join(wrong)
    );
}

/// The outputs that a chapter shows.
fn outputs(chapter: &str) -> Vec<&str> {
    let mut outputs = Vec::new();
    for rest in chapter.split("\n```").skip(1).step_by(2) {
        let (language, block) = rest.split_once('\n').unwrap_or((rest, ""));
        match language {
            "console" => {
                // Every command starts a step.
                let starts: Vec<usize> = block.match_indices("$ ").map(|(at, _)| at).collect();
                let starts =
                    starts.into_iter().filter(|at| *at == 0 || block[..*at].ends_with('\n'));
                let mut starts: Vec<usize> = starts.collect();
                assert_eq!(
                    starts.first(),
                    Some(&0),
                    "a transcript starts with a command:\n{block}"
                );
                starts.push(block.len());
                outputs.extend(starts.windows(2).map(|pair| &block[pair[0]..pair[1]]));
            }
            "text" | "yaml" => outputs.push(block),
            _ => {}
        }
    }
    outputs
}

#[test]
fn the_outputs_of_a_chapter_are_the_steps_of_its_transcripts_and_its_texts() {
    let chapter =
        "a\n```console\n$ one\n1\n$ two\n2\n```\nb\n```rust\ncode\n```\n```text\nno\n```\n";
    assert_eq!(outputs(chapter), ["$ one\n1\n", "$ two\n2", "no"]);
}
