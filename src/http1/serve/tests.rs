//! The loop at one end of a pipe, with a client at the other.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};

use actix_http::header::HeaderName;
use futures_util::stream;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::incoming::CutShort;

const GET: &str = "GET /one HTTP/1.1\r\nHost: x\r\n\r\n";
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Serves one end of a pipe, and gives the other to a client.
async fn talk<F: Future<Output = Reply>, R>(
    stopping: impl Future<Output = ()>,
    answer: impl Fn(Request, Incoming) -> F,
    client: impl AsyncFnOnce(DuplexStream) -> R,
) -> (io::Result<()>, R) {
    let (ours, theirs) = duplex(1024 * 1024);
    let rules = Rules::new(FOR_EVER);
    tokio::join!(serve(ours, None, &rules, stopping, answer), client(theirs))
}

/// Sends this, ends the stream, and returns the whole response, without the common headers.
async fn told<F: Future<Output = Reply>>(answer: impl Fn(Request, Incoming) -> F, sent: &str) -> String {
    let client = async |mut pipe: DuplexStream| {
        pipe.write_all(sent.as_bytes()).await.unwrap();
        pipe.shutdown().await.unwrap();
        all_of(&mut pipe).await
    };
    talk(std::future::pending(), answer, client).await.1
}

async fn all_of(pipe: &mut DuplexStream) -> String {
    let mut told = String::new();
    pipe.read_to_string(&mut told).await.unwrap();
    told.lines().filter(|line| !line.starts_with("date: ")).map(|line| format!("{line}\n")).collect()
}

/// Answers with the path and the body.
async fn echo(request: Request, mut incoming: Incoming) -> Reply {
    let mut body = request.path().to_owned();
    while let Some(piece) = incoming.next().await {
        match piece {
            Ok(bytes) => body += std::str::from_utf8(&bytes).unwrap(),
            Err(CutShort) => return Response::new(StatusCode::BAD_REQUEST).body(body + " was cut short").into(),
        }
    }
    Response::new(StatusCode::OK).body(body).into()
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /to HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}")
}

fn said(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\ncontent-length: {}\n{headers}\n{body}", body.len())
}

#[actix::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let sent = [GET, &post("Content-Length: 3", "abc"), &GET.replace("one", "two")].concat();
    let told = told(echo, &sent).await;
    let bodies = told.split("HTTP/1.1 200 OK").skip(1).map(|answer| answer.rsplit("\n\n").next().unwrap().trim());
    assert_eq!(bodies.collect::<Vec<_>>(), ["/one", "/toabc", "/two"], "{told}");
}

