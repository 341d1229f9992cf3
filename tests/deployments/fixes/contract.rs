//! The requests to GitHub's REST API (version 2022-11-28), and its answers: recorded, one answer per request in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::harness::Harness;
use crate::support::recorded::{Recorded, Request, Response};

pub const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

pub struct Contract {
    server: Recorded,
    answers: Arc<Mutex<VecDeque<Response>>>,
}

impl Contract {
    /// A self-hosted server, under `/api/v3`, which the pipeline's repository names.
    pub async fn start(harness: &Harness, answers: Vec<Response>) -> Self {
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let left = answers.clone();
        let server = Recorded::start(move |request: Request| {
            let answer = left.lock().unwrap().pop_front().unwrap_or_else(|| panic!("not in the contract: {request:?}"));
            std::future::ready(answer)
        })
        .await;
        harness.secret("GIT_TOKEN", TOKEN).await;
        let contract = Self { server, answers };
        let api = format!("{}/api/v3", contract.address());
        let repository = json!({ "provider": "github", "credential": "GIT_TOKEN", "apiUrl": api });
        harness.put_repository(repository).await;
        contract
    }

    pub fn address(&self) -> &str {
        &self.server.address
    }

    pub fn asked(&self) -> Vec<Request> {
        self.server.asked()
    }

    pub fn answer_next(&self, answers: Vec<Response>) {
        self.answers.lock().unwrap().extend(answers);
    }
}

/// A pull request, without most fields of the API.
pub fn created() -> Value {
    json!({
        "url": "https://github.example/api/v3/repos/acme/shop/pulls/1347",
        "id": 1, "node_id": "MDExOlB1bGxSZXF1ZXN0MQ==",
        "html_url": "https://github.example/acme/shop/pull/1347",
        "diff_url": "https://github.example/acme/shop/pull/1347.diff",
        "number": 1347, "state": "open", "locked": false, "title": "Amazing new feature",
        "user": { "login": "lockkeeper-bot", "id": 1 },
        "head": { "label": "acme:fix", "ref": "fix" }, "base": { "label": "acme:main", "ref": "main" },
        "draft": false, "merged": false, "comments": 0, "commits": 1, "changed_files": 1,
    })
}

pub fn made() -> Response {
    let location = "https://github.example/api/v3/repos/acme/shop/pulls/1347";
    Response::json(201, &created()).with("Location", location).with("X-GitHub-Request-Id", "E0F4:1B0D")
}

/// The answer for a branch that already has a pull request.
pub fn exists() -> Response {
    let message = "A pull request already exists for acme:fix.";
    Response::json(
        422,
        &json!({
            "message": "Validation Failed",
            "errors": [{ "resource": "PullRequest", "code": "custom", "message": message }],
            "documentation_url": "https://docs.github.com/rest/pulls/pulls#create-a-pull-request",
            "status": "422",
        }),
    )
}

pub fn listed() -> Response {
    Response::json(200, &json!([created()]))
}

/// An error of the API.
pub fn fault(status: u16, message: &str) -> Response {
    Response::json(
        status,
        &json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() }),
    )
}
