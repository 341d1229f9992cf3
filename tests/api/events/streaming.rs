//! The event stream: where it begins, how it continues, and what ends it.

use reqwest::Method;
use serde_json::{Value, json};

use super::offline;
use super::sse::{Event, Follow, SseItem, Stream};
use super::{all_events, cycle, text};
use crate::support::tenants::acme_and_beta;
use crate::support::wire::{Wire, head};
use crate::support::{Client, Server, Setup};

const QUICK: &str =
    "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[events]\nheartbeat_seconds = 1\nstall_seconds = 1\n";

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.id.clone()).collect()
}

async fn listed(client: &Client) -> Vec<String> {
    all_events(client, "").await.iter().map(|event| text(event, "eventId").to_owned()).collect()
}

#[tokio::test]
async fn a_stream_tells_what_comes_from_now_on_as_the_list_has_it() {
    let server = Server::start();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let before = listed(&admin).await;
    let mut stream = Stream::open(&admin, "", "").await;
    assert_eq!(Some(&stream.last_id), before.last(), "it says where it begins");
    cycle(&admin, "review-1").await;
    let told = stream.events(2).await;
    let list = all_events(&admin, "").await;
    let expected: Vec<_> = list[list.len() - 2..].to_vec();
    assert_eq!(told.iter().map(|event| event.data.clone()).collect::<Vec<_>>(), expected);
    for (event, shown) in told.iter().zip(&expected) {
        assert_eq!((&*event.id, &*event.kind), (text(shown, "eventId"), text(shown, "type")));
    }
}

#[tokio::test]
async fn who_comes_again_goes_on_where_it_was_also_after_a_restart() {
    let mut server = Server::start();
    let admin = server.admin();
    let mut stream = Stream::open(&admin, "", "").await;
    cycle(&admin, "review-1").await;
    let seen = stream.events(1).await[0].id.clone();
    drop(stream);
    cycle(&admin, "review-2").await;
    for restart in [false, true] {
        if restart {
            server.kill();
            server.start_again();
        }
        let admin = server.admin();
        let all = listed(&admin).await;
        let place = all.iter().position(|id| *id == seen).unwrap() + 1;
        let rest = all.len() - place;
        assert!(rest >= 3);
        let mut by_header = Stream::open(&admin, "", &seen).await;
        assert_eq!(ids(&by_header.events(rest).await), all[place..]);
        let mut by_query = Stream::open(&admin, &format!("?lastEventId={seen}"), "").await;
        assert_eq!(ids(&by_query.events(rest).await), all[place..]);
        let old = format!("?lastEventId={}", all[0]);
        let mut by_both = Stream::open(&admin, &old, &seen).await;
        assert_eq!(by_both.event().await.unwrap().id, all[place], "the header is newer");
        let mut whole = Stream::open(&admin, "", "start").await;
        assert_eq!(ids(&whole.events(all.len()).await), all);
    }
}

#[tokio::test]
async fn a_filter_holds_for_what_was_and_for_what_comes() {
    let server = Server::start();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let mut stream = Stream::open(&admin, "?type=session.released&envName=review-1", "start").await;
    assert_eq!(stream.event().await.unwrap().kind, "session.released");
    cycle(&admin, "review-2").await;
    let session = cycle(&admin, "review-1").await;
    let next = stream.event().await.unwrap();
    assert_eq!((&*next.kind, &next.data["sessionId"]), ("session.released", &json!(session)));
}

#[tokio::test]
async fn who_comes_with_an_id_that_is_not_there_is_told_so_and_goes_on_from_now() {
    let server = Server::start();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let all = listed(&admin).await;
    for unknown in [
        "evt_000000000000002a9d2c5a1b",
        "evt_ffffffffffffffff00000000",
        "evt_000000000000000000000000",
        "hello",
        "\u{e4}",
    ] {
        let mut stream = Stream::open(&admin, "", unknown).await;
        let reset = stream.event().await.unwrap();
        assert_eq!((&*reset.kind, Some(&reset.id)), ("reset", all.last()), "{unknown}");
        assert_eq!(reset.data, json!({ "reason": "unknown", "firstEventId": all[0] }));
    }
    let mut stream = Stream::open(&admin, "?lastEventId=x", "").await;
    assert_eq!(stream.event().await.unwrap().kind, "reset");
    cycle(&admin, "review-1").await;
    assert_eq!(stream.event().await.unwrap().kind, "session.claimed");
}

