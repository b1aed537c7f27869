//! Several packages in a workspace.

use std::fs;

use super::{INIT, MEMCACHED, done, edit, refused, tree};
use crate::support::TempDir;

#[test]
fn a_workspace_gets_a_member_and_keeps_its_comments() {
    let directory = TempDir::new();
    let root = directory.path();
    let manifest = "# ours\n[workspace]\nmembers = [\n    \"tools\", # old\n]\nresolver = \"3\"\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    let said = done(root, INIT);
    assert!(said.contains("created shop/src/main.rs\nupdated Cargo.toml\n"), "{said}");
    assert!(said.contains("Next: cd shop\n"), "{said}");
    let expected = manifest.replace("# old\n", "# old\n    \"shop\",\n");
    assert_eq!(fs::read_to_string(root.join("Cargo.toml")).unwrap(), expected);
    let member = fs::read_to_string(root.join("shop/Cargo.toml")).unwrap();
    assert!(!member.contains("profile"), "cargo ignores the profiles of members");
    done(&root.join("shop"), &format!("create api {MEMCACHED}"));
    let sentence = refused(root, &format!("create api {MEMCACHED}"), 2);
    assert!(sentence.contains("root of a workspace"), "{sentence}");
}

#[test]
fn an_api_crate_gets_kinds_without_an_operator() {
    let directory = TempDir::new();
    let root = directory.path();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("Cargo.toml"), "[package]\nname = \"shop-api\"\n").unwrap();
    fs::write(root.join("src/lib.rs"), "").unwrap();
    let sentence = refused(root, "create api --group shop --version v1 --kind Route", 2);
    assert!(sentence.contains("needs a domain"), "{sentence}");
    let route = "create api --group shop.example.com --version v1 --kind Route";
    let sentence = refused(root, route, 1);
    assert!(sentence.contains("found no operator expression"), "{sentence}");
    let said = done(root, &format!("{route} --no-controller"));
    assert!(said.contains("updated Cargo.toml\n") && said.ends_with("cargo check\n"), "{said}");
    assert_eq!(fs::read_to_string(root.join("src/lib.rs")).unwrap(), "pub mod route;\n");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let first = "[package]\nname = \"shop-api\"\n\n[dependencies]\n\
                 k8s-openapi = { version = \"0.29\", features = [\"v1_36\"] }\n\
                 windlass = { path = \"";
    assert!(manifest.starts_with(first), "{manifest}");
    // They are there now, so nothing is added again.
    done(root, "create api --group shop.example.com --version v1 --kind Way --no-controller");
    assert_eq!(fs::read_to_string(root.join("Cargo.toml")).unwrap(), manifest);
}

#[test]
fn an_operator_installs_the_kinds_of_an_api_crate_of_its_workspace() {
    let directory = TempDir::new();
    let root = directory.path();
    let manifest = "[workspace]\nmembers = [\"api\"]\n\n[workspace.dependencies]\n\
                    k8s-openapi = \"0.29\" # ours\nshop-api = { path = \"api\" }\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    fs::create_dir_all(root.join("api/src")).unwrap();
    let package = "[package]\nname = \"shop-api\"\n\n[dependencies] # none yet\n";
    fs::write(root.join("api/Cargo.toml"), package).unwrap();
    fs::write(root.join("api/src/lib.rs"), "").unwrap();
    let route = "create api --group shop.example.com --version v1 --kind Route";
    done(&root.join("api"), &format!("{route} --no-controller"));
    let package = fs::read_to_string(root.join("api/Cargo.toml")).unwrap();
    assert!(
        package.contains("[dependencies] # none yet\nk8s-openapi = { workspace = true }\n"),
        "{package}"
    );

    done(root, INIT);
    let shop = root.join("shop");
    edit(&shop, "Cargo.toml", |text| {
        text.replace("[dependencies]\n", "[dependencies]\nshop-api.workspace = true\n")
    });
    let before = tree(&shop);
    let external = "--no-resource --external-api-path shop_api::route::Route";
    done(&shop, &format!("{route} {external}"));
    let library = fs::read_to_string(shop.join("src/lib.rs")).unwrap();
    let calls =
        "        .api::<shop_api::route::Route>()\n        .controller(route::controller())\n";
    assert!(library.contains(calls), "{library}");
    done(&shop, &format!("{route} {external} --controller-name auditor"));
    let library = fs::read_to_string(shop.join("src/lib.rs")).unwrap();
    assert_eq!(library.matches(".api::<").count(), 1, "{library}");
    let route = "delete api --group shop.example.com --version v1 --kind Route";
    done(&shop, &format!("{route} --controller-name auditor"));
    done(&shop, route);
    assert!(tree(&shop) == before, "delete api left something");
}
