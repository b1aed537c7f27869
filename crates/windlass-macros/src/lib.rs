//! Attributes that make a Rust type a Kubernetes API.
//!
//! Use them through `windlass`, which re-exports them as `windlass::api` and `windlass::k8s`.

use proc_macro::TokenStream;

mod argument;
mod attribute;
mod column;
mod consistency;
mod enumeration;
mod field;
mod format;
mod json;
mod kind;
mod names;
mod object;
mod partial;
mod path;
mod plural;
mod rule;
mod serde_attribute;
mod shape;
mod structure;
mod subschema;
mod text;
mod type_item;

/// Makes a kind of a struct: its spec.
///
/// The attribute adds a struct named by `kind` with the fields `metadata`, `spec` and, with
/// `status = Type`, `status`. It implements `kube::Resource` and `kube::CustomResourceExt`. The spec
/// itself becomes as by [`macro@k8s`].
///
/// | key | meaning |
/// |---|---|
/// | `group = "cache.example.com"`, `version = "v1"`, `kind = "Memcached"` | required |
/// | `plural = ".."`, `singular = ".."` | follow from the kind if they are not given |
/// | `scope = Cluster` | objects belong to no namespace |
/// | `short = "mc"`, `categories = ["all"]` | names for the command line |
/// | `doc = ".."` | the documentation of the kind, if it is not that of the struct |
/// | `title = ".."`, `docs(url = "..")`, `preserve_unknown` | about the whole object, as in [`macro@k8s`] |
/// | `status = Type` | the type of the status, and the subresource |
/// | `status_default = { phase: "New" }` | the status of an object without one |
/// | `column("Size", ".spec.size", type = "integer", format = "int32", priority = 1, description = "..")` | a column of tables; the type follows from the field |
/// | `scale(spec = "..", status = "..", selector = "..")` | the subresource `scale` |
/// | `selectable = [".spec.x"]` | fields that field selectors know |
/// | `storage = false`, `served = false`, `deprecated`, `deprecated = "warning"` | about the version |
/// | `label("key", "value")`, `annotation("key", "value")` | metadata of the definition |
/// | `cel("rule", ..)` | a rule of the whole object, as in [`macro@k8s`] |
/// | `optional_spec` | objects may lack a spec, which is then the default of its type |
/// | `spec_default = { size: 1 }` | objects may lack a spec, which the API server then fills in |
/// | `flat` | there is no `spec`: the fields of the struct are fields of the object, which dereferences to the struct |
/// | `partial` | also makes a struct `MemcachedPartial`, as in [`macro@k8s`] |
/// | `ui(display = "..", ..)` | how catalogs show the kind |
#[proc_macro_attribute]
pub fn api(arguments: TokenStream, item: TokenStream) -> TokenStream {
    type_item::expand(arguments.into(), item.into(), true).into()
}

/// Describes a type inside of an API, and its fields.
///
/// On a struct, an enum or a struct with one unnamed field it derives `Clone`, `Debug`,
/// `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` (as far as they are not
/// derived already) and writes fields in camel case. On a field it adds rules:
///
/// | key | meaning |
/// |---|---|
/// | `min = 1`, `max = 5`, `exclusive_min = 0`, `exclusive_max = 1`, `multiple_of = 2` | numbers |
/// | `min_length`, `max_length`, `pattern = "^[a-z]+$"`, `format = "uri"` | strings |
/// | `min_items`, `max_items`, `items(..)` | lists and their items |
/// | `min_properties`, `max_properties`, `values(..)` | maps and their values |
/// | `enum = ["a", "b"]` | the values that are allowed |
/// | `default = 3` | filled in by the API server |
/// | `required`, `optional`, `not_empty`, `nullable` | presence |
/// | `list = atomic`, `list = set`, `list = map("key")` | how lists merge |
/// | `map = atomic`, `map = granular` | how maps and structs merge |
/// | `immutable` | the value does not change once it is set |
/// | `cel("rule", message = "..", message_expression = "..", reason = FieldValueInvalid, path = ".x", optional_old_self)` | a rule |
/// | `exactly_one_of(a, b)`, `at_most_one_of(..)`, `at_least_one_of(..)` | on structs |
/// | `doc = ".."` | the description, if it is not the comment |
/// | `title = ".."`, `example = ..`, `docs(url = "..", description = "..")`, `ui(..)` | documentation |
/// | `type = "integer"`, `format = none`, `int_or_string`, `schemaless`, `preserve_unknown`, `embedded_resource` | the shape |
/// | `schema = { oneOf: [..] }` | `allOf`, `anyOf`, `oneOf` and `not`, as they are |
/// | `allow_float` | a floating-point number is meant |
///
/// `partial` on a struct also makes a struct of the same name with `Partial` at its end, in which
/// every field is optional: what one of several appliers sets. `partial` on a field uses the partial
/// struct of its type there.
#[proc_macro_attribute]
pub fn k8s(arguments: TokenStream, item: TokenStream) -> TokenStream {
    type_item::expand(arguments.into(), item.into(), false).into()
}