#[tokio::test]
async fn who_comes_with_an_id_that_is_no_longer_kept_is_told_from_where_the_list_goes() {
    let home = tempfile::tempdir().unwrap();
    let first = offline::record(home.path(), 200, 10);
    offline::drop_pages(home.path(), 3);
    let server = Setup::default().start_at(home.path());
    let admin = server.admin();
    let kept = listed(&admin).await;
    let mut stream = Stream::open(&admin, "", &first).await;
    let reset = stream.event().await.unwrap();
    assert_eq!((&*reset.kind, &reset.id), ("reset", kept.last().unwrap()));
    assert_eq!(reset.data, json!({ "reason": "expired", "firstEventId": kept[0] }));
    assert_eq!(admin.get(&format!("/events/{}", kept[0])).await.ok().data()["eventId"], kept[0]);
    let mut whole = Stream::open(&admin, "", "start").await;
    assert_eq!(ids(&whole.events(kept.len()).await), kept);
}

#[tokio::test]
async fn in_silence_there_are_heartbeats_which_say_how_far_a_filter_has_looked() {
    let server = Setup::default().settings(QUICK).start();
    let admin = server.admin();
    let mut stream = Stream::open(&admin, "", "").await;
    for _ in 0..2 {
        assert_eq!(stream.next().await, Some(SseItem::Comment("nothing new".to_owned())));
    }
    let mut nothing = Stream::open(&admin, "?type=pull_request.created", "").await;
    cycle(&admin, "review-1").await;
    let last = listed(&admin).await.pop().unwrap();
    let told = SseItem::Comment(format!("nothing for you up to {last}"));
    loop {
        let next = nothing.next().await.unwrap();
        assert!(matches!(next, SseItem::Comment(_)), "{next:?}");
        if next == told {
            break;
        }
    }
}

#[tokio::test]
async fn when_to_come_again_is_told_with_the_first_event_and_never_alone() {
    let server = Setup::default().settings(QUICK).start();
    let admin = server.admin();
    let is_retry = |item: &Option<SseItem>| matches!(item, Some(SseItem::Retry(2_000)));
    // With events, it is the first line; without, it waits for one.
    let first = text(&all_events(&admin, "").await[0], "type").to_owned();
    for (last_id, kind) in [("start", &*first), ("unheard-of", "reset")] {
        let mut stream = Stream::open(&admin, "", last_id).await;
        let retry = stream.next().await;
        assert!(is_retry(&retry), "{retry:?}");
        let Some(SseItem::Event(event)) = stream.next().await else { panic!("an event follows") };
        assert_eq!(event.kind, kind);
    }
    let mut stream = Stream::open(&admin, "?type=session.*", "").await;
    for _ in 0..2 {
        assert!(matches!(stream.next().await, Some(SseItem::Comment(_))));
    }
    cycle(&admin, "review-1").await;
    let mut retries = 0;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        match stream.next().await.unwrap() {
            SseItem::Retry(_) => retries += 1,
            SseItem::Event(event) => kinds.push(event.kind),
            SseItem::Comment(_) => {}
        }
    }
    assert_eq!((retries, &*kinds[0], &*kinds[1]), (1, "session.claimed", "session.released"));
}

#[tokio::test]
async fn who_has_seen_nothing_yet_goes_on_where_the_answer_says_it_began() {
    let server = Server::start();
    let admin = server.admin();
    let stream = Stream::open(&admin, "", "").await;
    let began = stream.last_id.clone();
    assert_eq!(listed(&admin).await.last(), Some(&began));
    drop(stream);
    cycle(&admin, "review-1").await;
    let mut again = Stream::open(&admin, "", &began).await;
    assert_eq!((again.last_id.clone(), again.event().await.unwrap().kind), (began, "session.claimed".to_owned()));
}

