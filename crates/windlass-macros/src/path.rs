//! Paths into objects, checked against the structs that they lead through.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, LitStr, Result, Type};

use crate::attribute;

/// What paths into an object can lead to.
pub struct Fields {
    /// The struct under `#[api(..)]`.
    pub owner: Ident,
    /// The names of its fields in JSON; empty if they are not known.
    pub names: Vec<String>,
    /// Whether they are fields of the object itself, and not of its spec.
    pub flat: bool,
    /// The type of the status.
    pub status: Option<Type>,
}

// === impl Fields ===

impl Fields {
    /// Fails for a path that cannot be read, or that names a field which the spec does not have.
    pub fn check(&self, path: &LitStr) -> Result<()> {
        let text = path.value();
        let error = |message: String| Err(Error::new(path.span(), message));
        let Some(rest) = text.strip_prefix('.') else {
            return error(format!("the path `{text}` begins with a dot: `.{text}`"));
        };
        let end = |text: &str| text.find(['.', '[']).unwrap_or(text.len());
        let first = &rest[..end(rest)];
        let mut roots = vec!["metadata", "apiVersion", "kind"];
        roots.extend(self.status.as_ref().map(|_| "status"));
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if self.flat {
            roots.extend(&names);
        } else {
            roots.push("spec");
        }
        let unknown = self.flat && names.is_empty();
        if !unknown && !roots.contains(&first) {
            let hint = match attribute::closest(first, &roots) {
                Some(close) => format!("did you mean `.{close}`?"),
                None if first == "status" => "add `status = Type`".into(),
                None if self.flat => format!("the fields of the object are {}", roots.join(", ")),
                None => "it begins with `.spec`, `.status` or `.metadata`".into(),
            };
            return error(format!("the path `{text}` leads to no field, {hint}"));
        }
        let Some(rest) = rest.strip_prefix("spec.") else { return Ok(()) };
        let name = &rest[..end(rest)];
        if self.flat || names.is_empty() || names.contains(&name) {
            return Ok(());
        }
        let hint = match attribute::closest(name, &names) {
            Some(close) => format!("did you mean `.spec.{close}`?"),
            None => format!("its fields are {}", names.join(", ")),
        };
        error(format!("the spec has no field `{name}`, {hint}"))
    }

    /// The code that does not compile if a path leads through a struct to a field that is not there.
    pub fn compiled_check(&self, root: &TokenStream, path: &LitStr) -> Option<TokenStream> {
        let text = path.value();
        let mut steps = steps(&text)?;
        let owner = &self.owner;
        let kind = match (steps.first().map(String::as_str)?, &self.status) {
            ("status", Some(status)) => {
                steps.remove(0);
                quote!(#status)
            }
            ("metadata" | "apiVersion" | "kind", _) => return None,
            _ if self.flat => quote!(#owner),
            ("spec", _) => {
                steps.remove(0);
                quote!(#owner)
            }
            _ => return None,
        };
        let panic = quote_spanned!(path.span()=> ::core::panic!("{}", message.as_str()));
        Some(quote! {
            const _: () = {
                #[allow(unused_imports)]
                use #root::fields::Open as _;
                let fields = #root::fields::Probe::<#kind>::FIELDS;
                if let ::core::option::Option::Some(message) =
                    #root::fields::check(fields, &[#(#steps),*], #path)
                {
                    #panic
                }
            };
        })
    }
}

/// The steps of a path: names of fields, and an empty one for an item of a list; [`None`] if the path has
/// parts that are left to the check of the whole definition.
fn steps(path: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..end];
            if name.contains('\\') || (name.is_empty() && !after.starts_with('[')) {
                return None;
            }
            if !name.is_empty() {
                steps.push(if name == "*" { String::new() } else { name.to_owned() });
            }
            rest = &after[end..];
        } else {
            let inside = rest.strip_prefix('[')?;
            // A filter has brackets or quotes of its own only in ways that end the check here.
            let end = inside.find(']')?;
            let index = &inside[..end];
            if index.contains('[') || (index.contains(['\'', '"']) && !index.starts_with('?')) {
                return None;
            }
            steps.push(String::new());
            rest = &inside[end + 1..];
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn paths_have_steps() {
        let found = steps(r#".status.conditions[?(@.type=="Ready")].status"#).unwrap();
        assert_eq!(found, ["status", "conditions", "", "status"]);
        assert_eq!(steps(".spec.list[*].a").unwrap(), ["spec", "list", "", "a"]);
        assert_eq!(steps(r".metadata.annotations.a\.b"), None);
        assert_eq!(steps(".spec.map['a.b']"), None);
        assert_eq!(steps(".spec[0"), None);
    }
}
