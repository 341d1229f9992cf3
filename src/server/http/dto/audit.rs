//! The result of an audit, as the API and `lockkeeper audit verify --json` show it.

use serde::Serialize;
use utoipa::ToSchema;

use events::{AuditReport, Expectation, ExpectationStatus, SealStatus};

/// Whether the recorded events of an organization are those that happened.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Audit)]
pub struct AuditView<'a> {
    /// Whose events they are.
    #[schema(example = "acme")]
    organization: &'a str,
    /// How many are kept.
    #[schema(example = 1234)]
    events: u64,
    /// The number of the first that is kept.
    #[schema(example = 0)]
    first: u64,
    /// Whether there is no fault, and all that were expected are there or older than those that are kept.
    #[schema(example = true)]
    intact: bool,
    /// The last event. Store it in a safe place, and pass it as `expect` later.
    head: Option<NotedEventView>,
    /// How many security events have outlived the others.
    #[schema(example = 12)]
    archived: u64,
    seals: SealsView,
    /// The first fault.
    fault: Option<AuditFaultView>,
    /// The events that were expected, in the order in which they were asked for.
    expected: Vec<ExpectedEventView>,
}

/// An event by its number and hash.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NotedEvent)]
pub struct NotedEventView {
    /// Events are numbered in the order in which they were recorded.
    #[schema(example = 1233)]
    number: u64,
    /// Of the event and of all before it, in hexadecimal digits.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    hash: String,
}

/// How far the seals vouch for the events. Only a server with the master key can make them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditSeals)]
pub struct SealsView {
    status: SealsStatus,
    /// The number of the next event when the first seal was made; null unless they were checked.
    #[schema(example = 0)]
    from: Option<u64>,
    /// The number after the last sealed event; null unless they were checked.
    #[schema(example = 1234)]
    next: Option<u64>,
}

/// Whether the seals were checked.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditSealsStatus)]
pub enum SealsStatus {
    None,
    NotChecked,
    Checked,
}

/// An event that has been changed, removed, inserted or moved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditFault)]
pub struct AuditFaultView {
    /// The number of the first event that is touched.
    #[schema(example = 17)]
    number: u64,
    /// In words.
    #[schema(example = "event 17 has been changed")]
    what: String,
}

/// An event that should be part of the chain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExpectedEvent)]
pub struct ExpectedEventView {
    /// As it was asked for.
    #[schema(example = 1233)]
    number: u64,
    /// As it was asked for, in hexadecimal digits.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    hash: String,
    found: ExpectedStatus,
}

/// Whether it was found. `no_longer_kept`: it is older than the events that are kept, so nobody can tell.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ExpectedEventStatus)]
pub enum ExpectedStatus {
    There,
    Absent,
    NoLongerKept,
}

impl<'a> From<&'a AuditReport> for AuditView<'a> {
    fn from(report: &'a AuditReport) -> Self {
        let fault = report.fault.as_ref();
        Self {
            organization: report.organization.as_str(),
            events: report.events(),
            first: report.first,
            intact: report.is_intact(),
            head: report.head.map(|Expectation { number, hash }| NotedEventView { number, hash: in_hex(&hash) }),
            archived: report.archived,
            seals: SealsView::from(report.seals),
            fault: fault.map(|fault| AuditFaultView { number: fault.number, what: fault.to_string() }),
            expected: report.expected.iter().map(ExpectedEventView::from).collect(),
        }
    }
}

impl From<SealStatus> for SealsView {
    fn from(seals: SealStatus) -> Self {
        let (status, from, next) = match seals {
            SealStatus::None => (SealsStatus::None, None, None),
            SealStatus::Unchecked => (SealsStatus::NotChecked, None, None),
            SealStatus::Checked { from, next } => (SealsStatus::Checked, Some(from), Some(next)),
        };
        Self { status, from, next }
    }
}

impl From<&(Expectation, ExpectationStatus)> for ExpectedEventView {
    fn from((expected, found): &(Expectation, ExpectationStatus)) -> Self {
        let found = match found {
            ExpectationStatus::Present => ExpectedStatus::There,
            ExpectationStatus::Absent => ExpectedStatus::Absent,
            ExpectationStatus::NoLongerKept => ExpectedStatus::NoLongerKept,
        };
        Self { number: expected.number, hash: in_hex(&expected.hash), found }
    }
}

fn in_hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
