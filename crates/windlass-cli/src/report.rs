//! What `install`, `deploy` and the commands that undo them report: lines for people, or one JSON
//! object. `manifests` takes the same flag.

use std::fmt;

use clap::{Args, ValueEnum};
use serde::Serialize;

/// How to report what was done.
#[derive(Args, Clone, Copy, Debug)]
pub struct ReportArgs {
    /// How to report what was done.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each object.
    Text,
    /// One JSON object at the end.
    Json,
}

/// One thing to report.
#[derive(Clone, Copy, Debug)]
pub enum Line<'a> {
    /// What happened to an object.
    Done { object: &'a str, action: &'a str },
    /// Anything else, for people.
    Note(&'a str),
}

/// Collects what is reported.
pub struct Report {
    format: Format,
    document: Document,
}

#[derive(Serialize)]
struct Document {
    cluster: String,
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    object: String,
    action: String,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { object, action } => write!(f, "{object} {action}"),
            Self::Note(text) => f.write_str(text),
        }
    }
}

// === impl ReportArgs ===

impl ReportArgs {
    /// Returns `true` if the report is JSON.
    pub fn json(self) -> bool {
        self.output == Format::Json
    }
}

// === impl Report ===

impl Report {
    /// Begins a report, and names the cluster on standard error.
    pub fn new(args: ReportArgs, cluster: &str) -> Self {
        note!("cluster: {cluster}");
        let document = Document { cluster: cluster.to_owned(), changes: Vec::new() };
        Self { format: args.output, document }
    }

    /// Takes a line.
    pub fn take(&mut self, line: Line<'_>) {
        match (self.format, line) {
            (Format::Text, line) => say!("{line}"),
            (Format::Json, Line::Note(text)) => note!("{text}"),
            (Format::Json, Line::Done { object, action }) => {
                let change = Change { object: object.to_owned(), action: action.to_owned() };
                self.document.changes.push(change);
            }
        }
    }

    /// Ends the report, also after a failure.
    pub fn finish(self) {
        if self.format == Format::Json {
            say!("{}", serde_json::to_string(&self.document).expect("plain texts are JSON"));
        }
    }
}
