//! The description of a kind, from which its definition is made.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use super::Kind;
use crate::attribute::{self, Entry};
use crate::column::{check_path, column};
use crate::{argument, text};

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
            check_path(path, &self.fields)?;
        }
        let (labels, annotations) = (self.pairs("label")?, self.pairs("annotation")?);
        let rules =
            self.all("cel").map(|entry| argument::cel(root, entry)).collect::<Result<Vec<_>>>()?;
        let flat = self.is_flat();
        let spec_required = self.find("optional_spec").map(Entry::flag).transpose()?.is_none();
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
                flat: #flat,
                status: #status,
                ui: #ui,
            }
        })
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
            check_path(&argument.string()?, &self.fields)?;
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
