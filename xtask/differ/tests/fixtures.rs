//! Replays the stored sequences on the embedded server and compares its answers with those of the
//! real one.

use std::path::Path;

use differ::fixture::Fixture;
use differ::server::{Answer, Server};
use differ::{compare, mask, run};

#[tokio::test]
async fn the_embedded_server_answers_stored_requests_as_the_real_one_did() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("the directory of fixtures exists")
        .map(|entry| entry.expect("its entries can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there is nothing to compare");
    let server = Server::embedded();
    let mut failed = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let text = std::fs::read(file).expect("the file can be read");
        let fixture: Fixture = serde_json::from_slice(&text).expect("the file is a fixture");
        let id = format!("fixture{number}x");
        let answers = run::run(&server, &fixture.sequence, &id).await.expect("it answers");
        assert_eq!(answers.len(), fixture.expect.len(), "{}", file.display());
        for (index, (ours, real)) in answers.iter().zip(&fixture.expect).enumerate() {
            let (Some(ours), Some(real)) = (ours, real) else { continue };
            let real = mask::answer(&Answer::from(real), &id);
            let found = compare::answers(&real, &mask::answer(ours, &id));
            if !found.is_empty() {
                failed.push(format!("{} step {index}: {found:#?}", file.display()));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
