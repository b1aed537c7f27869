//! The results: as a table, on the page, and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::peers::versions::said;

/// The page, and what surrounds the table on it.
const PAGE: &str = "docs/build-times.md";
const BEGIN: &str = "<!-- cargo xtask build-times writes from here -->\n";
const END: &str = "<!-- to here -->\n";

/// One way to build one operator, in seconds: with attributes, and with derives.
pub struct Row {
    pub operator: String,
    pub build: &'static str,
    pub times: [Vec<f64>; 2],
}

/// Prints the rows, and writes them to the page and to `bench/results`.
pub fn write(root: &Path, rows: &[Row], (cold, warm): (usize, usize)) -> Result<(), String> {
    let date = said("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let table = table(rows);
    println!("{table}");
    let text = format!(
        "Measured on {date} on {cores} cores; the median of {cold} builds from nothing and of {warm} \
         after a change:\n\n{table}"
    );
    let page = root.join(PAGE);
    let old = fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    put(&page, &replaced(&old, &text)?)?;
    let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
    let record = json!({
        "about": { "date": date, "cores": cores, "rustc": said("rustc", &["--version"]) },
        "rows": rows,
    });
    let file = root.join("bench/results/build-times.json");
    put(&file, &format!("{record:#}\n"))
}

fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| operator | build | attributes | derives of kube | ratio |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let [attributes, derives] = row.medians();
        let (operator, build, ratio) = (&row.operator, row.build, row.ratio());
        let _ = writeln!(
            table,
            "| {operator} | {build} | {attributes:.1} s | {derives:.1} s | {ratio:.2} |"
        );
    }
    table
}

/// The page with another text between the two marks.
fn replaced(page: &str, text: &str) -> Result<String, String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}{text}{END}{after}"))
    });
    parts.ok_or_else(|| format!("{PAGE} lacks the marks around the table"))
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

// === impl Row ===

impl Row {
    pub fn name(&self) -> String {
        format!("{} {}", self.operator, self.build)
    }

    fn medians(&self) -> [f64; 2] {
        [median(&self.times[0]), median(&self.times[1])]
    }

    /// Returns how many times longer the build with attributes takes.
    pub fn ratio(&self) -> f64 {
        let [attributes, derives] = self.medians();
        attributes / derives
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "operator": self.operator, "build": self.build, "ratio": self.ratio(),
            "attributes_s": self.times[0], "derives_s": self.times[1],
        })
    }
}

/// The middle of some times; of an even number the mean of the two in the middle.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (Some(upper), 0) => f64::midpoint(sorted[middle - 1], *upper),
        (Some(time), _) => *time,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_on_the_page_is_replaced() {
        let row = Row {
            operator: "Memcached".into(),
            build: "from nothing",
            times: [vec![2.0, 1.0], vec![1.0, 3.0, 2.0]],
        };
        let table = table(&[row]);
        assert!(
            table.ends_with("| Memcached | from nothing | 1.5 s | 2.0 s | 0.75 |\n"),
            "{table}"
        );
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!("before\n{BEGIN}new\n{END}after\n");
        assert_eq!(replaced(&page, "new\n"), Ok(expected));
        assert!(replaced("no marks", "").is_err());
    }

    #[test]
    fn the_page_has_the_marks() {
        let page = crate::peers::root().join(PAGE);
        assert!(replaced(&fs::read_to_string(page).unwrap(), "").is_ok());
    }
}
