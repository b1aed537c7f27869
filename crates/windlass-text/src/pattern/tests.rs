use serde_json::Value;

use super::compile;

/// Go's answers; `cargo xtask go-patterns` writes them.
const GO: &str = include_str!("go-patterns.jsonl");

#[test]
fn patterns_are_accepted_refused_and_matched_as_by_go() {
    let mut lines = GO.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts = lines.next().unwrap()["texts"].take();
    let texts: Vec<&str> = texts.as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let (mut compared, mut differing) = (0, Vec::new());
    for line in lines {
        compared += 1;
        let pattern = line["pattern"].as_str().unwrap();
        match (compile(pattern), line["error"].as_str()) {
            (Err(ours), Some(go)) if ours == go => {}
            (Ok(regex), None) => {
                for (text, go) in texts.iter().zip(line["found"].as_array().unwrap()) {
                    let ours = regex.find(text).map(|m| vec![m.start(), m.end()]);
                    let go: Option<Vec<usize>> = serde_json::from_value(go.clone()).unwrap();
                    if ours != go {
                        differing.push(format!("{pattern:?} in {text:?}: {ours:?}, Go {go:?}"));
                    }
                }
            }
            (ours, go) => {
                let ours = ours.map(|regex| regex.as_str().to_owned());
                differing.push(format!("{pattern:?}: {ours:?}, Go {go:?}"));
            }
        }
    }
    assert!(compared > 900, "the fixture has {compared} patterns");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn nesting_and_size_have_limits() {
    let deep = format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(compile(&deep).unwrap_err().starts_with("error parsing regexp: expression nests"));
    let large = "(?:a|b){1000}".repeat(1_000);
    assert!(compile(&large).unwrap_err().contains("expression too large"));
}

proptest::proptest! {
    #[test]
    fn no_pattern_panics(pattern in "\\PC{0,24}") {
        let _ = compile(&pattern);
    }

    #[test]
    fn no_pattern_of_special_characters_panics(pattern in "[\\[\\](){}*+?|^$.:<>PQEpdxi\\\\a0-]{0,12}") {
        let _ = compile(&pattern);
    }
}
