//! Code that authors have written, before and after a renaming.

use std::fs;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::Renaming;
use super::code::Code;
use crate::scaffold::index::Index;
use crate::scaffold::package::Package;
use crate::scaffold::template::Kind;

/// A project with a kind and some more files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let kind = Kind {
        group: "cache.example.com".into(),
        version: "v1".into(),
        kind: "Memcached".into(),
        plural: None,
        cluster_scoped: false,
        further: false,
    };
    let types = kind.file(Some("memcached"));
    let more = [
        ("Cargo.toml", "[package]\nname = \"shop\"\n"),
        ("src/lib.rs", "pub mod extra;\npub mod memcached;\n"),
        ("src/memcached.rs", &types),
    ];
    for (path, text) in more.iter().chain(files) {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("has a directory")).expect("is created");
        fs::write(path, text).expect("is written");
    }
    directory
}

/// A file of the project after the renaming of Memcached to Redis.
fn renamed(path: &str, text: &str) -> Result<String, String> {
    let directory = project(&[(path, text)]);
    let package = Package::find(directory.path()).map_err(|e| e.to_string())?;
    let to = Some("Redis".to_owned());
    let renaming = Renaming::new(&package, "cache.example.com", "Memcached", to, None)
        .map_err(|e| e.to_string())?;
    let others = package.others().map_err(|e| e.to_string())?;
    let index = Index::new(&package, &others);
    let code = Code::new(&index, &renaming).map_err(|e| e.to_string())?;
    let file = index.files().find(|file| file.source.path == path).expect("is read");
    let mut unclear = Vec::new();
    let text = file.source.edited(code.edits(file, &mut unclear)).map_err(|e| e.to_string())?;
    if unclear.is_empty() { Ok(text) } else { Err(unclear.join(", ")) }
}

/// Imports after which `Memcached` is the kind.
const IMPORTS: [(&str, &str); 6] = [
    ("use crate::memcached::Memcached;\n", "use crate::redis::Redis;\n"),
    (
        "use crate::memcached::{self, Memcached, MemcachedSpec as Spec};\n",
        "use crate::redis::{self, Redis, RedisSpec as Spec};\n",
    ),
    ("use super::memcached::*;\n", "use super::redis::*;\n"),
    (
        "pub use crate::{memcached as mc};\nuse mc::Memcached;\n",
        "pub use crate::{redis as mc};\nuse mc::Redis;\n",
    ),
    (
        "use super::{memcached, windlass::{self}};\nuse memcached::Memcached;\n",
        "use super::{redis, windlass::{self}};\nuse redis::Redis;\n",
    ),
    (
        "use self::inner::Memcached;\nmod inner { pub use crate::memcached::*; }\n",
        "use self::inner::Redis;\nmod inner { pub use crate::redis::*; }\n",
    ),
];

