//! Deleting and renaming.

use std::fs;

use super::{INIT, MEMCACHED, done, edit, project, refused, tree};
use crate::support::TempDir;

#[test]
fn delete_undoes_create_byte_for_byte() {
    let directory = TempDir::new();
    let root = directory.path();
    done(root, INIT);
    let mut states = vec![tree(root)];
    let kinds = [
        "--group cache --version v1alpha1 --kind Memcached",
        "--group cache --version v1beta1 --kind Memcached",
        "--group fleet --version v1 --kind Memcached",
        "--group fleet --version v1 --kind Truck",
        "--group apps --version v1 --kind Deployment",
        "--group cache --version v1alpha1 --kind Memcached --controller-name auditor",
    ];
    let more = ["", "", "--cluster-scoped", "--no-controller --plural lorries"];
    let more = more.into_iter().chain(["--no-resource", "--no-resource"]);
    for (kind, more) in kinds.iter().zip(more) {
        done(root, &format!("create api {kind} {more}"));
        // Webhooks are deleted with the kind. That of a first version would stay with further ones.
        if ["Truck", "Deployment"].iter().any(|name| kind.ends_with(name)) {
            done(root, &format!("create webhook {kind} --defaulting --validation"));
        }
        states.push(tree(root));
    }
    for kind in kinds.iter().rev() {
        states.pop();
        done(root, &format!("delete api {kind}"));
        assert!(tree(root) == *states.last().unwrap(), "delete api {kind} left something");
    }
}

#[test]
fn a_kind_with_other_versions_or_users_is_not_deleted() {
    let directory = project();
    let root = directory.path();
    done(root, "create api --group cache --version v1 --kind Memcached");
    let sentence = refused(root, &format!("delete api {MEMCACHED}"), 2);
    assert!(sentence.contains("version v1 of Memcached"), "{sentence}");
    done(root, "delete api --group cache --version v1 --kind Memcached");

    edit(root, "src/lib.rs", |text| format!("{text}\npub use memcached::MemcachedSpec;\n"));
    let sentence = refused(root, &format!("delete api {MEMCACHED}"), 1);
    assert!(sentence.contains("is used at src/lib.rs:15"), "{sentence}");
}

#[test]
fn a_kind_that_tests_or_other_names_use_is_not_deleted() {
    let uses = [
        ("tests/flow.rs", "use shop::memcached::Memcached;\n", "tests/flow.rs:1"),
        ("tests/it/main.rs", "use shop::{memcached as mc};\n", "tests/it/main.rs:1"),
        (
            "examples/show.rs",
            "fn main() { shop::memcached::controller(); }\n",
            "examples/show.rs:1",
        ),
        ("src/lib.rs", "pub use memcached as mc;\n", "src/lib.rs:15"),
    ];
    for (path, text, place) in uses {
        let directory = project();
        let root = directory.path();
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&file).map(|text| text + "\n").unwrap_or_default();
        fs::write(&file, before + text).unwrap();
        let sentence = refused(root, &format!("delete api {MEMCACHED}"), 1);
        assert!(sentence.contains(&format!("is used at {place};")), "{sentence}");
        done(root, &format!("delete api {MEMCACHED} --force"));
    }
}

#[test]
fn changed_files_are_deleted_only_by_force() {
    let directory = project();
    let root = directory.path();
    edit(root, "src/memcached.rs", |text| text.replace("pub message: String", "pub text: String"));
    let sentence = refused(root, &format!("delete api {MEMCACHED}"), 1);
    assert!(sentence.contains("src/memcached.rs was changed"), "{sentence}");
    assert!(sentence.contains("--force"), "{sentence}");
    done(root, &format!("delete api {MEMCACHED} --force"));
    assert!(!root.join("src/memcached.rs").exists());
}

#[test]
fn a_renamed_kind_is_as_if_it_had_been_created_so() {
    let directory = project();
    let root = directory.path();
    done(root, "create api --group cache --version v1beta1 --kind Memcached");
    done(root, "create api --group shop --version v1 --kind Route");
    done(root, &format!("create webhook {MEMCACHED} --defaulting --conversion"));
    done(root, "rename api --group cache --kind Memcached --to Cache --to-group store");

    let other = TempDir::new();
    let fresh = other.path();
    done(fresh, INIT);
    done(fresh, "create api --group store --version v1alpha1 --kind Cache");
    done(fresh, "create api --group store --version v1beta1 --kind Cache");
    done(fresh, "create api --group shop --version v1 --kind Route");
    let store = "--group store --version v1alpha1 --kind Cache";
    done(fresh, &format!("create webhook {store} --defaulting --conversion"));
    let (renamed, fresh) = (tree(root), tree(fresh));
    assert_eq!(renamed.keys().collect::<Vec<_>>(), fresh.keys().collect::<Vec<_>>());
    for (path, text) in &renamed {
        assert_eq!(fresh.get(path), Some(text), "{}", path.display());
    }
}

