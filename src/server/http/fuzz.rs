//! Paths and queries with any content are accepted or refused without a panic.

#![allow(clippy::unwrap_used)]

use super::clients::wait_of;
use super::paging::{Page, Query, Slice};
use super::router::Router;
use domain::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, Identifier, Malformed, RegistryId, SessionId, TokenId, UserId,
    VariableName, WebhookId,
};
use http1::Request;
use testkit::fuzz::fuzz;

const ENVIRONMENT: &str = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/review-1";

#[test]
fn fuzzed_paths_and_queries_are_taken_or_refused() {
    let router = Router::new();
    let samples = [
        format!("{ENVIRONMENT}/sessions/ses_01a1dcfadc8773e9b7e277941/heartbeat"),
        format!("{ENVIRONMENT}/history?page=2&limit=100"),
        format!("{ENVIRONMENT}?waitSeconds=300"),
        "/api/v1/organizations/acme/deployments/dep_01a1dcfadc8773e9b7e27794/logs?offset=9007199254740991&limit=1"
            .to_owned(),
        "/api/v1/organizations/acme/webhooks/whk_01a1dcfadc8773e9b7e27794/deliveries/".to_owned(),
        "/health/live".to_owned(),
    ];
    let words = [
        "/",
        "//",
        "%2F",
        "%2e%2e",
        "..",
        "%",
        "%00",
        "%ff",
        "%C3%A4",
        "?",
        "&",
        "=",
        "+",
        "#",
        ";",
        "limit=",
        "page=",
        "offset=",
        "waitSeconds=",
        "18446744073709551616",
        "-1",
        "ses_",
        "q1",
        "{orgId}",
        "*",
        "\u{e4}",
    ];
    fuzz(samples, &words, |text| {
        let Some(request) = std::str::from_utf8(text).ok().and_then(Request::get) else {
            return (String::new(), [0; 3]);
        };
        let target = request.path_and_query();
        let found = match router.find(&request) {
            Ok(resource) => {
                let segments: Vec<_> = request.decoded_path().split('/').collect();
                for (name, position) in resource.parameters.iter() {
                    assert!(!segments[*position].is_empty(), "{name} of {target} is empty");
                }
                resource.parameters.iter().map(|(name, _)| name.as_str()).collect()
            }
            Err(refused) => format!("{:?}", refused.code()),
        };
        request.decoded_path().split('/').for_each(check_ids);
        let slice = Slice::of(&request);
        let mut query = Query::of(&request);
        let page = Page::take(&mut query);
        assert!((1..=100).contains(&page.limit));
        let outcomes = [slice.is_ok(), query.finish().is_ok(), wait_of(&request).is_ok()].map(u8::from);
        (found, outcomes)
    });
}

/// An accepted id is formatted as it was parsed.
fn check_ids(text: &str) {
    fn check<T: std::fmt::Display>(text: &str, read: Result<T, Malformed>) {
        if let Ok(id) = read {
            assert_eq!(id.to_string(), text);
        }
    }
    check::<SessionId>(text, text.parse());
    check::<DeploymentId>(text, text.parse());
    check::<ApprovalId>(text, text.parse());
    check::<AnalysisId>(text, text.parse());
    check::<DeliveryId>(text, text.parse());
    check::<RegistryId>(text, text.parse());
    check::<TokenId>(text, text.parse());
    check::<UserId>(text, text.parse());
    check::<WebhookId>(text, text.parse());
    check(text, Identifier::parse(text));
    check(text, VariableName::parse(text));
}
