//! Pull requests on a GitHub server: the exact requests, and the results of each answer.

use serde_json::{Value, json};

use super::contract::{Contract, TOKEN, created, exists, fault, listed, made};
use super::harness::{Harness, branch};
use crate::support::recorded::Response;

/// The exact document of an analysis.
fn document(analysis: &Value) -> String {
    let cause = &analysis["rootCause"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let fenced = |value: &Value| {
        let longest = text(value).split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        format!("{fence}text\n{}\n{fence}\n", text(value).trim_end())
    };
    let mut expected = format!(
        "# Why {} failed\n\n- Environment: `acme/web/review-1`\n- Analysis: `{}`\n- Category: `{}`\n- Engine: `builtin`\n\
         - Confidence: {:.0}%\n\n## Root cause\n\n{}\n## Evidence\n",
        text(&analysis["deploymentId"]),
        text(&analysis["analysisId"]),
        text(&cause["category"]),
        analysis["confidence"].as_f64().unwrap() * 100.0,
        fenced(&cause["summary"]),
    );
    for line in cause["evidence"].as_array().unwrap() {
        let place = (text(&line["stage"]), text(&line["step"]), line["line"].as_u64().unwrap());
        expected +=
            &format!("\nStage `{}`, step `{}`, line {}:\n\n{}", place.0, place.1, place.2, fenced(&line["text"]));
    }
    expected + "\n## Suggested fix\n\n" + &fenced(&analysis["suggestedFix"]["summary"])
}

#[tokio::test]
async fn a_pull_request_is_opened_with_exactly_this_request() {
    let Some(harness) = Harness::new().await else { return };
    let contract = Contract::start(&harness, vec![made()]).await;
    let analysis = harness.analysis().await;
    let made = harness.propose(&analysis, json!({ "draft": true })).await.created().data();
    assert_eq!(made["url"], "https://github.example/acme/shop/pull/1347");
    assert_eq!((&made["number"], &made["branch"]), (&json!(1347), &json!(branch(&analysis))));
    assert!(harness.branches().contains(&branch(&analysis)));

    let asked = contract.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((&*asked[0].method, &*asked[0].path), ("POST", "/api/v3/repos/acme/shop/pulls"));
    let mut headers = asked[0].headers.clone();
    headers.sort_unstable();
    let (host, length) = (contract.address().trim_start_matches("http://").to_owned(), asked[0].body.len().to_string());
    let expected = [
        ("accept", "application/vnd.github+json"),
        ("authorization", &format!("Bearer {TOKEN}")),
        ("content-length", &length),
        ("content-type", "application/json"),
        ("host", &host),
        ("user-agent", concat!("lockkeeper/", env!("CARGO_PKG_VERSION"))),
        ("x-github-api-version", "2022-11-28"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let body = json!({
        "title": "Fix the failed deployment of acme/web/review-1 (missing_command)",
        "head": branch(&analysis),
        "base": "main",
        "body": document(&analysis),
        "draft": true,
    });
    assert_eq!(asked[0].json(), body);
}

#[tokio::test]
async fn a_pull_request_that_is_there_already_is_looked_up_with_exactly_this_request() {
    let Some(harness) = Harness::new().await else { return };
    let contract = Contract::start(&harness, vec![exists(), listed()]).await;
    let analysis = harness.analysis().await;
    let body = json!({ "branch": "fix/a+b", "title": "Mend it" });
    let made = harness.propose(&analysis, body).await.created().data();
    assert_eq!((&made["number"], &made["url"]), (&created()["number"], &created()["html_url"]));
    let asked = contract.asked();
    assert_eq!((asked[0].json()["title"].clone(), asked[0].json()["draft"].clone()), (json!("Mend it"), json!(false)));
    assert_eq!(asked[1].method, "GET");
    assert_eq!(asked[1].path, "/api/v3/repos/acme/shop/pulls?head=acme%3Afix%2Fa%2Bb&state=open");
    assert_eq!(asked[1].header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!((asked[1].header("x-github-api-version"), &*asked[1].body), ("2022-11-28", ""));
}

#[tokio::test]
async fn every_refusal_is_told_apart_and_asked_again_it_goes_on_without_another_push() {
    let Some(harness) = Harness::new().await else { return };
    let contract = Contract::start(&harness, Vec::new()).await;
    let analysis = harness.analysis().await;
    let elsewhere = format!("{}/elsewhere", contract.address());
    let limited = || fault(403, "API rate limit exceeded for user ID 1.").with("X-RateLimit-Remaining", "0");
    let not_json = Response { body: "<html>".to_owned(), ..Response::json(201, &json!(null)) };
    let not_a_link = Response::json(201, &json!({ "html_url": "javascript:alert(1)", "number": 1 }));
    let huge = Response { body: " ".repeat(2 * 1024 * 1024), ..Response::json(201, &json!(null)) };
    let cases = [
        (fault(401, "Bad credentials"), "authentication"),
        (fault(403, "Resource not accessible by personal access token"), "forbidden"),
        (limited(), "rate_limited"),
        (fault(429, "You have exceeded a secondary rate limit").with("Retry-After", "17"), "rate_limited"),
        (fault(404, "Not Found"), "not_found"),
        (fault(307, "Temporary Redirect").with("Location", &elsewhere), "not_found"),
        (fault(422, "Validation Failed: base is invalid"), "refused"),
        (fault(500, "Server Error"), "failed"),
        (fault(503, "Unavailable"), "failed"),
        (not_json, "failed"),
        (not_a_link, "failed"),
        (huge, "failed"),
    ];
    let mut pushed = None;
    let count = cases.len();
    for (answer, reason) in cases {
        let status = answer.status;
        contract.answer_next(vec![answer]);
        let refused = harness.propose(&analysis, json!({})).await.refused(502, "remote_failed");
        assert_eq!(refused.json()["reason"], reason, "{status}: {refused:?}");
        assert!(!refused.text.contains(TOKEN));
        if status == 429 {
            assert_eq!(refused.header("retry-after"), "17");
        }
        let now = harness.git(&format!("rev-parse {}", branch(&analysis)));
        assert_eq!(*pushed.get_or_insert_with(|| now.clone()), now, "it was pushed again");
        assert_eq!(harness.read(&analysis).await["pullRequest"], Value::Null);
    }
    contract.answer_next(vec![made()]);
    harness.propose(&analysis, json!({})).await.created();
    let asked = contract.asked();
    assert_eq!(asked.len(), count + 1, "no redirect was followed");
    assert!(asked.iter().all(|request| request.path == "/api/v3/repos/acme/shop/pulls"));
    assert!(!harness.site.server.log().contains(TOKEN));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told() {
    let Some(harness) = Harness::new().await else { return };
    let analysis = harness.analysis().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    harness.secret("GIT_TOKEN", TOKEN).await;
    let api = format!("http://{closed}");
    harness.put_repository(json!({ "provider": "github", "credential": "GIT_TOKEN", "apiUrl": api })).await;
    let refused = harness.propose(&analysis, json!({})).await.refused(502, "remote_failed");
    assert_eq!(refused.json()["reason"], "unreachable");
    assert!(!refused.text.contains(TOKEN));
}
