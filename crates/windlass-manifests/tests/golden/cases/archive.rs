//! Types of types in lists and maps, rules of items, odd names.

use crate::cases::prelude::*;

/// Tag is a word.
#[k8s(min_length = 2, max_length = 16, pattern = "^[a-z]+$")]
pub struct Tag(pub String);

/// Label is a tag.
#[k8s]
pub struct Label(pub Tag);

/// Tags are several.
#[k8s(max_items = 5, list = set)]
pub struct Tags(pub Vec<Tag>);

/// Shelf is a number.
#[k8s(min = 1, max = 100)]
pub struct Shelf(pub i64);

/// Shelves by room.
#[k8s(max_properties = 4)]
pub struct Shelves(pub BTreeMap<String, Shelf>);

/// Book is kept.
#[k8s(cel("self.pages > 0 || has(self.digital)", message = "empty"))]
pub struct Book {
    /// ISBN of it.
    #[k8s(pattern = "^[0-9-]{10,17}$", title = "International number")]
    pub isbn: String,
    /// Pages of it.
    #[k8s(min = 0)]
    pub pages: i32,
    /// Digital or not.
    pub digital: Option<bool>,
    /// Shelf where it is.
    #[k8s(max = 50)]
    pub shelf: Option<Shelf>,
    /// Tags of it.
    pub tags: Option<Tags>,
}

/// ArchiveSpec is wanted.
#[api(
    group = "archive.golden.example.com",
    version = "v1",
    kind = "Archive",
    doc = "Archive keeps books.",
    categories = "library",
    column("Books", ".spec.books[*].pages", type = "integer"),
    column("Age", ".metadata.creationTimestamp"),
    optional_spec
)]
#[derive(Default)]
pub struct ArchiveSpec {
    /// Books of it.
    #[k8s(
        max_items = 20,
        items(cel("self.isbn != ''", message = "a number is needed")),
        list = atomic
    )]
    pub books: Option<Vec<Book>>,
    /// Words to find.
    #[k8s(
        min_items = 1,
        max_items = 30,
        items(min_length = 1, max_length = 32, pattern = r"^\S+$")
    )]
    pub words: Vec<String>,
    /// Years of it.
    #[k8s(items(min = 1450, exclusive_max = 2100))]
    pub years: Option<Vec<i32>>,
    /// Codes of it.
    #[k8s(items(enum = ["a", "b", "c"]))]
    pub codes: Option<Vec<String>>,
    /// Label of it.
    pub label: Option<Label>,
    /// Short label.
    #[k8s(max_length = 4)]
    pub short: Option<Label>,
    /// Rooms with shelves.
    #[k8s(min_properties = 1)]
    pub rooms: Option<Shelves>,
    /// Index by letter.
    pub index: Option<BTreeMap<String, Tags>>,
    /// Plan of rooms.
    #[k8s(max_items = 3, items(max_items = 3))]
    pub plan: Option<Vec<Vec<Shelf>>>,
    /// Cover of it.
    pub cover: Option<Vec<u8>>,
    /// Opening of it.
    #[k8s(
        docs(url = "https://example.com/opening", description = "How to write it"),
        example = { from: "08:00" }
    )]
    pub opening: Option<BTreeMap<String, String>>,
    /// Odd name of a field.
    #[serde(rename = "x-odd_name.v1")]
    pub odd: Option<String>,
    /// Uuid of it.
    #[k8s(format = "uuid", cel("self == oldSelf"))]
    pub uuid: Option<String>,
}

golden!(types_of_types_and_rules_of_items, "archive", Archive);
