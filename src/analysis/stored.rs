//! The stored form of analyses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::EngineName;
use super::record::{Analysis, Compared, PullRequest, Pushing, Report, Standing};
use super::{Category, Evidence, SuggestedFix};
use crate::domain::{
    AnalysisId, CommitId, DeploymentId, IdSeed, Identifier, Initiator, Malformed, RequestRef, Timestamp,
};
use crate::store::record::{self, RecordError, records, stored_enum};
use crate::stored::{EnvironmentKeyV1, PersonV1, ViaV1};

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

#[derive(Serialize, Deserialize)]
struct AnalysisV1<'a> {
    id: [u8; 12],
    #[serde(borrow)]
    environment: EnvironmentKeyV1<'a>,
    deployment: [u8; 12],
    engine: EngineV1,
    #[serde(borrow)]
    user: PersonV1<'a>,
    #[serde(borrow)]
    via: Option<ViaV1<'a>>,
    created_at: i64,
    #[serde(borrow)]
    standing: StandingV1<'a>,
    #[serde(borrow)]
    pushing: Option<PushingV1<'a>>,
    #[serde(borrow)]
    pull_request: Option<PullRequestV1<'a>>,
    revision: u32,
}

stored_enum!(EngineV1, EngineName { Builtin, Llm });

#[derive(Serialize, Deserialize)]
enum StandingV1<'a> {
    Running,
    Completed {
        at: i64,
        #[serde(borrow)]
        report: Box<ReportV1<'a>>,
    },
    Failed {
        at: i64,
        reason: &'a str,
    },
}

#[derive(Serialize, Deserialize)]
struct ReportV1<'a> {
    engine: EngineV1,
    /// By its name: the list grows, and its order is nobody's concern.
    category: &'a str,
    summary: &'a str,
    #[serde(borrow)]
    evidence: Vec<EvidenceV1<'a>>,
    confidence: f64,
    #[serde(borrow)]
    fix: Option<FixV1<'a>>,
    #[serde(borrow)]
    compared_with: Option<([u8; 12], &'a str)>,
}

#[derive(Serialize, Deserialize)]
struct EvidenceV1<'a> {
    stage: &'a str,
    step: &'a str,
    line: u32,
    text: &'a str,
}

#[derive(Serialize, Deserialize)]
struct FixV1<'a> {
    summary: &'a str,
    patch: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct PushingV1<'a> {
    branch: &'a str,
    commit: &'a str,
}

#[derive(Serialize, Deserialize)]
struct PullRequestV1<'a> {
    url: &'a str,
    branch: &'a str,
    number: Option<u64>,
    created_at: i64,
}

pub fn encode(analysis: &Analysis) -> Vec<u8> {
    let Initiator { person, via } = &analysis.requested_by;
    record::encode(&AnalysisV1 {
        id: analysis.id.0.0,
        environment: (&analysis.environment).into(),
        deployment: analysis.deployment.0.0,
        engine: analysis.engine.into(),
        user: person.into(),
        via: via.as_ref().map(ViaV1::from),
        created_at: analysis.created_at.as_millis(),
        standing: match &analysis.standing {
            Standing::Running => StandingV1::Running,
            Standing::Completed { at, report } => {
                StandingV1::Completed { at: at.as_millis(), report: Box::new((&**report).into()) }
            }
            Standing::Failed { at, reason } => StandingV1::Failed { at: at.as_millis(), reason },
        },
        pushing: analysis.pushing.as_ref().map(|p| PushingV1 { branch: &p.branch, commit: &p.commit }),
        pull_request: analysis.pull_request.as_ref().map(|made| PullRequestV1 {
            url: &made.url,
            branch: &made.branch,
            number: made.number,
            created_at: made.created_at.as_millis(),
        }),
        revision: analysis.revision,
    })
}

pub fn decode(bytes: &[u8]) -> Result<Analysis, RecordError> {
    record::read::<AnalysisV1<'_>, _>(bytes)
}

impl TryFrom<AnalysisV1<'_>> for Analysis {
    type Error = Malformed;

    fn try_from(form: AnalysisV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: AnalysisId(IdSeed(form.id)),
            environment: form.environment.try_into()?,
            deployment: DeploymentId(IdSeed(form.deployment)),
            engine: form.engine.into(),
            requested_by: Initiator { person: form.user.into(), via: form.via.map(RequestRef::from) },
            created_at: Timestamp::from_millis(form.created_at),
            standing: match form.standing {
                StandingV1::Running => Standing::Running,
                StandingV1::Completed { at, report } => {
                    Standing::Completed { at: Timestamp::from_millis(at), report: Box::new(Report::try_from(*report)?) }
                }
                StandingV1::Failed { at, reason } => {
                    Standing::Failed { at: Timestamp::from_millis(at), reason: Arc::from(reason) }
                }
            },
            pushing: form.pushing.map(|p| Pushing { branch: p.branch.to_owned(), commit: p.commit.to_owned() }),
            pull_request: form.pull_request.map(|made| PullRequest {
                url: made.url.to_owned(),
                branch: made.branch.to_owned(),
                number: made.number,
                created_at: Timestamp::from_millis(made.created_at),
            }),
            revision: form.revision,
        })
    }
}

impl<'a> From<&'a Report> for ReportV1<'a> {
    fn from(report: &'a Report) -> Self {
        let evidence = |line: &'a Evidence| EvidenceV1 {
            stage: line.stage.as_str(),
            step: line.step.as_str(),
            line: line.line,
            text: &line.text,
        };
        Self {
            engine: report.engine.into(),
            category: report.category.as_str(),
            summary: &report.summary,
            evidence: report.evidence.iter().map(evidence).collect(),
            confidence: report.confidence,
            fix: report.fix.as_ref().map(|fix| FixV1 { summary: &fix.summary, patch: fix.patch.as_deref() }),
            compared_with: report.compared_with.as_ref().map(|with| (with.deployment.0.0, with.commit.as_str())),
        }
    }
}

impl TryFrom<ReportV1<'_>> for Report {
    type Error = Malformed;

    fn try_from(form: ReportV1<'_>) -> Result<Self, Malformed> {
        let evidence = |line: EvidenceV1<'_>| {
            Ok(Evidence {
                stage: Identifier::parse(line.stage)?,
                step: Identifier::parse(line.step)?,
                line: line.line,
                text: line.text.to_owned(),
            })
        };
        let compared = |(deployment, commit): ([u8; 12], &str)| {
            Ok(Compared { deployment: DeploymentId(IdSeed(deployment)), commit: CommitId::parse(commit)? })
        };
        Ok(Self {
            engine: form.engine.into(),
            category: Category::parse(form.category)?,
            summary: form.summary.to_owned(),
            evidence: form.evidence.into_iter().map(evidence).collect::<Result<_, Malformed>>()?,
            confidence: form.confidence,
            fix: form
                .fix
                .map(|fix| SuggestedFix { summary: fix.summary.to_owned(), patch: fix.patch.map(str::to_owned) }),
            compared_with: form.compared_with.map(compared).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{EnvironmentKey, Person, PipelineKey, TokenId, UserId};
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
}
