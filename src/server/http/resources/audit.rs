//! Verifies the recorded events of an organization, while the server runs.

use actix_web::http::StatusCode;
use actix_web::web;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::AuditView;
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::request::Request;
use crate::http::response::Response;
use crate::http::state::Realm;
use accounts::auth::Permission;
use domain::Identifier;
use events::{AuditReport, Expectation};
use store::StoreError;

/// Events that one request may expect: heads noted once a day for months.
pub const EXPECTED_MAX: usize = 100;

pub async fn verify(call: Call) -> Answered {
    let access = Access::to(&call, Permission::VerifyEvents)?;
    let mut query = Query::of(&call.request);
    let expected = take_expected(&mut query);
    query.finish()?;
    let organization = access.caller.organization.clone();
    // It reads all events that are kept, so it is the longest read there is. The place is held until it has really ended.
    let place = access.node.audits.try_acquire(organization.clone());
    let place = place.map_err(|_| Problem::overloaded("the events of this organization are being verified already"))?;
    let events = access.realm.events.clone();
    let audit = move || {
        let _place = place;
        events.audit(&organization, &expected)
    };
    let report = access.read_list(audit).await?;
    // An expectation that is not met is for its caller, who may have mistyped it.
    if let Some(fault) = &report.fault {
        tracing::error!(organization = %report.organization, event = fault.number, "the recorded events are not intact");
    }
    Ok(answer::one(StatusCode::OK, AuditView::from(&report)))
}

/// Of all organizations, or of the one that is named: for the operator.
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
