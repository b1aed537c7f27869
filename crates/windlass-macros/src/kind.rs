//! Kinds: the struct with metadata, spec and status.

mod definition;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Error, Ident, Item, LitStr, Path, Result, Type};

use crate::argument;
use crate::attribute::{self, Entry};
use crate::object::{ObjectType, SpecPlace};
use crate::path::Fields;
use crate::rule::join;
use crate::{json, names, partial, plural, serde_attribute};

const KEYS: &[&str] = &[
    "group",
    "version",
    "kind",
    "plural",
    "singular",
    "scope",
    "short",
    "categories",
    "doc",
    "title",
    "docs",
    "preserve_unknown",
    "status",
    "status_default",
    "column",
    "scale",
    "selectable",
    "storage",
    "served",
    "deprecated",
    "label",
    "annotation",
    "cel",
    "optional_spec",
    "spec_default",
    "flat",
    "partial",
    "ui",
    "crate",
];
const REPEATED: &[&str] = &["column", "label", "annotation", "cel"];

/// The arguments of `#[api(..)]`.
pub struct Kind {
    entries: Vec<Entry>,
    group: LitStr,
    version: LitStr,
    kind: LitStr,
    status: Option<Type>,
    fields: Fields,
}

// === impl Kind ===

impl Kind {
    /// Reads the arguments.
    pub fn read(entries: Vec<Entry>, item: &Item) -> Result<(Self, Option<Path>)> {
        let Item::Struct(structure) = item else {
            return Err(Error::new_spanned(item, "`#[api(..)]` belongs on the struct of the spec"));
        };
        if !structure.generics.params.is_empty() {
            let message = "a kind has one schema, so its spec has no parameters, write the types";
            return Err(Error::new_spanned(&structure.generics, message));
        }
        let mut errors = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let name = entry.name();
            if !KEYS.contains(&name.as_str()) {
                errors.push(attribute::unknown(&entry.key, KEYS, "in `#[api(..)]`"));
            } else if !REPEATED.contains(&name.as_str())
                && entries[..at].iter().any(|other| other.name() == name)
            {
                errors.push(Error::new(entry.key.span(), format!("`{name}` is given twice")));
            }
        }
        join(errors)?;
        let find = |name: &str| entries.iter().find(|entry| entry.name() == name);
        let needed = |name: &str| {
            let missing =
                || Error::new(Span::call_site(), format!("`#[api(..)]` needs `{name} = \"..\"`"));
            find(name).ok_or_else(missing).and_then(Entry::string)
        };
        let (group, version, kind) = (needed("group")?, needed("version")?, needed("kind")?);
        check_names(&group, &version, &kind, &structure.ident)?;
        let status = find("status").map(status_type).transpose()?;
        for name in ["flat", "partial"] {
            find(name).map(Entry::flag).transpose()?;
        }
        let of_spec = find("optional_spec").or_else(|| find("spec_default"));
        if let (Some(_), Some(entry)) = (find("flat"), of_spec) {
            let message = format!("an object that is `flat` has no spec, remove `{}`", entry.key);
            return Err(Error::new(entry.key.span(), message));
        }
        if let (None, Some(entry)) = (&status, find("status_default")) {
            let message = "the kind has no status, add `status = Type`";
            return Err(Error::new(entry.key.span(), message));
        }
        let root = find("crate").map(|entry| syn::parse2(entry.tokens()?)).transpose()?;
        let fields = Fields {
            owner: structure.ident.clone(),
            names: spec_fields(structure)?,
            flat: find("flat").is_some(),
            status: status.clone(),
        };
        Ok((Kind { entries, group, version, kind, status, fields }, root))
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }

    fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.name() == name)
    }

    fn strings(&self, name: &str) -> Result<Vec<LitStr>> {
        self.find(name).map_or_else(|| Ok(Vec::new()), Entry::strings)
    }

    fn pairs(&self, name: &'static str) -> Result<Vec<TokenStream>> {
        let pair = |entry: &Entry| {
            let (texts, rest) = entry.call_with_strings()?;
            match (texts.as_slice(), rest.as_slice()) {
                ([key, value], []) => Ok(quote!((#key, #value))),
                _ => Err(entry.error(format_args!(
                    "`{name}` has a key and a value: `{name}(\"key\", \"value\")`"
                ))),
            }
        };
        let mut known = Vec::new();
        for entry in self.all(name) {
            let (texts, _) = entry.call_with_strings()?;
            let key = texts.first().map(LitStr::value).unwrap_or_default();
            if known.contains(&key) {
                return Err(entry.error(format_args!("`{name}` sets `{key}` twice")));
            }
            known.push(key);
        }
        self.all(name).map(pair).collect()
    }

    /// Generates the struct of the kind and what it implements.
    pub fn expand(
        &self,
        item: &Item,
        root: &TokenStream,
        derives: &[String],
    ) -> Result<TokenStream> {
        let Item::Struct(structure) = item else { return Ok(TokenStream::new()) };
        let definition = self.definition(structure, root)?;
        let path_checks = self.path_checks(root)?;
        let spec = &structure.ident;
        let kind = Ident::new(&self.kind.value(), self.kind.span());
        let structs = self.structs(structure, &kind, root, derives)?;
        let resource = self.resource(&kind, root)?;
        let extension = self.extension(&kind, root)?;
        let has_spec = (!self.is_flat()).then(|| {
            quote! {
                impl #root::kube::core::object::HasSpec for #kind {
                    type Spec = #spec;

                    fn spec(&self) -> &#spec {
                        &self.spec
                    }

                    fn spec_mut(&mut self) -> &mut #spec {
                        &mut self.spec
                    }
                }
            }
        });
        let deref = self.is_flat().then(|| deref(&kind, spec));
        let default_spec = self.default_spec(&kind, spec, root)?;
        let has_status = self.status.as_ref().map(|status| {
            quote! {
                impl #root::kube::core::object::HasStatus for #kind {
                    type Status = #status;

                    fn status(&self) -> ::core::option::Option<&#status> {
                        self.status.as_ref()
                    }

                    fn status_mut(&mut self) -> &mut ::core::option::Option<#status> {
                        &mut self.status
                    }
                }
            }
        });
        Ok(quote! {
            #structs
            #resource
            #extension
            #has_spec
            #deref
            #default_spec
            #has_status
            #(#path_checks)*

            impl #root::Api for #kind {
                const DEFINITION: #root::Definition<'static> = #definition;
            }
        })
    }

    /// Generates the struct of the kind, and with `partial` also the partial one.
    fn structs(
        &self,
        structure: &syn::ItemStruct,
        kind: &Ident,
        root: &TokenStream,
        derives: &[String],
    ) -> Result<TokenStream> {
        let docs = structure.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
        let shared: Vec<&str> = ["PartialEq", "Default"]
            .into_iter()
            .filter(|name| derives.iter().any(|known| known == name))
            .collect();
        let place = match self.requires_spec() {
            _ if self.is_flat() => SpecPlace::Flat,
            false if self.find("spec_default").is_some() => SpecPlace::MadeSpec,
            false => SpecPlace::DefaultSpec,
            true => SpecPlace::Spec,
        };
        let object = ObjectType {
            root,
            ident: kind,
            docs: docs.collect(),
            visibility: &structure.vis,
            spec: &structure.ident,
            place,
            status: self.status.as_ref(),
            derives: &shared,
        };
        let whole = object.expand();
        if !self.is_partial() {
            return Ok(whole);
        }
        let (ident, spec) = (partial::name(kind), partial::name(&structure.ident));
        let doc = format!("The fields of [`{kind}`] that an applier sets: each is optional.");
        let doc: syn::Attribute = syn::parse_quote!(#[doc = #doc]);
        let place = if self.is_flat() { SpecPlace::Flat } else { SpecPlace::OptionalSpec };
        let docs = vec![&doc];
        let derives = &["Default"][..];
        let object = ObjectType { ident: &ident, docs, spec: &spec, place, derives, ..object };
        let (object, resource) = (object.expand(), self.resource(&ident, root)?);
        Ok(quote!(#whole #object #resource))
    }

    /// Generates the function that makes the spec of an object without one.
    fn default_spec(&self, kind: &Ident, spec: &Ident, root: &TokenStream) -> Result<TokenStream> {
        let Some(entry) = self.find("spec_default") else { return Ok(TokenStream::new()) };
        let value = json::value(entry.tokens()?)?.to_string();
        Ok(quote! {
            impl #kind {
                fn __default_spec() -> #spec {
                    #root::default_spec::<#kind, #spec>(#value)
                }
            }
        })
    }

    fn requires_spec(&self) -> bool {
        self.find("optional_spec").is_none() && self.find("spec_default").is_none()
    }

    fn is_flat(&self) -> bool {
        self.find("flat").is_some()
    }

    /// Returns `true` if the kind gets a partial struct.
    pub fn is_partial(&self) -> bool {
        self.find("partial").is_some()
    }

    fn resource(&self, kind: &Ident, root: &TokenStream) -> Result<TokenStream> {
        let (group, version, name) = (&self.group, &self.version, &self.kind);
        let plural = self.plural()?;
        let scope = if self.is_cluster()? {
            quote!(#root::kube::core::ClusterResourceScope)
        } else {
            quote!(#root::kube::core::NamespaceResourceScope)
        };
        Ok(quote! {
            impl #root::kube::Resource for #kind {
                type DynamicType = ();
                type Scope = #scope;

                fn kind(_: &()) -> ::std::borrow::Cow<'_, str> {
                    #name.into()
                }

                fn group(_: &()) -> ::std::borrow::Cow<'_, str> {
                    #group.into()
                }

                fn version(_: &()) -> ::std::borrow::Cow<'_, str> {
                    #version.into()
                }

                fn plural(_: &()) -> ::std::borrow::Cow<'_, str> {
                    #plural.into()
                }

                fn meta(&self) -> &#root::kube::core::ObjectMeta {
                    &self.metadata
                }

                fn meta_mut(&mut self) -> &mut #root::kube::core::ObjectMeta {
                    &mut self.metadata
                }
            }
        })
    }

    fn extension(&self, kind: &Ident, root: &TokenStream) -> Result<TokenStream> {
        let crd_name = format!("{}.{}", self.plural()?, self.group.value());
        let short = self.strings("short")?;
        let schema = self.schema(kind, root);
        Ok(quote! {
            impl #root::kube::CustomResourceExt for #kind {
                fn crd() -> #root::CustomResourceDefinition {
                    <Self as #root::Api>::DEFINITION.crd()
                }

                fn crd_name() -> &'static str {
                    #crd_name
                }

                fn api_resource() -> #root::kube::core::ApiResource {
                    #root::kube::core::ApiResource::erase::<Self>(&())
                }

                fn shortnames() -> &'static [&'static str] {
                    &[#(#short),*]
                }
            }

            #schema
        })
    }

    /// The schema of whole objects.
    fn schema(&self, kind: &Ident, root: &TokenStream) -> TokenStream {
        let name = &self.kind;
        quote! {
            impl #root::schemars::JsonSchema for #kind {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(#name)
                }

                fn schema_id() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(::core::any::type_name::<Self>())
                }

                fn json_schema(_: &mut #root::schemars::SchemaGenerator) -> #root::schemars::Schema {
                    <Self as #root::Api>::DEFINITION.schema()
                }
            }
        }
    }

    fn plural(&self) -> Result<String> {
        match self.find("plural") {
            Some(entry) => Ok(entry.string()?.value()),
            None => Ok(plural::plural(&self.kind.value().to_lowercase())),
        }
    }

    fn is_cluster(&self) -> Result<bool> {
        let Some(entry) = self.find("scope") else { return Ok(false) };
        let word = entry.word()?.to_string();
        argument::one_of(entry, &word, &["Namespaced", "Cluster"])?;
        Ok(word == "Cluster")
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        self.find(name).map_or(Ok(default), Entry::boolean)
    }
}

