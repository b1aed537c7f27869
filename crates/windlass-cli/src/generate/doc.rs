//! Descriptions as doc comments.

/// Returns the lines of a comment, and whether the comment says exactly what the description says.
///
/// Nothing in a comment becomes a test or changes how the code is shown: blocks of code are text,
/// and characters that cannot be seen are left out.
pub fn comment(description: &str) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    let mut fence = None;
    for line in description.split('\n') {
        let line: String = line.chars().filter(|letter| is_visible(*letter)).collect();
        let line = line.trim_end();
        let text = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => {
                fence = Some(mark);
                lines.push(format!("{mark}text"));
            }
            (Some(open), Some(mark)) if open == mark => {
                fence = None;
                lines.push(mark.to_owned());
            }
            (Some(_), _) => lines.push(line.to_owned()),
            (None, None) => {
                let indent = line.len() - text.len();
                lines.push(format!("{}{text}", " ".repeat(indent.min(3))));
            }
        }
    }
    if let Some(open) = fence {
        lines.push(open.to_owned());
    }
    while lines.first().is_some_and(|line| line.trim().is_empty()) {
        lines.remove(0);
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let exact = read_back(&lines) == description;
    (lines, exact)
}

/// Characters that are shown, and that do not change the direction of text.
fn is_visible(letter: char) -> bool {
    let direction = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (letter == '\t' || !letter.is_control()) && !direction
}

/// The description that the attribute `k8s` makes of a comment.
fn read_back(lines: &[String]) -> String {
    let before = lines.iter().take_while(|line| *line != "---");
    let kept: Vec<&str> =
        before.map(String::as_str).filter(|line| !line.starts_with("TODO")).collect();
    kept.join("\n").trim().to_owned()
}
