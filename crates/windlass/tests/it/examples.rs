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
