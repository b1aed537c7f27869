//! The two text formats of metrics.

#![cfg_attr(not(feature = "serve"), allow(dead_code, reason = "only servers need all of it"))]

/// A text format of the metrics endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `text/plain; version=0.0.4`, what controller-runtime serves by default.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

// === impl Format ===

impl Format {
    /// Chooses the format by the `Accept` header of a scraper.
    pub(crate) fn accepted(header: Option<&str>) -> Self {
        match header {
            Some(text) if text.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// The `Content-Type` of the response.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Converts the encoder's OpenMetrics text into `format`.
///
/// In the older format the name of a counter family ends in `_total`, and there are neither units
/// nor an end marker; the samples are the same. Bucket bounds are written as Go writes them in
/// either format, because dashboards and rules compare them as text.
pub(super) fn finish(text: String, format: Format) -> String {
    let mut out = String::with_capacity(text.len());
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some((before, bound, after)) = bucket(line) {
            out.push_str(&format!("{before}{}{after}\n", bound_text(bound, format)));
            continue;
        }
        if format == Format::OpenMetrics {
            out.push_str(line);
            out.push('\n');
            continue;
        }
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

/// Splits the line of a bucket at its bound; the encoder writes that label first.
fn bucket(line: &str) -> Option<(&str, f64, &str)> {
    let mark = r#"_bucket{le=""#;
    let start = line.find('{')? + r#"{le=""#.len();
    let before = line.get(..start).filter(|before| before.ends_with(mark))?;
    let end = start + line[start..].find('"')?;
    let bound = line[start..end].parse::<f64>().ok().filter(|bound| bound.is_finite())?;
    Some((before, bound, &line[end..]))
}

/// Formats a bound as Go does: `0.005`, `1`, `1e-08`, `1e+06`; OpenMetrics requires `1.0`.
fn bound_text(bound: f64, format: Format) -> String {
    let scientific = format!("{bound:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = bound.to_string();
    match format {
        Format::OpenMetrics if !plain.contains('.') => format!("{plain}.0"),
        _ => plain,
    }
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
    #[test]
    fn bounds_of_buckets_are_written_as_go_writes_them() {
        // What strconv.FormatFloat(bound, 'g', -1, 64) gives.
        let wanted = [
            (1e-8, "1e-08"),
            (1e-7, "1e-07"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (9.999999999999999e-5, "9.999999999999999e-05"),
            (0.0001, "0.0001"),
            (0.001, "0.001"),
            (0.25, "0.25"),
            (1.0, "1"),
            (60.0, "60"),
            (1000.0, "1000"),
            (100_000.5, "100000.5"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1.25e300, "1.25e+300"),
        ];
        for (bound, text) in wanted {
            assert_eq!(bound_text(bound, Format::Prometheus), text);
        }
        assert_eq!(bound_text(1.0, Format::OpenMetrics), "1.0");
        assert_eq!(bound_text(1e-8, Format::OpenMetrics), "1e-08");
        let text = "a_bucket{le=\"10.0\",b=\"c\"} 3\na_bucket{le=\"+Inf\"} 3\n\
                    b{le=\"1.0\"} 1.0\n";
        let wanted = text.replace("10.0", "10");
        assert_eq!(finish(text.into(), Format::Prometheus), wanted);
    }
}
