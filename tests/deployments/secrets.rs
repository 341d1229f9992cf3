//! Secrets reach the steps and nobody else.

use serde_json::json;

use crate::site::{Site, stage};

const VALUE: &str = "correct-horse-battery-staple";

#[tokio::test]
async fn a_step_has_its_secrets_and_its_log_has_not() {
    // In pieces, as a whole, within other text, in base64 of three alignments, on stderr.
    let script = r#"
        [ ${#TOKEN} = 28 ] || exit 9
        printf 'correct-horse'; sleep 0.3; printf -- '-battery-'; sleep 0.3; printf 'staple\n'
        echo "token=$TOKEN;"; echo "$TOKEN" >&2
        printf '%s' "$TOKEN" | base64; printf 'x%s' "$TOKEN" | base64; printf 'xy%s' "$TOKEN" | base64
        echo done
    "#;
    let site = Site::with(json!([stage("print", script)])).await;
    site.admin.post("/secrets", json!({ "name": "TOKEN", "value": VALUE })).await.created();
    let done = site.run().await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    let log = site.log(done["deploymentId"].as_str().unwrap()).await;
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines[..3], ["***", "token=***;", "***"], "{log}");
    assert_eq!((lines.len(), lines[6]), (7, "done"), "{log}");
    for (number, line) in lines.iter().enumerate().take(6) {
        // Any remaining piece of it, plain or encoded.
        for piece in ["horse", "battery", "Y29ycmVjd", "aG9yc2U", "YmF0dGVye", "c3RhcGxl"] {
            assert!(!line.contains(piece), "line {number}: {line}");
        }
    }
    for place in [site.server.log(), done.to_string(), site.admin.get("/deployments").await.text] {
        assert!(!place.contains(VALUE));
    }
    let mut files = vec![site.server.data_dir()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            assert!(!bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_secret_that_programs_encode_is_not_in_the_log() {
    let script = r#"
        printf '%q\n' "$TOKEN"; set -x; : "$TOKEN"; set +x
        printf '%s' "$TOKEN" | od -A x -t x1z; printf '%s' "$TOKEN" | od; printf '%s' "$TOKEN" | base32
        printf '%s' "$TOKEN" | od -A n -v -t x1 | tr -d '\n ' | sed 's/../%&/g'; echo
        printf '%s' "$TOKEN" | sed 's/&/\&amp;/g; s/</\&lt;/g'; echo
        printf '%s' "$TOKEN" | sed 's/\//\\\//g'; echo; echo done
    "#;
    let stages = json!([{ "name": "print", "steps": [{ "name": "all", "run": ["bash", "-c", script] }] }]);
    let site = Site::with(stages).await;
    site.admin.post("/secrets", json!({ "name": "TOKEN", "value": "s3cret/value & <more> of it" })).await.created();
    let done = site.run().await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    let log = site.log(done["deploymentId"].as_str().unwrap()).await;
    assert!(log.ends_with("done\n") && log.matches("***").count() >= 8, "{log}");
    let pieces = ["s3cret", "value", "more", "73 33 63", "%73%33", "OMZWG4TFOQ", "062563", "amp;"];
    assert!(pieces.iter().all(|piece| !log.contains(piece)), "{log}");
}

#[tokio::test]
async fn a_pipelines_secret_wins_over_the_organizations_and_a_new_value_counts_from_the_next_stage() {
    let site = Site::with(json!([stage("check", r#"[ "$WHO" = "$(cat $TRACE)" ]"#)])).await;
    let run = async |expected: &str| {
        std::fs::write(&site.trace, expected).unwrap();
        let session = site.claim().await;
        let deployment = site.deploy(&session).await;
        let done = site.finished(&deployment).await;
        site.admin.release(crate::site::ENVIRONMENT, &session).await.ok();
        assert_eq!(done["status"], "succeeded", "it was not {expected}: {done:#}");
    };
    site.admin.post("/secrets", json!({ "name": "WHO", "value": "everybody" })).await.created();
    run("everybody").await;
    site.admin.post("/secrets", json!({ "name": "WHO", "value": "web-only", "pipelineId": "web" })).await.created();
    run("web-only").await;
    site.admin.put("/secrets/WHO?pipelineId=web", json!({ "value": "web-anew" })).await.ok();
    run("web-anew").await;
    site.admin.delete("/secrets/WHO?pipelineId=web").await.has_status(204);
    run("everybody").await;
}

#[tokio::test]
async fn an_error_that_would_tell_a_secret_does_not() {
    let http = json!({ "url": "http://127.0.0.1:1/${TOKEN}", "headers": { "Authorization": "Bearer ${TOKEN}" } });
    let site = Site::with(json!([{ "name": "call", "steps": [{ "http": http }] }])).await;
    site.admin.post("/secrets", json!({ "name": "TOKEN", "value": VALUE })).await.created();
    let failed = site.run().await;
    assert_eq!(failed["status"], "failed");
    let log = site.log(failed["deploymentId"].as_str().unwrap()).await;
    for place in [failed.to_string(), log, site.server.log()] {
        assert!(!place.contains(VALUE), "{place}");
    }
}
