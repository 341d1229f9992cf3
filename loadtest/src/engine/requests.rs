//! Owns what a client can ask of the API, one method for each request, with what is remembered of it.

use std::time::Duration;

use crate::engine::client::{Asked, Client, Failure, Reading};
use crate::engine::tally::Operation;
use crate::history::{Answer, Request, SessionName};
use crate::wire::answer::{EnvironmentView, Grant, SessionView, queued_session, total_pages};
use crate::wire::request::{ClaimTemplate, Template};

/// What a claim gave.
#[derive(Debug)]
pub struct Granted {
    pub environment: u32,
    pub session: SessionName,
}

/// An environment as it was read.
#[derive(Debug)]
pub struct EnvironmentSeen {
    pub holder: Option<SessionName>,
    pub queue_length: u64,
}

impl Client {
    pub async fn healthz(&mut self) -> Result<(), Failure> {
        let template = &self.thread.requests.health;
        template.write(0, "", &mut self.request);
        self.ask(plain(Operation::Health, &[200]), done).await
    }

    pub async fn put(&mut self, environment: u32, template: &Template) -> Result<(), Failure> {
        template.write(environment, "", &mut self.request);
        self.ask(plain(Operation::Put, &[200, 201]), done).await
    }

    pub async fn claim(&mut self, environment: u32, claim: &ClaimTemplate) -> Result<Granted, Failure> {
        let asked = self.write_claim(environment, claim);
        let any = claim.terms.pool.is_some().then(|| self.thread.place.clone());
        self.ask(asked, |body| {
            let grant = Grant::parse(body)?;
            let environment = match any {
                Some(place) => place.environment_number(grant.env_name?)?,
                None => environment,
            };
            Some(granted(&grant, environment))
        })
        .await
    }

    fn write_claim(&mut self, environment: u32, claim: &ClaimTemplate) -> Asked {
        claim.template.write(environment, "", &mut self.request);
        let any = claim.terms.pool.is_some();
        let ttl = claim.terms.ttl_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Asked {
            operation: Operation::Claim,
            environment: (!any).then_some(environment),
            request: Some(Request::Claim { any, in_line_at: None, ttl }),
            waits: claim.terms.wait_seconds > 0,
            accepted: &[201],
        }
    }

    /// Goes away while the request is still being sent, after so many of its bytes.
    pub async fn claim_cut_short(&mut self, environment: u32, claim: &ClaimTemplate, sent: usize) {
        let asked = self.write_claim(environment, claim);
        self.send_part(asked, sent).await;
    }

    pub async fn force_claim(&mut self, environment: u32) -> Result<Granted, Failure> {
        self.thread.requests.force_claim.write(environment, "", &mut self.request);
        let asked = asked(Operation::ForceClaim, environment, Request::ForceClaim, &[201]);
        self.ask(asked, |body| Some(granted(&Grant::parse(body)?, environment))).await
    }

    pub async fn release(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.release.write(environment, &session.0, &mut self.request);
        self.ask(asked(Operation::Release, environment, Request::Release { session }, &[200]), done).await
    }

    pub async fn heartbeat(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.heartbeat.write(environment, &session.0, &mut self.request);
        self.ask(asked(Operation::Heartbeat, environment, Request::Heartbeat { session }, &[200]), done).await
    }

    pub async fn deploy(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.deploy.write(environment, &session.0, &mut self.request);
        self.ask(asked(Operation::Deploy, environment, Request::Deploy { session }, &[200, 202]), done).await
    }

    pub async fn read(&mut self, environment: u32) -> Result<EnvironmentSeen, Failure> {
        self.thread.requests.read.write(environment, "", &mut self.request);
        self.ask(asked(Operation::Read, environment, Request::ReadEnvironment, &[200]), |body| {
            let view = EnvironmentView::parse(body)?;
            let holder = view.lock.as_ref().map(|lock| SessionName(lock.session_id.into()));
            // Only a held environment says its token.
            let fencing = view.lock.map_or(0, |lock| lock.fencing_token);
            let queue_length = view.queue_length;
            let answer = Answer::Environment { holder: holder.clone(), fencing, queue_length };
            Some(Reading { value: EnvironmentSeen { holder, queue_length }, answer, environment: None })
        })
        .await
    }

    pub async fn read_session(&mut self, environment: u32, session: SessionName) -> Result<SessionView, Failure> {
        self.thread.requests.read_session.write(environment, &session.0, &mut self.request);
        self.ask(asked(Operation::Read, environment, Request::ReadSession { session }, &[200]), |body| {
            let view = SessionView::parse(body)?;
            let (status, fencing, deployments) = (view.status, view.fencing_token, view.deployments);
            Some(Reading { value: view, answer: Answer::Session { status, fencing, deployments }, environment: None })
        })
        .await
    }

    /// Takes a place at the end of the queue. When that becomes a lock, nobody is told: what is remembered of it is a claim
    /// whose outcome is not known.
    pub async fn queue_last(&mut self, environment: u32, template: &Template) -> Result<SessionName, Failure> {
        template.write(environment, "", &mut self.request);
        let request = Request::Claim { any: false, in_line_at: None, ttl: None };
        self.ask(asked(Operation::Claim, environment, request, &[202]), |body| {
            let value = SessionName(queued_session(body)?.into());
            Some(Reading { value, answer: Answer::Unknown, environment: None })
        })
        .await
    }

    /// A page of the pipeline's environments.
    pub async fn list(&mut self) -> Result<(), Failure> {
        self.thread.requests.list.write(0, "", &mut self.request);
        self.ask(plain(Operation::List, &[200]), |_| unrecorded(())).await
    }

    /// A page of the history; says how many there are.
    pub async fn page(&mut self, operation: Operation, environment: u32, page: &Template) -> Result<u64, Failure> {
        page.write(environment, "", &mut self.request);
        self.ask(plain(operation, &[200]), |body| unrecorded(total_pages(body)?)).await
    }

    /// One more session for the history, and no more than that: nobody waits for it, nothing is remembered of it.
    pub async fn add_session(&mut self, environment: u32) -> Result<SessionName, Failure> {
        self.thread.requests.force_claim.write(environment, "", &mut self.request);
        self.ask(plain(Operation::ForceClaim, &[201]), |body| {
            unrecorded(SessionName(Grant::parse(body)?.session_id.into()))
        })
        .await
    }
}

fn asked(operation: Operation, environment: u32, request: Request, accepted: &'static [u16]) -> Asked {
    Asked { operation, environment: Some(environment), request: Some(request), waits: false, accepted }
}

fn plain(operation: Operation, accepted: &'static [u16]) -> Asked {
    Asked { operation, environment: None, request: None, waits: false, accepted }
}

fn granted(grant: &Grant<'_>, environment: u32) -> Reading<Granted> {
    let (session, fencing) = (SessionName(grant.session_id.into()), grant.fencing_token);
    let answer = Answer::Granted { session: session.clone(), fencing };
    Reading { value: Granted { environment, session }, answer, environment: Some(environment) }
}

fn done(_body: &[u8]) -> Option<Reading<()>> {
    Some(Reading { value: (), answer: Answer::Done, environment: None })
}

fn unrecorded<T>(value: T) -> Option<Reading<T>> {
    Some(Reading { value, answer: Answer::Done, environment: None })
}
