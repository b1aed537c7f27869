//! Peers that are slow, silent, too many, or do not speak HTTP.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_apiserver::serve::Limits;

use crate::https::Listening;
use crate::support::*;

async fn healthy(listening: &Listening) {
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

/// Sends bytes and reads whatever comes, until the server closes.
async fn talk(listening: &Listening, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    // The server may close before it read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn hundreds_of_idle_connections_stop_nobody() {
    let listening = Listening::start(false, Limits::default()).await;
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(TcpStream::connect(listening.address).await.unwrap());
    }
    healthy(&listening).await;
    drop(idle);
    healthy(&listening).await;
    listening.end().await;
}

/// Asks for the version over a connection that stays open; returns the answer's status line.
async fn ask_again(stream: &mut TcpStream, token: &str) -> String {
    let request =
        format!("GET /version HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 4096];
    let count = stream.read(&mut start).await.unwrap();
    String::from_utf8_lossy(&start[..count]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn connections_of_unknown_clients_make_room_but_not_those_of_users() {
    let listening = Listening::start(false, Limits { strangers_max: 1, ..Limits::default() }).await;
    let connect = || TcpStream::connect(listening.address);
    let mut user = connect().await.unwrap();
    assert_eq!(ask_again(&mut user, "admin").await, "HTTP/1.1 200 OK");
    let mut stranger = connect().await.unwrap();
    assert_eq!(ask_again(&mut stranger, "wrong").await, "HTTP/1.1 401 Unauthorized");
    let mut other = connect().await.unwrap();
    assert_eq!(ask_again(&mut other, "wrong").await, "HTTP/1.1 401 Unauthorized");
    assert_eq!(stranger.read(&mut [0; 8]).await.unwrap_or(0), 0);
    assert_eq!(ask_again(&mut user, "admin").await, "HTTP/1.1 200 OK");
    listening.end().await;
}

#[tokio::test]
async fn slow_senders_are_cut_and_stop_nobody() {
    let short = Duration::from_millis(100);
    let limits = Limits { header_timeout: short, body_timeout: short, ..Limits::default() };
    let listening = Listening::start(false, limits).await;
    let head = talk(&listening, b"GET /api/v1 HTTP/1.1\r\nhost: x\r\nx-slow: ");
    let body = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\n\
        authorization: Bearer admin\r\ncontent-length: 100\r\n\r\n{\"metadata\"";
    let body = talk(&listening, body);
    let silent = talk(&listening, b"");
    let ((), _, body, silent) = tokio::join!(healthy(&listening), head, body, silent);
    assert!(body.contains(" 400 ") && body.contains("did not arrive in time"), "{body}");
    assert_eq!(silent, "");
    listening.end().await;
}

#[tokio::test]
async fn what_is_no_http_is_answered_or_closed() {
    let limits = Limits { header_timeout: Duration::from_millis(100), ..Limits::default() };
    let listening = Listening::start(false, limits).await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(2 << 20));
    let headers = "x: y\r\n".repeat(500);
    let many = format!("GET /version HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc".as_slice(),
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /version HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"GET /version HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /version HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = talk(&listening, bytes).await;
        let clear = answer.is_empty() || !answer.starts_with("HTTP/1.1 5");
        assert!(clear, "{:?}: {answer}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        healthy(&listening).await;
    }
    listening.end().await;
}

#[tokio::test]
async fn a_body_that_is_announced_too_long_is_refused_without_reading_it() {
    let listening = Listening::start(false, Limits::default()).await;
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\n\
        authorization: Bearer admin\r\ncontent-length: 99999999999\r\n\r\n";
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let filler = vec![b' '; 64 << 10];
    // The server stops reading after its limit; what is sent until then is thrown away.
    for _ in 0..64 {
        if stream.write_all(&filler).await.is_err() {
            break;
        }
    }
    let mut start = [0; 512];
    let count = stream.read(&mut start).await.unwrap_or(0);
    let answer = String::from_utf8_lossy(&start[..count]);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    drop(stream);
    healthy(&listening).await;
    listening.end().await;
}

#[tokio::test]
async fn a_watcher_that_never_reads_stops_no_writer() {
    let listening = Listening::start(false, Limits::default()).await;
    let mut stream = TcpStream::connect(listening.address).await.unwrap();
    let request =
        format!("GET {MAPS}?watch=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let filler = "x".repeat(256 << 10);
    create_map(&listening.server, "a", "0").await;
    for index in 0..100 {
        let body = map("a", &format!("{index}{filler}"));
        ask(&listening.server, &format!("PUT {MAPS}/a"), body).await.ok();
    }
    healthy(&listening).await;
    let read = ask(&listening.server, &format!("GET {MAPS}/a"), json!(null)).await.ok();
    assert!(read["data"]["key"].as_str().unwrap().starts_with("99x"));
    drop(stream);
    listening.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_harms_nobody() {
    let listening = Listening::start(false, Limits::default()).await;
    for cut in [1, 20, 60, 120, 170] {
        let request = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\n\
            authorization: Bearer admin\r\ncontent-length: 30\r\n\r\n{\"metadata\":{\"name\":\"a\"}}";
        let mut stream = TcpStream::connect(listening.address).await.unwrap();
        stream.write_all(&request[..cut.min(request.len())]).await.unwrap();
    }
    healthy(&listening).await;
    let list = ask(&listening.server, &format!("GET {MAPS}"), json!(null)).await.ok();
    assert!(names(&list).is_empty());
    listening.end().await;
}
