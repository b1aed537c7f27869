//! The examples run.

#[path = "../../examples/informer.rs"]
#[allow(dead_code)]
mod informer;

#[tokio::test(start_paused = true)]
async fn the_example_of_the_low_level_writes_every_state_of_its_table() {
    let tables = informer::run().await.expect("runs");
    let rows = ["shop: 1 to 5", "web: 1 to 3"];
    assert_eq!(tables.first().map(Vec::len), Some(1), "{tables:?}");
    assert!(tables.iter().any(|table| *table == rows), "{tables:?}");
    assert_eq!(tables.last().expect("some"), &rows[1..]);
}

#[path = "../../examples/shop.rs"]
#[allow(dead_code)]
mod shop;

#[tokio::test(start_paused = true)]
async fn the_example_of_a_finished_operator_takes_a_shop_through_its_life() {
    let seen = shop::run().await.expect("runs");
    let staffed = "Ready=True SettingsReady=True Staffed=True";
    let busy = "Ready=False Reconciling=True SettingsReady=True Staffed=True";
    let closed = "VisitorsReady=True settings";
    let open = "VisitorsReady=True settings visitors";
    let wanted = [
        "PricesFound=False Ready=False Reconciling=True".to_string(),
        format!("PricesFound=True Ready=True SettingsReady=True {open} open"),
        format!(
            "PricesFound=True Ready=False Reconciling=True SettingsReady=True Staffed=False {open} \
             open"
        ),
        format!("PricesFound=True {staffed} {open} open"),
        // The till waits for the migration, and the shop for the till.
        format!("Migrated=False PricesFound=True {busy} TillReady=False {open} migration open"),
        format!("Migrated=True PricesFound=True {busy} TillReady=False {open} migration till open"),
        format!("Migrated=True PricesFound=True {staffed} TillReady=True {open} till open"),
        // Other prices, so other pods.
        format!("Migrated=True PricesFound=True {busy} TillReady=False {open} till open"),
        format!("Migrated=True PricesFound=True {staffed} TillReady=True {open} till open"),
        // It is paused, closed and resumed.
        format!(
            "Migrated=True Paused=True PricesFound=True {staffed} TillReady=True {open} till open"
        ),
        format!(
            "Migrated=True Paused=True PricesFound=True {staffed} TillReady=True {open} till open"
        ),
        format!("Migrated=True PricesFound=True {staffed} TillReady=True {closed} till"),
        format!("Migrated=True PricesFound=True {staffed} TillReady=True {closed} till"),
        "handled: please".to_string(),
        "workers: 4".to_string(),
        String::new(),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn the_guide_shows_code_of_the_example() {
    let guide = include_str!("../../../../docs/finished-operator.md");
    let example = include_str!("../../examples/shop.rs");
    let blocks: Vec<&str> =
        guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    for block in blocks {
        assert!(example.contains(block), "not in the example:\n{block}");
    }
}

#[path = "../../examples/webhook.rs"]
#[allow(dead_code)]
mod webhook;

#[tokio::test(start_paused = true)]
async fn the_example_of_webhooks_completes_one_object_and_denies_another() {
    let seen = webhook::run().await.expect("runs");
    assert_eq!(seen[0], "small: Some(3)");
    let denied = "admission webhook \"validate.memcached.cache.example.com\" denied the request: \
                  Memcached.cache.example.com \"large\" is invalid: \
                  spec.size: Invalid value: 6: must be between 1 and 5";
    assert_eq!(seen[1], denied);
    assert!(include_str!("../../../../docs/webhooks.md").contains(denied), "the guide shows it");
}

#[test]
fn the_guide_of_webhooks_shows_code_of_the_example() {
    let guide = include_str!("../../../../docs/webhooks.md");
    let example = include_str!("../../examples/webhook.rs");
    let blocks: Vec<&str> =
        guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3, "{} blocks", blocks.len());
    for block in blocks {
        assert!(example.contains(block), "not in the example:\n{block}");
    }
}
