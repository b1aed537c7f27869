//! The struct of a kind: metadata, spec and status.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{Attribute, Type, Visibility};

/// What the struct of a kind consists of.
pub struct ObjectType<'a> {
    /// The path of the support code.
    pub root: &'a TokenStream,
    /// The name of the struct.
    pub ident: &'a Ident,
    /// The documentation of the struct.
    pub docs: Vec<&'a Attribute>,
    /// Who may use it.
    pub visibility: &'a Visibility,
    /// The struct under the attribute, or its partial one.
    pub spec: &'a Ident,
    /// Where the fields of that struct are.
    pub place: SpecPlace,
    /// The type of the status.
    pub status: Option<&'a Type>,
    /// More traits to derive.
    pub derives: &'a [&'a str],
}

/// Where the fields of the struct under the attribute are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SpecPlace {
    /// In `spec`.
    Spec,
    /// In `spec`, which may be missing and is then the default of its type.
    DefaultSpec,
    /// In `spec`, which may be missing and is then what the function `__default_spec` makes.
    MadeSpec,
    /// In `spec`, which is an `Option`.
    OptionalSpec,
    /// Beside `metadata`.
    Flat,
}

// === impl ObjectType ===

impl ObjectType<'_> {
    /// Generates the struct, its constructor, and its implementation of `Serialize`.
    pub fn expand(&self) -> TokenStream {
        let Self { root, ident, docs, visibility, spec, .. } = self;
        let serde = self.serde();
        let derives = self.derives.iter().map(|name| Ident::new(name, Span::call_site()));
        let (spec_name, attribute) = match self.place {
            SpecPlace::Spec => (quote!(spec), quote!()),
            SpecPlace::DefaultSpec => (quote!(spec), quote!(#[serde(default)])),
            SpecPlace::MadeSpec => {
                let path = format!("{ident}::__default_spec");
                (quote!(spec), quote!(#[serde(default = #path)]))
            }
            SpecPlace::OptionalSpec => (quote!(spec), quote!(#[serde(default)])),
            SpecPlace::Flat => (quote!(fields), quote!(#[serde(flatten)])),
        };
        let (spec_type, spec_value) = match self.place {
            SpecPlace::OptionalSpec => (
                quote!(::core::option::Option<#spec>),
                quote!(::core::option::Option::Some(#spec_name)),
            ),
            _ => (quote!(#spec), quote!(#spec_name)),
        };
        let status = self.status.map(|status| {
            quote! {
                /// What the operator reports.
                #[serde(default)]
                pub status: ::core::option::Option<#status>,
            }
        });
        let status_none = self.status.map(|_| quote!(status: ::core::option::Option::None,));
        let serialize = self.serialize();
        quote! {
            #(#docs)*
            #[derive(::core::clone::Clone, ::core::fmt::Debug, #root::serde::Deserialize, #(#derives),*)]
            #[serde(crate = #serde)]
            #visibility struct #ident {
                /// The metadata of the object.
                #[serde(default)]
                pub metadata: #root::kube::core::ObjectMeta,
                /// What is wanted.
                #attribute
                pub #spec_name: #spec_type,
                #status
            }

            impl #ident {
                /// Makes an object of a name and a spec.
                pub fn new(name: &str, #spec_name: #spec) -> Self {
                    Self {
                        metadata: #root::kube::core::ObjectMeta {
                            name: ::core::option::Option::Some(name.into()),
                            ..::core::default::Default::default()
                        },
                        #spec_name: #spec_value,
                        #status_none
                    }
                }
            }

            #serialize
        }
    }

    fn serde(&self) -> String {
        let root = self.root;
        quote!(#root::serde).to_string().replace(' ', "")
    }

    /// Returns the implementation of `Serialize`, which adds `apiVersion` and `kind`.
    fn serialize(&self) -> TokenStream {
        let Self { root, ident, .. } = self;
        let body = if self.place == SpecPlace::Flat { self.flat() } else { self.fields() };
        quote! {
            impl #root::serde::Serialize for #ident {
                fn serialize<S: #root::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                    #body
                }
            }
        }
    }

    fn fields(&self) -> TokenStream {
        let Self { root, ident, .. } = self;
        let optional = |name: TokenStream| {
            let key = name.to_string();
            quote! {
                if let ::core::option::Option::Some(value) = &self.#name {
                    object.serialize_field(#key, value)?;
                }
            }
        };
        let spec = match self.place {
            SpecPlace::OptionalSpec => optional(quote!(spec)),
            _ => quote!(object.serialize_field("spec", &self.spec)?;),
        };
        let status = self.status.map(|_| optional(quote!(status)));
        quote! {
            use #root::serde::ser::SerializeStruct as _;
            let mut object = serializer.serialize_struct(stringify!(#ident), 5)?;
            object.serialize_field("apiVersion", &<Self as #root::kube::Resource>::api_version(&()))?;
            object.serialize_field("kind", &<Self as #root::kube::Resource>::kind(&()))?;
            object.serialize_field("metadata", &self.metadata)?;
            #spec
            #status
            object.end()
        }
    }

    /// Only serde's own code can write the fields of a struct beside others.
    fn flat(&self) -> TokenStream {
        let Self { root, spec, .. } = self;
        let serde = self.serde();
        let field = self.status.map(|status| {
            quote! {
                #[serde(skip_serializing_if = "::core::option::Option::is_none")]
                status: ::core::option::Option<&'a #status>,
            }
        });
        let value = self.status.map(|_| quote!(status: self.status.as_ref(),));
        quote! {
            #[derive(#root::serde::Serialize)]
            #[serde(crate = #serde, rename_all = "camelCase")]
            struct Object<'a> {
                api_version: ::std::borrow::Cow<'a, str>,
                kind: ::std::borrow::Cow<'a, str>,
                metadata: &'a #root::kube::core::ObjectMeta,
                #[serde(flatten)]
                fields: &'a #spec,
                #field
            }
            let object = Object {
                api_version: <Self as #root::kube::Resource>::api_version(&()),
                kind: <Self as #root::kube::Resource>::kind(&()),
                metadata: &self.metadata,
                fields: &self.fields,
                #value
            };
            #root::serde::Serialize::serialize(&object, serializer)
        }
    }
}
