//! Verifies the recorded events of an organization, while the server runs.

use actix_web::web;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::view;
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
    // An audit is the longest read, since it reads all kept events. The permit is held until it has ended, even if the
    // request ends earlier.
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
    Ok(answer::ok(AuditView::new(&report)))
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
    Ok(answer::ok(reports.iter().map(AuditView::new).collect::<Vec<_>>()))
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

view! {
    /// Whether the recorded events of an organization are unchanged and complete.
    pub struct AuditView<'a> as Audit of (report: &'a AuditReport) {
        /// The organization of the events.
        #[schema(example = "acme")]
        organization: &'a str = report.organization.as_str(),
        /// The number of kept events.
        #[schema(example = 1234)]
        events: u64 = report.events(),
        /// The number of the first kept event.
        #[schema(example = 0)]
        first: u64 = report.first,
        /// Whether there is no fault, and every expected event was found or is older than the kept ones.
        #[schema(example = true)]
        intact: bool = report.is_intact(),
        /// The last event. Store it in a safe place, and pass it as `expect` later.
        head: Option<NotedEventView> = report.head.as_ref().map(NotedEventView::new),
        /// The number of security events that are kept longer than the others.
        #[schema(example = 12)]
        archived: u64 = report.archived,
        seals: SealsView = SealsView::new(report.seals),
        /// The first fault.
        fault: Option<AuditFaultView> =
            report.fault.as_ref().map(|fault| AuditFaultView::new(fault.number, fault.to_string())),
        /// The expected events, in the order of the request.
        expected: Vec<ExpectedEventView> = report.expected.iter().map(ExpectedEventView::new).collect(),
    }
}

view! {
    /// An event by its number and hash.
    pub struct NotedEventView as NotedEvent of (noted: &Expectation) {
        /// Events are numbered in the order in which they were recorded.
        #[schema(example = 1233)]
        number: u64 = noted.number,
        /// The hash of the event and all previous ones, in hexadecimal digits.
        #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
        hash: String = Hex(&noted.hash).to_string(),
    }
}

view! {
    /// The events covered by seals. Only a server with the master key can create seals.
    pub struct SealsView as AuditSeals of (seals: SealStatus)
    let (status, from, next) = match seals {
        SealStatus::None => (SealsStatus::None, None, None),
        SealStatus::Unchecked => (SealsStatus::NotChecked, None, None),
        SealStatus::Checked { from, next } => (SealsStatus::Checked, Some(from), Some(next)),
    };
    {
        status: SealsStatus,
        /// The number of the next event when the first seal was created; null unless the seals were checked.
        #[schema(example = 0)]
        from: Option<u64>,
        /// The number after the last sealed event; null unless the seals were checked.
        #[schema(example = 1234)]
        next: Option<u64>,
    }
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

view! {
    /// An event that has been changed, removed, inserted or moved.
    pub struct AuditFaultView as AuditFault of (number: u64, what: String) {
        /// The number of the first affected event.
        #[schema(example = 17)]
        number: u64,
        /// A description of the fault.
        #[schema(example = "event 17 has been changed")]
        what: String,
    }
}

view! {
    /// An event that should be part of the chain.
    pub struct ExpectedEventView as ExpectedEvent of (checked: &(Expectation, ExpectationStatus))
    let (expected, found) = checked;
    let found = match found {
        ExpectationStatus::Present => ExpectedStatus::There,
        ExpectationStatus::Absent => ExpectedStatus::Absent,
        ExpectationStatus::NoLongerKept => ExpectedStatus::NoLongerKept,
    };
    {
        /// The number in the request.
        #[schema(example = 1233)]
        number: u64 = expected.number,
        /// The hash in the request, in hexadecimal digits.
        #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
        hash: String = Hex(&expected.hash).to_string(),
        found: ExpectedStatus,
    }
}

/// Whether the event was found. `no_longer_kept`: the event is older than the kept ones, so this is unknown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ExpectedEventStatus)]
pub enum ExpectedStatus {
    There,
    Absent,
    NoLongerKept,
}
