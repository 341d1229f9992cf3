//! No fencing token is granted twice, although a restored server does not know the last ones of the original.

use serde_json::{Value, json};

use super::{backup, restore_home, said, setup};
use crate::support::{Client, at, lockkeeper};

const MARGIN: u64 = 1_000_000_000;

async fn claim(admin: &Client, environment: &str) -> (String, u64) {
    let claimed = admin.claim(environment, json!({ "ttlSeconds": 600 })).await.created();
    (claimed.session(), claimed.data()["fencingToken"].as_u64().unwrap())
}

async fn claim_and_release(admin: &Client, environment: &str) -> u64 {
    let (session, token) = claim(admin, environment).await;
    admin.release(environment, &session).await.ok();
    token
}

async fn tokens(admin: &Client, environment: &str, query: &str) -> (Vec<u64>, Value) {
    let history = admin.get(&format!("{}/history?{query}", at(environment))).await.ok();
    let tokens =
        history.data().as_array().unwrap().iter().map(|ended| ended["fencingToken"].as_u64().unwrap()).collect();
    (tokens, history.json()["pagination"]["total"].clone())
}

#[tokio::test]
async fn tokens_after_a_restore_are_above_every_token_ever_given_and_the_history_stays() {
    let mut server = setup().start();
    let admin = server.admin();
    for _ in 0..20 {
        claim_and_release(&admin, "review-1").await;
    }
    let (held, token) = claim(&admin, "review-2").await;
    let file = server.home().join("backup");
    said(&backup(&server.data_dir(), &file));

    // The server continues, and then its disk is lost.
    for expected in 21..=30 {
        assert_eq!(claim_and_release(&admin, "review-1").await, expected);
    }
    admin.release("review-2", &held).await.ok();
    assert_eq!(claim(&admin, "review-2").await.1, token + 1);
    admin.put(&at("made-later"), json!({})).await.created();
    assert_eq!(claim_and_release(&admin, "made-later").await, 1);
    server.kill();

    let home = tempfile::tempdir().unwrap();
    restore_home(&file, home.path(), &server.data_dir());
    let mut restored = setup().start_at(home.path());
    let admin = restored.admin();
    // The holder in the backup still has its token, which is lower than any granted later.
    let holder = admin.session("review-2", &held).await.ok().data();
    assert_eq!((&holder["lockStatus"], &holder["fencingToken"]), (&json!("active"), &json!(token)));
    admin.release("review-2", &held).await.ok();
    assert_eq!(claim(&admin, "review-2").await.1, token + MARGIN + 1);

    let newest: Vec<u64> = (0..20).map(|back| 20 - back).collect();
    assert_eq!(tokens(&admin, "review-1", "limit=100").await, (newest.clone(), json!(20)));
    for given in 1..=3 {
        assert_eq!(claim_and_release(&admin, "review-1").await, 20 + MARGIN + given);
    }
    let (all, total) = tokens(&admin, "review-1", "limit=100").await;
    let expected: Vec<u64> = [3, 2, 1].into_iter().map(|given| 20 + MARGIN + given).chain(newest).collect();
    assert_eq!((&all, total), (&expected, json!(23)));
    for offset in 0..23 {
        let (page, _) = tokens(&admin, "review-1", &format!("limit=2&offset={offset}")).await;
        assert_eq!(page, expected[offset..(offset + 2).min(23)], "offset {offset}");
    }
    // An environment unknown to the backup may have had grants too.
    admin.put(&at("made-later"), json!({})).await.created();
    assert_eq!(claim_and_release(&admin, "made-later").await, MARGIN + 1);

    restored.kill();
    restored.start_again();
    let admin = restored.admin();
    assert_eq!(claim_and_release(&admin, "review-1").await, 20 + MARGIN + 4);
    assert_eq!(claim_and_release(&admin, "made-later").await, MARGIN + 2);
}

#[tokio::test]
async fn a_short_history_is_dropped_around_the_tokens_that_were_skipped() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = 10\n";
    let short = || setup().settings(settings);
    let mut server = short().start();
    for _ in 0..20 {
        claim_and_release(&server.admin(), "review-1").await;
    }
    let file = server.home().join("backup");
    said(&backup(&server.data_dir(), &file));
    server.kill();
    let home = tempfile::tempdir().unwrap();
    restore_home(&file, home.path(), &server.data_dir());
    let restored = short().start_at(home.path());
    let admin = restored.admin();
    let first = 20 + MARGIN + 1;
    for given in 0..30 {
        assert_eq!(claim_and_release(&admin, "review-1").await, first + given);
        let (kept, total) = tokens(&admin, "review-1", "limit=100").await;
        let new = (0..=given).rev().map(|given| first + given);
        let expected: Vec<u64> = new.chain((1..=20).rev()).take(10).collect();
        assert_eq!((kept, total), (expected, json!(10)));
    }
}

#[tokio::test]
async fn a_second_restore_raises_them_further_and_the_margin_is_the_operators_choice() {
    let mut server = setup().start();
    assert_eq!(claim_and_release(&server.admin(), "review-1").await, 1);
    let mut from = server.home().join("backup");
    said(&backup(&server.data_dir(), &from));
    let key = std::fs::read(server.data_dir().join("master.key")).unwrap();
    server.kill();
    let mut expected = 1;
    let homes = tempfile::tempdir().unwrap();
    for (round, margin) in [1000, 500].into_iter().enumerate() {
        let home = homes.path().join(round.to_string());
        std::fs::create_dir(&home).unwrap();
        let data = home.join("data");
        let words =
            ["restore", super::text(&from), "--data-dir", super::text(&data), "--fencing-margin", &margin.to_string()];
        said(&lockkeeper(&words).output().unwrap());
        std::fs::write(data.join("master.key"), &key).unwrap();
        std::fs::set_permissions(data.join("master.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let mut restored = setup().start_at(&home);
        expected += margin + 1;
        assert_eq!(claim_and_release(&restored.admin(), "review-1").await, expected);
        from = home.join("backup");
        said(&backup(&data, &from));
        restored.kill();
    }
}