#[test]
fn a_renaming_keeps_the_work_of_the_author() {
    let directory = project();
    let root = directory.path();
    let work = "\n// Memcached is what we call it.\nfn mine( kind :&Memcached)->MemcachedSpec{\n    \
                crate::memcached::helper(kind)\n}\n";
    edit(root, "src/memcached.rs", |text| format!("{text}{work}"));
    let sample = "config/samples/cache.example.com_v1alpha1_memcached.yaml";
    edit(root, sample, |text| text.replace("hello", "Memcached # ours"));
    edit(root, "tests/memcached.rs", |text| format!("{text}\n// mine\n"));
    let said = done(root, "rename api --group cache --kind Memcached --to Redis");
    assert!(said.contains("still mention Memcached: src/redis.rs:1, "), "{said}");
    let text = fs::read_to_string(root.join("src/redis.rs")).unwrap();
    let renamed = "\n// Memcached is what we call it.\nfn mine( kind :&Redis)->RedisSpec{\n    \
                   crate::redis::helper(kind)\n}\n";
    assert!(text.ends_with(renamed), "{text}");
    assert!(text.contains("    kind = \"Redis\",\n"), "{text}");
    let sample = "config/samples/cache.example.com_v1alpha1_redis.yaml";
    let sample = fs::read_to_string(root.join(sample)).unwrap();
    assert!(sample.contains("kind: Redis\n") && sample.contains("message: Memcached # ours\n"));
    let test = fs::read_to_string(root.join("tests/redis.rs")).unwrap();
    let sample = "include_str!(\"../config/samples/cache.example.com_v1alpha1_redis.yaml\")";
    assert!(test.contains(sample) && test.ends_with("// mine\n"), "{test}");
    let library = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    assert!(library.contains(".api::<redis::Redis>()"), "{library}");
}

#[test]
fn a_renaming_reaches_tests_and_all_samples_and_leaves_other_names() {
    let directory = project();
    let root = directory.path();
    let sample = "config/samples/cache.example.com_v1alpha1_memcached.yaml";
    edit(root, sample, |text| {
        text.replace("Memcached\n", "Memcached # ours\n").replace('\n', "\r\n")
    });
    let object = "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: two}\n";
    fs::write(root.join("config/samples/two.yaml"), object).unwrap();
    fs::create_dir(root.join("tests/it")).unwrap();
    let test = "use shop::memcached::Memcached;\nfn f(memcached: Memcached) { memcached.name() }\n";
    fs::write(root.join("tests/it/main.rs"), test).unwrap();
    edit(root, "src/lib.rs", |text| format!("{text}pub enum Backend {{ Memcached, Redis }}\n"));
    done(root, "rename api --group cache --kind Memcached --to Redis");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let sample = read("config/samples/cache.example.com_v1alpha1_redis.yaml");
    assert!(sample.contains("\r\nkind: Redis # ours\r\n"), "{sample:?}");
    assert_eq!(sample.matches('\n').count(), sample.matches("\r\n").count(), "{sample:?}");
    assert_eq!(read("config/samples/two.yaml"), object.replace("Memcached", "Redis"));
    let test = "use shop::redis::Redis;\nfn f(memcached: Redis) { memcached.name() }\n";
    assert_eq!(read("tests/it/main.rs"), test);
    assert!(read("src/lib.rs").ends_with("pub enum Backend { Memcached, Redis }\n"));

    edit(root, "src/lib.rs", |text| format!("{text}backends! {{ redis::Redis }}\n"));
    edit(root, "src/redis.rs", |text| format!("{text}kinds! {{ Redis, Valkey }}\n"));
    let line = "rename api --group cache --kind Redis --to Valkey";
    let sentence = refused(root, line, 1);
    assert!(sentence.contains("not clear how to rename Redis at src/redis.rs:"), "{sentence}");
}

#[test]
fn a_library_in_another_directory_gets_its_files_there() {
    let directory = TempDir::new();
    let root = directory.path();
    done(root, INIT);
    fs::create_dir(root.join("lib")).unwrap();
    fs::rename(root.join("src/lib.rs"), root.join("lib/lib.rs")).unwrap();
    edit(root, "Cargo.toml", |text| format!("{text}\n[lib]\npath = \"lib/lib.rs\"\n"));
    let before = tree(root);
    let said = done(root, &format!("create api {MEMCACHED}"));
    assert!(said.starts_with("created lib/memcached.rs\n"), "{said}");
    done(root, &format!("create webhook {MEMCACHED} --defaulting"));
    done(root, "rename api --group cache --kind Memcached --to Redis");
    assert!(root.join("lib/redis/webhook.rs").is_file());
    done(root, "delete api --group cache --version v1alpha1 --kind Redis");
    assert!(tree(root) == before, "delete api left something");
}
