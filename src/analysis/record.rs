//! One analysis, from its request to its pull request, and its stored form.

use std::sync::Arc;

use super::{Alternative, Category, Compared, EngineName, Evidence, Finding, SuggestedFix};
use domain::named::named_enum;
use domain::{AnalysisId, CommitId, DeploymentId, EnvironmentKey, EventData, Identifier, Initiator, Timestamp};
use events::{Cause, NewEvent};
use records::stored::{Stored, stored, stored_as, stored_enum};
use store::keys::{ANALYSES, in_organization};
use store::record::{self, Record, RecordError, records};
use store::{Batch, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    pub id: AnalysisId,
    pub environment: EnvironmentKey,
    pub deployment: DeploymentId,
    /// The requested engine.
    pub engine: EngineName,
    pub requested_by: Initiator,
    pub created_at: Timestamp,
    pub standing: Standing,
    /// The branch and commit of a fix, stored before the push, so that a retry after a crash recognises its own branch.
    pub pushing: Option<Pushing>,
    pub pull_request: Option<PullRequest>,
    /// Rises with every change.
    pub revision: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Running,
    Completed { at: Timestamp, report: Box<Finding> },
    Failed { at: Timestamp, reason: Arc<str> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushing {
    pub branch: String,
    /// The commit, in hexadecimal digits.
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub url: String,
    pub branch: String,
    /// None if there is only a branch.
    pub number: Option<u64>,
    pub created_at: Timestamp,
}

named_enum! {
    pub enum Status {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum AnalysisError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("too many analyses are under way")]
    Overloaded,
    #[error("the analysis does not exist or is no longer kept")]
    NotFound,
}

impl Analysis {
    pub fn status(&self) -> Status {
        match self.standing {
            Standing::Running => Status::Running,
            Standing::Completed { .. } => Status::Completed,
            Standing::Failed { .. } => Status::Failed,
        }
    }

    pub fn report(&self) -> Option<&Finding> {
        match &self.standing {
            Standing::Completed { report, .. } => Some(report),
            Standing::Running | Standing::Failed { .. } => None,
        }
    }

    /// The engine that answered; before that, the requested one.
    pub fn answered_by(&self) -> EngineName {
        self.report().map_or(self.engine, |report| report.engine)
    }

    /// Records an event about the analysis.
    pub fn record_event(&self, batch: &mut Batch, data: &EventData, cause: Cause) {
        let event = NewEvent::new(data, cause).in_environment(&self.environment);
        let event = NewEvent { deployment: Some(self.deployment), ..event };
        events::record(batch, &self.environment.pipeline.organization, &event);
    }

    pub fn completed_at(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Completed { at, .. } | Standing::Failed { at, .. } => Some(at),
            Standing::Running => None,
        }
    }
}

records!(AnalysisV1<'a> = "analysis");

/// The form of an analysis with alternatives. One without alternatives is still written in the previous form.
#[derive(serde::Serialize, serde::Deserialize)]
struct AnalysisV2<'a> {
    #[serde(borrow)]
    before: AnalysisV1<'a>,
    #[serde(borrow)]
    alternatives: Vec<AlternativeV1<'a>>,
}

impl<'a> Record<'a> for AnalysisV2<'a> {
    const KIND: &'static str = AnalysisV1::KIND;
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, alternatives: Vec::new() })
    }
}

/// `N/{organization}/{seed, inverted}`: the newest comes first.
pub fn key(organization: &Identifier, id: AnalysisId) -> Vec<u8> {
    [organization_prefix(organization).as_slice(), &id.0.0.map(|byte| !byte)].concat()
}

pub fn organization_prefix(organization: &Identifier) -> Vec<u8> {
    in_organization(ANALYSES, organization.as_str())
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
    Completed { at: Timestamp, report: Box<Finding> },
    Failed { at: Timestamp, reason: Arc<str> },
});

stored! {
    struct ReportV1 of Finding {
        engine: EngineName,
        category: Category,
        summary: String,
        evidence: Vec<Evidence>,
        confidence: f64,
        fix: Option<SuggestedFix>,
        compared_with: Option<Compared>,
    }
    not stored { alternatives: Vec::new() }
}

stored! {
    struct AlternativeV1 of Alternative { category: Category, summary: String, evidence: Vec<Evidence>, confidence: f64 }
}

// Stored by name, so that the list may be extended and reordered.
stored_as!(&'a str: |category| category.as_str(), |name| Self::parse(name); Category);
stored! { struct EvidenceV1 of Evidence { stage: Identifier, step: Identifier, line: u32, text: String } }
stored! { struct FixV1 of SuggestedFix { summary: String, patch: Option<String> } }
stored! { struct ComparedV1 of Compared { deployment: DeploymentId, commit: CommitId } }
stored! { struct PushingV1 of Pushing { branch: String, commit: String } }
stored! {
    struct PullRequestV1 of PullRequest { url: String, branch: String, number: Option<u64>, created_at: Timestamp }
}

pub fn encode(analysis: &Analysis) -> Vec<u8> {
    let alternatives = analysis.report().map_or(&[][..], |report| &report.alternatives);
    if alternatives.is_empty() {
        return record::encode(&analysis.to_form());
    }
    let alternatives = alternatives.iter().map(Stored::to_form).collect();
    record::encode(&AnalysisV2 { before: analysis.to_form(), alternatives })
}

pub fn decode(bytes: &[u8]) -> Result<Analysis, RecordError> {
    let AnalysisV2 { before, alternatives } = record::decode(bytes)?;
    let mut analysis = Analysis::from_form(before).map_err(record::invalid::<AnalysisV2<'_>>)?;
    if let Standing::Completed { report, .. } = &mut analysis.standing {
        report.alternatives = Vec::from_form(alternatives).map_err(record::invalid::<AnalysisV2<'_>>)?;
    }
    Ok(analysis)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{IdSeed, Person, PipelineKey, RequestRef, TokenId, UserId};
    use store::record::Fault;
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

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

    fn report() -> Finding {
        let evidence = Evidence { stage: id("build"), step: id("step-1"), line: 7, text: "é\u{1b}".to_owned() };
        Finding {
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
            alternatives: Vec::new(),
        }
    }

    fn completed(report: Finding) -> Standing {
        Standing::Completed { at: Timestamp::from_millis(3), report: Box::new(report) }
    }

    fn with_alternatives() -> Analysis {
        let Finding { category, summary, evidence, .. } = report();
        let alternatives = vec![Alternative { category, summary, evidence, confidence: 0.31 }];
        analysis(completed(Finding { alternatives, ..report() }))
    }

    #[test]
    fn alternatives_are_kept() {
        let analysis = with_alternatives();
        assert_eq!(decode(&encode(&analysis)).unwrap(), analysis);
    }

    #[test]
    fn analyses_of_format_4_are_read() {
        let at = Timestamp::from_millis(3);
        for (name, standing) in [
            ("analysis, running", Standing::Running),
            ("analysis, completed", completed(report())),
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
        bytes[0] = 3;
        assert_eq!(decode(&bytes).unwrap_err().fault, Fault::Newer { found: 3, newest: 2 });
    }

    #[test]
    fn newer_analyses_come_first() {
        let of = |seed| key(&id("acme"), AnalysisId(IdSeed([seed; 12])));
        assert!(of(2) < of(1));
    }

    #[test]
    fn fuzzed_analyses_are_read_or_refused() {
        let [running, completed, failed] =
            ["running", "completed", "failed"].map(|kind| format_4(&format!("analysis, {kind}")));
        fuzz_record([running, completed, failed, encode(&with_alternatives())], decode, encode);
    }
}
