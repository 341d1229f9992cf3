//! The stored form of analyses.

use std::sync::Arc;

use super::EngineName;
use super::record::{Analysis, Compared, PullRequest, Pushing, Report, Standing};
use super::{Category, Evidence, SuggestedFix};
use crate::domain::{AnalysisId, CommitId, DeploymentId, EnvironmentKey, Identifier, Initiator, Timestamp};
use crate::store::record::{self, RecordError, records};
use crate::stored::{self, Stored, stored, stored_as, stored_enum};

records!(AnalysisV1<'a> = "analysis");

/// What all analyses begin with, whosever they are.
pub const ANALYSES: &[u8] = b"N/";

/// `N/{organization}/{seed, inverted}`: the newest comes first.
pub fn key(organization: &Identifier, id: AnalysisId) -> Vec<u8> {
    [organization_prefix(organization).as_slice(), &id.0.0.map(|byte| !byte)].concat()
}

pub fn organization_prefix(organization: &Identifier) -> Vec<u8> {
    [ANALYSES, organization.as_str().as_bytes(), b"/"].concat()
}

stored! {
    struct AnalysisV1 of Analysis {
        id: AnalysisId,
        environment: EnvironmentKey,
        deployment: DeploymentId,
        engine: EngineName,
        requested_by: Initiator,
        created_at: Timestamp,
        standing: Standing,
        pushing: Option<Pushing>,
        pull_request: Option<PullRequest>,
        revision: u32,
    }
}

stored_enum!(EngineV1 of EngineName { Builtin, Llm });
stored_enum!(StandingV1<'a> of Standing {
    Running,
    Completed { at: Timestamp, report: Box<Report> },
    Failed { at: Timestamp, reason: Arc<str> },
});

stored! {
    struct ReportV1 of Report {
        engine: EngineName,
        category: Category,
        summary: String,
        evidence: Vec<Evidence>,
        confidence: f64,
        fix: Option<SuggestedFix>,
        compared_with: Option<Compared>,
    }
}

// By its name: the list grows, and its order is nobody's concern.
stored_as!(&'a str: |category| category.as_str(), |name| Self::parse(name); Category);
stored! { struct EvidenceV1 of Evidence { stage: Identifier, step: Identifier, line: u32, text: String } }
stored! { struct FixV1 of SuggestedFix { summary: String, patch: Option<String> } }
stored! { struct ComparedV1 of Compared { deployment: DeploymentId, commit: CommitId } }
stored! { struct PushingV1 of Pushing { branch: String, commit: String } }
stored! {
    struct PullRequestV1 of PullRequest { url: String, branch: String, number: Option<u64>, created_at: Timestamp }
}

pub fn encode(analysis: &Analysis) -> Vec<u8> {
    record::encode(&analysis.to_form())
}

pub fn decode(bytes: &[u8]) -> Result<Analysis, RecordError> {
    stored::read(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{IdSeed, Person, PipelineKey, RequestRef, TokenId, UserId};
    use crate::fuzz::fuzz_record;
    use crate::store::fixtures::{assert_written_as_format_4, format_4};
    use crate::store::record::Fault;

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    fn analysis(standing: Standing) -> Analysis {
        Analysis {
            id: AnalysisId(IdSeed([1; 12])),
            environment: EnvironmentKey {
                pipeline: PipelineKey { organization: id("acme"), pipeline: id("web") },
                name: id("review-1"),
            },
            deployment: DeploymentId(IdSeed([2; 12])),
            engine: EngineName::Llm,
            requested_by: Initiator {
                person: Person { id: UserId(IdSeed([3; 12])), name: "ana".into() },
                via: Some(RequestRef { token: TokenId(IdSeed([4; 12])), request: "req_7".into() }),
            },
            created_at: Timestamp::from_millis(1),
            standing,
            pushing: Some(Pushing { branch: "fix".to_owned(), commit: "a".repeat(40) }),
            pull_request: Some(PullRequest {
                url: "https://git.example/pull/7".to_owned(),
                branch: "fix".to_owned(),
                number: Some(7),
                created_at: Timestamp::from_millis(2),
            }),
            revision: 4,
        }
    }

    #[test]
    fn analyses_of_format_4_are_read() {
        let evidence = Evidence { stage: id("build"), step: id("step-1"), line: 7, text: "é\u{1b}".to_owned() };
        let report = Report {
            engine: EngineName::Builtin,
            category: Category::MissingCommand,
            summary: "`jq` is missing".to_owned(),
            evidence: vec![evidence],
            confidence: 0.93,
            fix: Some(SuggestedFix { summary: "install it".to_owned(), patch: Some("--- a\n+++ b\n".to_owned()) }),
            compared_with: Some(Compared {
                deployment: DeploymentId(IdSeed([9; 12])),
                commit: CommitId::parse("c0ffee1").unwrap(),
            }),
        };
        let at = Timestamp::from_millis(3);
        for (name, standing) in [
            ("analysis, running", Standing::Running),
            ("analysis, completed", Standing::Completed { at, report: Box::new(report) }),
            ("analysis, failed", Standing::Failed { at, reason: "forgotten".into() }),
        ] {
            let analysis = analysis(standing);
            assert_written_as_format_4(name, &encode(&analysis));
            assert_eq!(decode(&format_4(name)).unwrap(), analysis, "{name}");
        }
    }

    #[test]
    fn what_is_not_of_this_version_is_refused() {
        let mut bytes = encode(&analysis(Standing::Running));
        assert!(matches!(decode(&bytes[..bytes.len() - 1]).unwrap_err().fault, Fault::Form(_)));
        bytes[0] += 1;
        assert_eq!(decode(&bytes).unwrap_err().fault, Fault::Newer { found: 2, newest: 1 });
    }

    #[test]
    fn newer_analyses_come_first() {
        let of = |seed| key(&id("acme"), AnalysisId(IdSeed([seed; 12])));
        assert!(of(2) < of(1));
    }

    #[test]
    fn fuzzed_analyses_are_read_or_refused() {
        fuzz_record(
            ["running", "completed", "failed"].map(|kind| format_4(&format!("analysis, {kind}"))),
            decode,
            encode,
        );
    }
}
