//! Options of writes, from the query: dry run, field manager, field validation, force.

use serde_json::{Value, json};

use super::Call;
use crate::status::{FieldError, FieldErrorKind, FieldErrors, Result, Status, quote};

const MANAGER_BYTES_MAX: usize = 128;

/// Whether a write is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    /// It is stored.
    No,
    /// Everything but storing.
    All,
}

/// What happens to unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped with a warning.
    Warn,
    /// They are an error.
    Strict,
}

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    /// Whether to store.
    pub dry_run: DryRun,
    /// What to do with unknown fields.
    pub validation: FieldValidation,
    /// Who owns the fields that are written.
    pub manager: String,
    /// Whether the manager was named by the client.
    pub manager_given: bool,
    /// Whether apply takes fields from others.
    pub force: bool,
}

impl Call {
    /// Returns the options of a write; `kind` is `CreateOptions`, `UpdateOptions` or
    /// `PatchOptions`.
    pub fn write_options(&self, kind: &str, apply: bool) -> Result<WriteOptions> {
        let query = &self.query;
        let mut errors = FieldErrors::default();
        let manager = query.get("fieldManager").unwrap_or_default();
        if kind == "PatchOptions" {
            if !apply && query.get("force").is_some() {
                let detail = "may not be specified for non-apply patch";
                errors.push(FieldError::forbidden("force", detail));
            }
            if apply && manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
        }
        check_manager(manager, &mut errors);
        let dry_run = check_dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", &json!(other), &known));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", &errors));
        }
        Ok(WriteOptions {
            dry_run,
            validation,
            manager: if manager.is_empty() { self.default_manager() } else { manager.into() },
            manager_given: !manager.is_empty(),
            force: query.flag("force"),
        })
    }

    /// Returns the field manager of a client that names none: its user agent up to the first slash.
    pub fn default_manager(&self) -> String {
        let agent = self.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
        let name = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let mut name: String = name.chars().filter(|c| is_print(*c)).collect();
        while name.len() > MANAGER_BYTES_MAX {
            name.pop();
        }
        name
    }

    /// Returns the options as a webhook sees them.
    pub fn options_object(&self, kind: &str, options: &WriteOptions) -> Value {
        let mut out = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run == DryRun::All {
            out["dryRun"] = json!(["All"]);
        }
        if options.manager_given {
            out["fieldManager"] = options.manager.clone().into();
        }
        if let Some(validation) = self.query.get("fieldValidation").filter(|v| !v.is_empty()) {
            out["fieldValidation"] = validation.into();
        }
        out
    }
}

/// Go's `unicode.IsPrint`, as far as possible without tables.
fn is_print(c: char) -> bool {
    let format = matches!(u32::from(c), 0xAD | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0xFEFF | 0xE000..=0xF8FF | 0xFFF9..=0xFFFB);
    c == ' ' || !(c.is_control() || c.is_whitespace() || format)
}

fn check_manager(manager: &str, errors: &mut FieldErrors) {
    if manager.len() > MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    for (index, c) in manager.chars().enumerate() {
        if !is_print(c) {
            let detail = format!("invalid character U+{:04X} (at position {index})", u32::from(c));
            errors.push(FieldError::invalid_str("fieldManager", manager, detail));
        }
    }
}

/// Reads `dryRun` values; anything but `All` is an error.
pub(crate) fn check_dry_run(values: &[String], errors: &mut FieldErrors) -> DryRun {
    if values.is_empty() {
        return DryRun::No;
    }
    if values.iter().any(|v| v != "All") {
        let shown: Vec<_> = values.iter().map(|v| quote(v)).collect();
        errors.push(FieldError::raw(
            FieldErrorKind::NotSupported,
            "dryRun",
            format!("[{}]", shown.join(",")),
            "supported values: \"All\"",
        ));
    }
    DryRun::All
}
