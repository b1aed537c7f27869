//! The description of a kind, from which its definition is made.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use super::Kind;
use crate::attribute::{self, Entry};
use crate::column::column;
use crate::{argument, json, text};

// === impl Kind ===

impl Kind {
    /// Makes the description of the kind from which its definition is made.
    pub(super) fn definition(
        &self,
        structure: &syn::ItemStruct,
        root: &TokenStream,
    ) -> Result<TokenStream> {
        let (group, version, kind, spec) =
            (&self.group, &self.version, &self.kind, &structure.ident);
        let plural = self.plural()?;
        let singular = match self.find("singular") {
            Some(entry) => entry.string()?.value(),
            None => kind.value().to_lowercase(),
        };
        let namespaced = !self.is_cluster()?;
        let (short, categories) = (self.strings("short")?, self.strings("categories")?);
        self.check_names()?;
        let doc = match self.find("doc") {
            Some(entry) => entry.string()?.value(),
            None => text::doc(&structure.attrs),
        };
        let columns = self
            .all("column")
            .map(|entry| column(root, entry, &self.fields))
            .collect::<Result<Vec<_>>>()?;
        let scale = self.scale(root)?;
        let (storage, served) = (self.flag("storage", true)?, self.flag("served", true)?);
        let (deprecated, warning) = self.deprecated()?;
        let selectable = self.strings("selectable")?;
        for path in &selectable {
            self.fields.check(path)?;
        }
        let (labels, annotations) = (self.pairs("label")?, self.pairs("annotation")?);
        let rules = self.rules(root)?;
        let flat = self.is_flat();
        self.find("optional_spec").map(Entry::flag).transpose()?;
        let spec_required = self.requires_spec();
        let spec_rules = self.default_rule(root, "spec_default")?;
        let status_rules = self.default_rule(root, "status_default")?;
        let subschema =
            |kind: &TokenStream| quote!(#root::schemars::SchemaGenerator::subschema_for::<#kind>);
        let spec = subschema(&quote!(#spec));
        let status = option(self.status.as_ref().map(|status| subschema(&quote!(#status))));
        let ui = self.find("ui").map(argument::ui).transpose()?.map(|ui| ui.to_string());
        let ui = option(ui.map(|ui| quote!(#ui)));
        Ok(quote! {
            #root::Definition {
                group: #group,
                version: #version,
                kind: #kind,
                plural: #plural,
                singular: #singular,
                namespaced: #namespaced,
                short: &[#(#short),*],
                categories: &[#(#categories),*],
                doc: #doc,
                columns: &[#(#columns),*],
                scale: #scale,
                storage: #storage,
                served: #served,
                deprecated: #deprecated,
                deprecation_warning: #warning,
                selectable: &[#(#selectable),*],
                labels: &[#(#labels),*],
                annotations: &[#(#annotations),*],
                rules: &[#(#rules),*],
                spec: #spec,
                spec_required: #spec_required,
                spec_rules: &[#spec_rules],
                flat: #flat,
                status: #status,
                status_rules: &[#status_rules],
                ui: #ui,
            }
        })
    }

    /// Fails for names that no API server accepts, and for names that are given twice.
    fn check_names(&self) -> Result<()> {
        for key in ["plural", "singular", "short", "categories"] {
            let names = self.strings(key)?;
            for (at, name) in names.iter().enumerate() {
                let text = name.value();
                if !windlass_text::name::dns1035_faults(&text).is_empty() {
                    let message = format!(
                        "`{key}` is a name in lower case that begins with a letter, not `{text}`"
                    );
                    return Err(Error::new(name.span(), message));
                }
                if names[..at].iter().any(|other| other.value() == text) {
                    let message = format!("`{key}` names `{text}` twice");
                    return Err(Error::new(name.span(), message));
                }
            }
        }
        let mut columns: Vec<String> = Vec::new();
        for entry in self.all("column") {
            let Some(name) = entry.call_with_strings()?.0.into_iter().next() else { continue };
            if columns.contains(&name.value()) {
                let message = format!("two columns are named `{}`", name.value());
                return Err(Error::new(name.span(), message));
            }
            columns.push(name.value());
        }
        Ok(())
    }

    /// The rules of the whole object.
    fn rules(&self, root: &TokenStream) -> Result<Vec<TokenStream>> {
        let mut rules =
            self.all("cel").map(|entry| argument::cel(root, entry)).collect::<Result<Vec<_>>>()?;
        if let Some(entry) = self.find("title") {
            let title = entry.string()?.value();
            rules.push(argument::keyword(root, "title", &title.into()));
        }
        if let Some(entry) = self.find("docs") {
            rules.push(argument::docs(root, entry)?);
        }
        if let Some(entry) = self.find("preserve_unknown") {
            entry.flag()?;
            rules.push(argument::keyword(root, argument::PRESERVE, &true.into()));
        }
        Ok(rules)
    }

    /// The rule that sets the default of the spec or of the status.
    fn default_rule(&self, root: &TokenStream, key: &str) -> Result<Option<TokenStream>> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let value = json::value(entry.tokens()?)?;
        if !value.is_object() {
            return Err(entry.error(format_args!("`{key}` is an object: `{key} = {{ size: 1 }}`")));
        }
        let value = value.to_string();
        Ok(Some(quote!(#root::Rule::Default(#value))))
    }

    /// The code that follows all paths while it is compiled.
    pub(super) fn path_checks(&self, root: &TokenStream) -> Result<Vec<TokenStream>> {
        let mut paths = self.strings("selectable")?;
        for entry in self.all("column") {
            paths.extend(entry.call_with_strings()?.0.into_iter().nth(1));
        }
        for entry in self.all("scale") {
            for argument in attribute::entries(entry.call()?)? {
                paths.push(argument.string()?);
            }
        }
        Ok(paths.iter().filter_map(|path| self.fields.compiled_check(root, path)).collect())
    }

    fn deprecated(&self) -> Result<(bool, TokenStream)> {
        let Some(entry) = self.find("deprecated") else { return Ok((false, option(None))) };
        let warning = entry.optional_string()?;
        Ok((true, option(warning.map(|warning| quote!(#warning)))))
    }

    fn scale(&self, root: &TokenStream) -> Result<TokenStream> {
        let Some(entry) = self.find("scale") else { return Ok(option(None)) };
        let arguments = attribute::entries(entry.call()?)?;
        for argument in &arguments {
            let known = ["spec", "status", "selector"];
            if !known.contains(&argument.name().as_str()) {
                return Err(attribute::unknown(&argument.key, &known, "in `scale`"));
            }
            self.fields.check(&argument.string()?)?;
        }
        let find = |name: &str| {
            arguments.iter().find(|argument| argument.name() == name).map(Entry::string).transpose()
        };
        let (Some(spec), Some(status)) = (find("spec")?, find("status")?) else {
            let message = "`scale` needs two paths: `scale(spec = \".spec.replicas\", status = \".status.replicas\")`";
            return Err(Error::new(entry.key.span(), message));
        };
        let selector = option(find("selector")?.map(|selector| quote!(#selector)));
        Ok(option(Some(quote!(#root::Scale { spec: #spec, status: #status, selector: #selector }))))
    }
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
