//! The two text formats scrapers read.

/// A text format of the metrics endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`, what controller-runtime serves by default.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

// === impl Format ===

impl Format {
    /// Chooses by the `Accept` header of a scraper.
    pub fn accepted(header: Option<&str>) -> Self {
        match header {
            Some(text) if text.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Turns the encoder's OpenMetrics text into `format`.
///
/// The older format names a counter family with its `_total`, and knows neither units nor an end
/// mark; the samples are the same.
pub(super) fn finish(text: String, format: Format) -> String {
    if format == Format::OpenMetrics {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if *line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let counter = match line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            Some((name, _)) => is_counter(lines.get(at + 1), name),
            None => line.starts_with("# TYPE ") && line.ends_with(" counter"),
        };
        match line.splitn(4, ' ').collect::<Vec<_>>().as_slice() {
            ["#", word, name, rest] if counter => {
                out.push_str(&format!("# {word} {name}_total {rest}\n"));
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

fn is_counter(next: Option<&&str>, name: &str) -> bool {
    next.is_some_and(|line| *line == format!("# TYPE {name} counter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_format_names_counters_with_total_and_has_no_end_mark() {
        let text = "# HELP a Things.\n# TYPE a counter\na_total 1\n# HELP b Level.\n\
                    # TYPE b gauge\nb 2\n# EOF\n";
        assert_eq!(
            finish(text.into(), Format::Prometheus),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 1\n# HELP b Level.\n\
             # TYPE b gauge\nb 2\n"
        );
    }
}