#[tokio::test]
async fn a_stream_ends_with_the_server_and_holds_nobody_up() {
    let mut server = Server::start();
    let admin = server.admin();
    let mut stream = Stream::open(&admin, "", "").await;
    server.signal("-TERM");
    assert_eq!(stream.event().await, None);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("stopped before all requests were answered"), "{}", server.log());
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let server = Setup::default().settings(QUICK).start();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "t", "user": "vic" })).await.created().data();
    let vic = server.with_token(text(&made, "token"));
    let (mut stream, mut other) = (Stream::open(&vic, "", "").await, Stream::open(&admin, "", "").await);
    admin.delete(&format!("/tokens/{}", text(&made, "tokenId"))).await.has_status(204);
    while stream.next().await.is_some() {}
    assert!(other.next().await.is_some(), "others go on");
    vic.get("/events").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn who_does_not_read_is_cut_off_and_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    // More than fits into the sockets between them.
    const RECORDED: usize = 20_000;
    offline::record(home.path(), RECORDED, 1_000);
    let server = Setup::default().settings(QUICK).start_at(home.path());
    let admin = server.admin();
    let mut live = Stream::open(&admin, "?type=session.*", "").await;
    let mut silent = Wire::open(&server).await;
    let path = admin.path("/events/stream?lastEventId=start");
    silent.send(format!("{}\r\n", head("GET", &path))).await;
    silent.answer().await.unwrap().ok();
    let mut whole = Stream::open(&admin, "", "start").await;
    let whole = tokio::spawn(async move { whole.events(RECORDED).await.len() });
    while subscribers(&server).await > 1 {
        cycle(&admin, "review-1").await;
        assert_eq!(live.events(2).await.len(), 2, "others hear of everything meanwhile");
    }
    assert_eq!(whole.await.unwrap(), RECORDED, "who reads is not cut off, however far behind");
    assert!(server.log().contains("cut off clients that did not read their answers"), "{}", server.log());
    silent.closed().await;
}

async fn subscribers(server: &Server) -> u64 {
    let anonymous = server.anonymous();
    let metrics = anonymous.send(anonymous.request(Method::GET, "/metrics")).await.ok().text;
    let line = metrics.lines().find(|line| line.starts_with("lockkeeper_event_subscribers ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn head_and_old_clients_are_answered_as_they_should() {
    let server = Server::start();
    let admin = server.admin();
    let path = admin.path("/events/stream?lastEventId=start");
    let head = admin.send(admin.request(Method::HEAD, &path)).await.ok();
    assert_eq!((&*head.text, head.header("content-type")), ("", "text/event-stream"));
    assert_eq!((head.header("cache-control"), head.header("x-accel-buffering")), ("no-store", "no"));
    let old = admin.request(Method::GET, &path).version(reqwest::Version::HTTP_10);
    let mut answer = old.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers().get("transfer-encoding")), (200, None));
    assert!(answer.chunk().await.unwrap().unwrap().starts_with(b"retry: "));
}

#[tokio::test]
async fn there_is_room_for_a_thousand_of_one_member_and_a_place_is_free_when_one_has_gone() {
    let (server, bea) = acme_and_beta(Setup::default).await;
    let admin = server.admin();
    let path = admin.path("/events/stream");
    let ask = format!("{}\r\n", head("GET", &path));
    let mut followers = Vec::new();
    // Half of the organization's places.
    for _ in 0..1_000 {
        let mut wire = Wire::open(&server).await;
        wire.send(&ask).await;
        wire.answer().await.unwrap().ok();
        followers.push(wire);
    }
    let refused = admin.send(admin.request(Method::GET, &path)).await.refused(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.text.contains("one member has 1000 of the organization's 2000 already"), "{}", refused.text);
    let mut other = Stream::open(&bea, "", "").await;
    cycle(&bea, "review-1").await;
    assert_eq!(other.events(2).await.len(), 2, "another organization has places of its own");
    let ben = server.as_user("ben").await;
    let mut of_ben = Stream::open(&ben, "", "").await;
    cycle(&admin, "review-1").await;
    assert_eq!(of_ben.events(2).await.len(), 2, "so has another member");
    // Each place of another member reduces its own share.
    drop(of_ben);
    drop(other);
    followers.pop();
    // The server learns of it with a delay.
    let follow = Follow::new(&admin, "");
    let mut stream = loop {
        if let Ok(stream) = follow.open("").await {
            break stream;
        }
    };
    cycle(&admin, "review-1").await;
    assert_eq!(stream.event().await.map(|event| event.data["type"].clone()), Some(Value::from("session.claimed")));
}