#[actix::test]
async fn requests_and_bodies_that_are_held_stay_as_they_were_while_the_next_come() {
    let held = RefCell::new(Vec::new());
    let holding = async |request: Request, mut incoming: Incoming| {
        held.borrow_mut().push((request, incoming.whole().unwrap()));
        Response::no_content().into()
    };
    let sent: Vec<_> = (0..100).map(|number| (format!("/{number}"), number.to_string().repeat(100))).collect();
    let client = async |mut pipe: DuplexStream| {
        for (path, body) in &sent {
            let request = post(&format!("X-Path: {path}\r\nContent-Length: {}", body.len()), body).replace("/to", path);
            pipe.write_all(request.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        pipe.shutdown().await.unwrap();
        all_of(&mut pipe).await
    };
    let (_, told) = talk(std::future::pending(), holding, client).await;
    assert_eq!(told.matches("204 No Content").count(), sent.len());
    for ((request, bytes), (path, body)) in held.into_inner().into_iter().zip(sent) {
        assert_eq!((request.path(), &bytes[..]), (path.as_str(), body.as_bytes()));
        let header = request.headers().text(&HeaderName::from_static("x-path"));
        assert_eq!((header, request.segments().segment(1)), (Some(path.as_str()), path.strip_prefix('/')));
    }
}

#[actix::test]
async fn a_body_is_read_however_it_comes() {
    let chunked = post("Transfer-Encoding: chunked", "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    for sent in [post("Content-Length: 3", "abc"), chunked] {
        for at in 1..sent.len() {
            let client = async |mut pipe: DuplexStream| {
                pipe.write_all(&sent.as_bytes()[..at]).await.unwrap();
                tokio::task::yield_now().await;
                pipe.write_all(&sent.as_bytes()[at..]).await.unwrap();
                pipe.write_all(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
                all_of(&mut pipe).await
            };
            let (served, told) = talk(std::future::pending(), echo, client).await;
            served.unwrap();
            assert!(told.contains("/toabc") && told.ends_with("connection: close\n\n/one\n"), "{at}: {told}");
        }
    }
}

#[actix::test]
async fn a_body_that_is_none_or_ends_early_is_said_to_be_and_nothing_is_read_after_it() {
    let none = post("Transfer-Encoding: chunked", "zz\r\nab");
    for sent in [none, post("Content-Length: 30", "abc")] {
        let told = told(echo, &sent).await;
        assert!(told.starts_with("HTTP/1.1 400") && told.contains("connection: close"), "{told}");
        assert!(told.contains("was cut short") && told.matches("HTTP/1.1").count() == 1, "{told}");
    }
}

#[actix::test]
async fn who_sends_a_body_that_nobody_reads_gets_the_answer_and_nothing_more() {
    let refuse = async |_: Request, _: Incoming| Response::new(StatusCode::UNAUTHORIZED).into();
    let sent = post("Content-Length: 100000", &"x".repeat(50_000)) + GET;
    let told = told(refuse, &sent).await;
    assert_eq!(told, said("401 Unauthorized", "connection: close\n", ""));
    let whole = post("Content-Length: 3", "abc") + GET;
    assert_eq!(self::told(refuse, &whole).await.matches("401").count(), 2, "what has come already does no harm");
}

#[actix::test]
async fn what_is_no_request_is_refused_and_the_connection_ends() {
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(200_000));
    for (sent, status) in
        [("nonsense\r\n\r\n", "400 Bad Request"), (&*long, "431 Request Header Fields Too Large"), ("GET /", "")]
    {
        let told = told(echo, &[GET, sent].concat()).await;
        let refused = told.strip_prefix(&said("200 OK", "", "/one")).unwrap();
        let expected = if status.is_empty() { "\n".to_owned() } else { said(status, "connection: close\n", "") };
        assert_eq!(refused, expected, "{status}");
    }
}

#[actix::test]
async fn a_client_is_told_to_continue_only_if_it_waits_for_it() {
    let expecting = post("Content-Length: 3\r\nExpect: 100-continue", "");
    let client = async |mut pipe: DuplexStream| {
        pipe.write_all(expecting.as_bytes()).await.unwrap();
        let mut told = [0; CONTINUE.len()];
        pipe.read_exact(&mut told).await.unwrap();
        assert_eq!(told, CONTINUE);
        pipe.write_all(b"abc").await.unwrap();
        pipe.shutdown().await.unwrap();
        all_of(&mut pipe).await
    };
    assert!(talk(std::future::pending(), echo, client).await.1.ends_with("/toabc\n"));
    assert!(told(echo, &(expecting + "abc")).await.starts_with("HTTP/1.1 200"));
}

#[actix::test]
async fn little_is_read_ahead_while_a_request_is_being_answered() {
    let (ours, mut theirs) = duplex(64);
    let sent = Cell::new(0);
    let answer = async |_: Request, _: Incoming| std::future::pending().await;
    let client = async {
        theirs.write_all(GET.as_bytes()).await.unwrap();
        loop {
            sent.update(|sent| sent + 64);
            theirs.write_all(&[b'x'; 64]).await.unwrap();
        }
    };
    let rules = Rules::new(FOR_EVER);
    tokio::select! {
        biased;
        _ = serve(ours, None, &rules, std::future::pending(), answer) => panic!("it is not answered"),
        () = client => {}
        () = async { for _ in 0..10_000 { tokio::task::yield_now().await } } => {}
    }
    assert!((AHEAD_MAX..AHEAD_MAX + 2 * READ_BYTES).contains(&sent.get()), "{} bytes", sent.get());
}

#[actix::test]
async fn the_handler_learns_of_the_end_of_the_client_and_a_stream_goes_on_until_its_own() {
    let polls = Cell::new(0);
    let answer = async |_: Request, _: Incoming| {
        poll_fn(|_| {
            polls.update(|polls| polls + 1);
            if polls.get() == 1 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        let pieces = ["a", "b"].map(|piece| Ok::<_, io::Error>(Bytes::from_static(piece.as_bytes())));
        Response::new(StatusCode::OK).streaming(stream::iter(pieces)).into()
    };
    let told = told(answer, GET).await;
    assert!(told.ends_with("1\na\n1\nb\n0\n\n") && told.contains("transfer-encoding: chunked"), "{told}");
}

#[actix::test]
async fn an_answer_to_head_has_no_body_and_one_in_pieces_ends_with_an_old_clients_connection() {
    let answer = async |_: Request, _: Incoming| {
        let pieces = ["a", "b"].map(|piece| Ok::<_, io::Error>(Bytes::from_static(piece.as_bytes())));
        Response::new(StatusCode::OK).streaming(stream::iter(pieces)).into()
    };
    let head = told(answer, &GET.replace("GET", "HEAD")).await;
    assert!(head.contains("transfer-encoding: chunked") && head.ends_with("\n\n"), "{head}");
    let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let old = told(answer, &[old, old].concat()).await;
    assert!(old.starts_with("HTTP/1.0 200 OK") && old.ends_with("\n\nab\n"), "{old}");
    assert_eq!(old.matches("HTTP/1.0").count(), 1, "nothing can follow such an answer");
}

#[actix::test]
async fn who_wants_another_protocol_is_answered_and_what_follows_is_not_read() {
    let upgrade = post("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3", "abc");
    let told = told(echo, &(upgrade + GET)).await;
    assert!(told.contains("connection: close") && told.ends_with("/toabc\n"), "{told}");
}

#[actix::test]
async fn what_a_transport_holds_back_is_flushed() {
    let (ours, mut theirs) = duplex(16);
    let client = async {
        theirs.write_all(GET.as_bytes()).await.unwrap();
        let mut told = Vec::new();
        while !told.ends_with(b"/one") {
            told.push(theirs.read_u8().await.unwrap());
        }
        theirs.write_all(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        all_of(&mut theirs).await
    };
    let (ours, rules) = (tokio::io::BufStream::new(ours), Rules::new(FOR_EVER));
    let (served, told) = tokio::join!(serve(ours, None, &rules, std::future::pending(), echo), client);
    served.unwrap();
    assert!(told.ends_with("connection: close\n\n/one\n"), "{told}");
}

#[actix::test]
async fn a_stream_that_fails_is_cut_off_without_its_end() {
    let answer = async |_: Request, _: Incoming| {
        Response::new(StatusCode::OK)
            .streaming(stream::iter([Ok(Bytes::from_static(b"a")), Err(io::Error::other("no"))]))
            .into()
    };
    let client = async |mut pipe: DuplexStream| {
        pipe.write_all(GET.as_bytes()).await.unwrap();
        all_of(&mut pipe).await
    };
    let (served, told) = talk(std::future::pending(), answer, client).await;
    assert!(served.is_err() && !told.contains("0\n\n"), "{told}");
}

#[actix::test]
async fn an_idle_connection_ends_with_the_server_and_one_with_a_request_after_its_answer() {
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let stop = RefCell::new(Some(stop));
    let answer = async |request, incoming| {
        if let Some(stop) = stop.borrow_mut().take() {
            stop.send(()).unwrap();
        }
        tokio::task::yield_now().await;
        echo(request, incoming).await
    };
    let client = async |mut pipe: DuplexStream| {
        pipe.write_all(GET.as_bytes()).await.unwrap();
        all_of(&mut pipe).await
    };
    let (served, told) = talk(async { stopping.await.unwrap() }, answer, client).await;
    served.unwrap();
    assert!(told.ends_with("/one\n"), "{told}");
}

#[actix::test]
async fn who_does_not_ask_in_time_is_told_so() {
    let (ours, mut theirs) = duplex(1024);
    theirs.write_all(b"GET / HTT").await.unwrap();
    let rules = Rules::new(Duration::from_millis(1));
    let (served, told) = tokio::join!(serve(ours, None, &rules, std::future::pending(), echo), async {
        let told = all_of(&mut theirs).await;
        drop(theirs);
        told
    });
    served.unwrap();
    assert_eq!(told, said("408 Request Timeout", "connection: close\n", ""));
}
