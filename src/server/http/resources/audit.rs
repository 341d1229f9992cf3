//! Verifies the recorded events of an organization, while the server runs.

use actix_web::http::StatusCode;
use actix_web::web;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::state::Realm;
use accounts::auth::Permission;
use domain::{Hex, Identifier};
use events::{AuditReport, Expectation, ExpectationStatus, SealStatus};
use http1::{Request, Response};
use store::StoreError;

/// Expected events per request: heads noted once a day for months.
pub const EXPECTED_MAX: usize = 100;

pub async fn verify(call: Call) -> Answered {
    let access = Access::to(&call, Permission::VerifyEvents)?;
    let mut query = Query::of(&call.request);
    let expected = take_expected(&mut query);
    query.finish()?;
    let organization = access.caller.organization.clone();
    // This is the longest read of all, since it reads all kept events. The permit is held until it has ended, even if
    // the request ends earlier.
    let place = access.node.audits.try_acquire(organization.clone());
    let place = place.map_err(|_| Problem::overloaded("the events of this organization are being verified already"))?;
    let events = access.realm.events.clone();
    let audit = move || {
        let _place = place;
        events.audit(&organization, &expected)
    };
    let report = access.read_list(audit).await?;
    // Only the caller is told about an unmet expectation, which may be mistyped.
    if let Some(fault) = &report.fault {
        tracing::error!(organization = %report.organization, event = fault.number, "the recorded events are not intact");
    }
    Ok(answer::one(StatusCode::OK, AuditView::from(&report)))
}

/// For the operator: verifies all organizations, or the one that the query names.
pub async fn whole(realm: &Realm, request: &Request) -> Result<Response, Problem> {
    let mut query = Query::of(request);
    let wanted = query.text("organization", Identifier::parse);
    let expected = take_expected(&mut query);
    query.finish()?;
    let events = realm.events.clone();
    let audit = move || -> Result<Vec<AuditReport>, StoreError> {
        let mut organizations: Vec<Identifier> = events.audited()?.into_iter().collect();
        organizations.retain(|organization| wanted.as_ref().is_none_or(|wanted| wanted == organization));
        organizations.iter().map(|organization| events.audit(organization, &expected)).collect()
    };
    let reports = web::block(audit).await.map_err(Problem::internal)??;
    Ok(answer::one(StatusCode::OK, reports.iter().map(AuditView::from).collect::<Vec<_>>()))
}

fn take_expected(query: &mut Query) -> Vec<Expectation> {
    let given = query.all("expect");
    if given.len() > EXPECTED_MAX {
        query.wrong("expect", format!("must not be given more than {EXPECTED_MAX} times"));
        return Vec::new();
    }
    let mut expected = Vec::new();
    for text in given {
        match text.parse::<Expectation>() {
            Ok(one) => expected.push(one),
            Err(malformed) => query.wrong("expect", malformed.to_string()),
        }
    }
    expected
}

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
            head: report
                .head
                .map(|Expectation { number, hash }| NotedEventView { number, hash: Hex(&hash).to_string() }),
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
        Self { number: expected.number, hash: Hex(&expected.hash).to_string(), found }
    }
}
