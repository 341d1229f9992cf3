//! Logs: unchanged, in pages, live, through a restart, and limited in size.

use serde_json::{Value, json};

use crate::site::{Site, sh, stage};
use crate::support::assert_is_time;

#[tokio::test]
async fn a_log_is_read_in_pages_and_as_json_with_what_each_line_belongs_to() {
    let site = Site::with(json!([
        { "name": "one", "steps": [{ "name": "count", "run": ["seq", "1", "5"] }, sh("printf 'no newline'")] },
        stage("two", "echo end"),
    ]))
    .await;
    let done = site.run().await;
    let logs = format!("/deployments/{}/logs", done["deploymentId"].as_str().unwrap());
    let whole = site.admin.get(&logs).await.ok();
    assert_eq!(whole.text, "1\n2\n3\n4\n5\nno newlineend\n");
    assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");

    let mut pages = String::new();
    let mut next = Some(format!("{logs}?offset=0&limit=2"));
    while let Some(path) = next {
        let page = site.admin.get(&path).await.ok();
        pages += &page.text;
        next = page.link("next").map(|link| link.split("/acme").nth(1).unwrap().to_owned());
    }
    assert_eq!(pages, whole.text);
    let json = site.admin.get(&format!("{logs}?format=json&offset=4&limit=2")).await.ok();
    let lines: Vec<Value> = json.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_is_time(&lines[0]["at"]);
    let shown =
        |line: &Value| [&line["stage"], &line["step"], &line["text"]].map(|text| text.as_str().unwrap().to_owned());
    assert_eq!(shown(&lines[0]), ["one", "count", "5"]);
    assert_eq!(shown(&lines[1]), ["one", "step-2", "no newline"]);
    assert_eq!((&lines[0]["line"], &lines[0]["attempt"]), (&json!(4), &json!(1)));
    for bad in ["offset=-1", "limit=0", "follow=maybe", "format=xml", "odd=1"] {
        site.admin.get(&format!("{logs}?{bad}")).await.refused(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn a_follower_sees_lines_as_they_come_and_the_end_with_the_deployment() {
    let script = "echo first; while [ ! -e $TRACE ]; do sleep 0.05; done; echo last";
    let site = Site::with(json!([stage("slow", script)])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    let path = site.admin.path(&format!("/deployments/{deployment}/logs?follow=true"));
    let mut response = site.admin.request(reqwest::Method::GET, &path).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("first\n") {
        seen += std::str::from_utf8(&response.chunk().await.unwrap().expect("the step still runs")).unwrap();
    }
    assert_eq!(site.deployment(&deployment).await["status"], "running", "it was seen while it ran");
    std::fs::write(&site.trace, "").unwrap();
    while let Some(chunk) = response.chunk().await.unwrap() {
        seen += std::str::from_utf8(&chunk).unwrap();
    }
    assert_eq!(seen, "first\nlast\n");
    assert_eq!(site.deployment(&deployment).await["status"], "succeeded", "the stream ended with the deployment");
}

#[tokio::test]
async fn a_log_survives_a_kill() {
    let mut site = Site::with(json!([stage("talk", "seq 1 1000; echo ready; sleep 600")])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_printed(&deployment, "ready").await;
    site.server.kill();
    site.start_again();
    site.finished(&deployment).await;
    let log = site.log(&deployment).await;
    let expected: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    assert!(log.starts_with(&format!("{expected}ready\n")), "{log}");
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_are_capped_with_their_beginning_and_their_end() {
    let script = "echo the beginning; head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end";
    let site = Site::with(json!([stage("flood", script)])).await;
    let done = site.run().await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    let log = site.log(done["deploymentId"].as_str().unwrap()).await;
    assert!(log.len() < 10 << 20, "{} bytes", log.len());
    assert!(log.starts_with("the beginning\nxxx"));
    assert!(log.ends_with("\nthe end\n"), "{}", &log[log.len() - 200..]);
    assert!(log.contains("left out"));
}
