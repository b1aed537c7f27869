//! Objects as `kubectl get` prints them, for tests of what people see.

use http::header::ACCEPT;
use serde::Deserialize;
use serde_json::Value;

use crate::Cluster;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// The space between two columns.
const GAP: usize = 3;
/// The least width of a column, with its gap.
const WIDTH_MIN: usize = 6;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

// === impl Cluster ===

impl Cluster {
    /// Returns a list, or one object, as `kubectl get` prints it.
    ///
    /// The path is that of the API, without a query.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let cluster = windlass_cluster::Cluster::start().await;
    /// let table = cluster.table("/api/v1/nodes").await.unwrap();
    /// assert!(table.starts_with("NAME     STATUS   ROLES"), "{table}");
    /// cluster.stop().await;
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses the request.
    pub async fn table(&self, path: &str) -> windlass::Result<String> {
        let request = http::Request::get(path).header(ACCEPT, TABLE).body(Vec::new());
        let request = request.map_err(windlass::Error::other)?;
        let table = self.client().request(request).await.map_err(windlass::Error::other)?;
        Ok(render(&table))
    }
}

/// Returns the text of a table: what `kubectl` shows without `-o wide`.
fn render(table: &Table) -> String {
    let shown: Vec<usize> = (0..table.column_definitions.len())
        .filter(|column| table.column_definitions[*column].priority == 0)
        .collect();
    let header = shown.iter().map(|column| table.column_definitions[*column].name.to_uppercase());
    let mut lines = vec![header.collect::<Vec<_>>()];
    for row in &table.rows {
        let cells = shown.iter().map(|column| row.cells.get(*column).map(text).unwrap_or_default());
        lines.push(cells.collect());
    }
    let width = |column: usize| {
        let longest = lines.iter().map(|line| line[column].chars().count()).max();
        (longest.unwrap_or_default() + GAP).max(WIDTH_MIN)
    };
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let mut printed = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        printed.push_str(cells.collect::<String>().trim_end());
        printed.push('\n');
    }
    printed
}

/// Returns a cell as it is printed.
fn text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell_and_wide_ones_are_hidden() {
        let table = serde_json::from_value(json!({
            "columnDefinitions": [
                {"name": "Name"},
                {"name": "Up", "priority": 0},
                {"name": "Image", "priority": 1},
                {"name": "Size"},
            ],
            "rows": [{"cells": ["a-long-name", 1, "nginx", null]}, {"cells": ["b", 12, "nginx", 3]}],
        }));
        let expected = "NAME          UP    SIZE\na-long-name   1\nb             12    3\n";
        assert_eq!(render(&table.expect("is a table")), expected);
    }
}