/// Lets an object without a spec be used like the struct of its fields.
fn deref(kind: &Ident, fields: &Ident) -> TokenStream {
    quote! {
        impl ::core::ops::Deref for #kind {
            type Target = #fields;

            fn deref(&self) -> &#fields {
                &self.fields
            }
        }

        impl ::core::ops::DerefMut for #kind {
            fn deref_mut(&mut self) -> &mut #fields {
                &mut self.fields
            }
        }
    }
}

fn status_type(entry: &Entry) -> Result<Type> {
    syn::parse2(entry.tokens()?)
        .map_err(|_| entry.error("`status` is a type: `status = MemcachedStatus`"))
}

fn check_names(group: &LitStr, version: &LitStr, kind: &LitStr, spec: &Ident) -> Result<()> {
    let domain = group.value();
    let is_label = |text: &str| {
        !text.is_empty()
            && text.chars().all(|letter| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
            })
    };
    if !domain.contains('.') || !domain.split('.').all(is_label) {
        let message = format!(
            "the group `{domain}` is a domain name in lower case, such as `cache.example.com`"
        );
        return Err(Error::new(group.span(), message));
    }
    let name = version.value();
    if !is_label(&name) || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        let message = format!("the version `{name}` is a name in lower case, such as `v1alpha1`");
        return Err(Error::new(version.span(), message));
    }
    let name = kind.value();
    let valid = syn::parse_str::<Ident>(&name).is_ok()
        && name.starts_with(|letter: char| letter.is_ascii_uppercase());
    if !valid {
        return Err(Error::new(
            kind.span(),
            format!("the kind `{name}` is a name in camel case, such as `Memcached`"),
        ));
    }
    if spec == &name {
        let message =
            format!("the kind and its spec are two structs, rename this one to `{name}Spec`");
        return Err(Error::new(spec.span(), message));
    }
    Ok(())
}

/// The names of the fields of the spec in JSON; none if some of them come from another type.
fn spec_fields(structure: &syn::ItemStruct) -> Result<Vec<String>> {
    let container = serde_attribute::read(&structure.attrs)?;
    if container.from.is_some() {
        return Ok(Vec::new());
    }
    let rule = container.rename_all.as_deref().unwrap_or("camelCase");
    let mut found = Vec::new();
    for field in &structure.fields {
        let serde = serde_attribute::read(&field.attrs)?;
        let Some(ident) = &field.ident else { return Ok(Vec::new()) };
        if serde.flatten {
            return Ok(Vec::new());
        }
        let name = ident.unraw().to_string();
        found.push(serde.rename.unwrap_or_else(|| names::field(rule, &name)));
    }
    Ok(found)
}