/// Items that are independent of each other; the second text is empty if nothing changes.
const ITEMS: [(&str, &str); 19] = [
    (
        "fn name_of(memcached: &Memcached) -> usize { memcached.spec.message.len() }\n",
        "fn name_of(memcached: &Redis) -> usize { memcached.spec.message.len() }\n",
    ),
    ("struct Settings { memcached: String, Memcached: u8 }\n", ""),
    ("fn set() -> Settings { Settings { memcached: text(), Memcached: 1 } }\n", ""),
    ("enum Backend { Memcached, Redis }\n", ""),
    ("fn is(b: &other::Backend) -> bool { matches!(b, other::Backend::Memcached) }\n", ""),
    ("fn job(_: k8s_openapi::api::batch::v1::Memcached, _: ::memcached::Client) {}\n", ""),
    ("fn text() -> String { let memcached = 1; format!(\"{memcached} Memcached\") }\n", ""),
    ("fn local() { use k8s::Memcached; let _: Memcached = memcached(); }\n", ""),
    (
        "fn paths(_: crate::memcached::MemcachedSpec, _: &super::memcached::Memcached) {}\n",
        "fn paths(_: crate::redis::RedisSpec, _: &super::redis::Redis) {}\n",
    ),
    (
        "struct Text { #[serde(default = \"crate::memcached::size\")] size: u8 }\n",
        "struct Text { #[serde(default = \"crate::redis::size\")] size: u8 }\n",
    ),
    (
        "fn all() -> Vec<Memcached> { vec![Memcached { ..Memcached::new() }] }\n",
        "fn all() -> Vec<Redis> { vec![Redis { ..Redis::new() }] }\n",
    ),
    (
        "impl Kind for Memcached { type Memcached = Memcached; }\n",
        "impl Kind for Redis { type Memcached = Redis; }\n",
    ),
    (
        "fn call(x: X) { x.memcached::<Memcached>(); x.Memcached; Self::Memcached; }\n",
        "fn call(x: X) { x.memcached::<Redis>(); x.Memcached; Self::Memcached; }\n",
    ),
    ("fn label() { 'memcached: loop { break 'memcached; } }\n", ""),
    ("// Memcached and memcached::x\n/// [`Memcached`]\nfn documented() {}\n", ""),
    (
        "mod deep { use super::*; fn f(_: Memcached, _: super::Memcached) {} }\n",
        "mod deep { use super::*; fn f(_: Redis, _: super::Redis) {} }\n",
    ),
    (
        "mod own { struct Memcached; fn f(_: Memcached, _: super::Memcached) {} }\n",
        "mod own { struct Memcached; fn f(_: Memcached, _: super::Redis) {} }\n",
    ),
    ("mod other { pub mod memcached { pub fn f() {} } fn g() { memcached::f() } }\n", ""),
    (
        "fn run() { crate::memcached::reconcile(); let crate::memcached::Memcached { .. } = x; }\n",
        "fn run() { crate::redis::reconcile(); let crate::redis::Redis { .. } = x; }\n",
    ),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn names_of_authors_survive_and_those_of_the_kind_change(
        import in select(IMPORTS.to_vec()),
        items in subsequence(ITEMS.to_vec(), 1..=ITEMS.len()).prop_shuffle(),
        first in any::<bool>(),
        newline in select(vec!["\n", "\r\n"]),
    ) {
        let (mut old, mut new) = (String::new(), String::new());
        let all: Vec<(&str, &str)> = match first {
            true => [import].into_iter().chain(items).collect(),
            false => items.into_iter().chain([import]).collect(),
        };
        for (before, after) in all {
            old += before;
            new += if after.is_empty() { before } else { after };
        }
        let (old, new) = (old.replace('\n', newline), new.replace('\n', newline));
        prop_assert_eq!(renamed("src/extra.rs", &old), Ok(new));
    }
}

#[test]
fn tests_examples_and_benches_use_the_library_by_its_name() {
    let old = "mod memcached;\nuse shop::memcached::{Memcached, controller};\n\
               fn f(_: Memcached, _: shop::memcached::MemcachedSpec) { memcached::start() }\n";
    let new = "mod memcached;\nuse shop::redis::{Redis, controller};\n\
               fn f(_: Redis, _: shop::redis::RedisSpec) { memcached::start() }\n";
    for path in ["tests/flow.rs", "tests/it/main.rs", "examples/a.rs", "benches/b/main.rs"] {
        assert_eq!(renamed(path, old).as_deref(), Ok(new), "{path}");
    }
    let inner = "use crate::Memcached;\nfn f(_: Memcached) {}\n";
    assert_eq!(renamed("tests/it/other.rs", inner).as_deref(), Ok(inner), "is not the library");
}

#[test]
fn places_that_are_not_clear_are_refused() {
    let import = "use crate::memcached::Memcached;\n";
    let cases = [
        "backends! { Memcached, Redis }\n",
        "fields! { Memcached: u8 }\n",
        "fn f<Memcached>(_: Memcached) {}\n",
        "use other::Redis; fn f(_: Memcached) {}\n",
        "fn f() { struct Redis; let _: Memcached; }\n",
    ];
    for case in cases {
        let found = renamed("src/extra.rs", &format!("{import}{case}"));
        assert!(
            found.as_ref().is_err_and(|why| why.contains("src/extra.rs:")),
            "{case}: {found:?}"
        );
    }
    let found = renamed("src/main.rs", "mod memcached;\nfn main() { memcached::run() }\n");
    assert_eq!(found.unwrap_err(), "src/main.rs:1");
    // Circles of imports end.
    let circle = "use self::a::*;\nmod a { pub use super::b::*; pub use super::Memcached; }\n\
                  mod b { pub use super::a::*; }\nfn f(_: Memcached) {}\n";
    assert_eq!(renamed("src/extra.rs", circle).as_deref(), Ok(circle));
}
