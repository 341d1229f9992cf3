//! The batch that makes a decision durable.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::memory::{Committed, DeploymentUpdate, Loaded, PageList, is_unfinished};
use super::records::{Records, readable};
use crate::keys;
use domain::{
    ApprovalId, ApprovalRecord, ApprovalStatus, Deadline, Deployment, DeploymentId, Environment, EnvironmentKey, Event,
    EventType, Identifier, Initiator, LogPart, Now, Origin, Outcome, PipelineKey, Session, Ticket, Timestamp, pipeline,
};
use events::NewEvent;
use records::{Keeping, Page};
use store::{Batch, StoreError};

/// The changes of one decision in the store.
pub struct Change<'a> {
    records: &'a Records,
    key: &'a EnvironmentKey,
    loaded: &'a Loaded,
    batch: Batch,
    /// Changed pages of the history.
    pages: PageList<Page>,
    keeping: Keeping,
    /// Changes to deployments besides their records.
    updates: BTreeMap<DeploymentId, DeploymentUpdate>,
    /// Whether more of the history must be dropped.
    trim_on: bool,
}

impl<'a> Change<'a> {
    pub fn new(records: &'a Records, key: &'a EnvironmentKey, loaded: &'a Loaded) -> Self {
        let (batch, pages, keeping) = (Batch::with_room(), PageList::default(), loaded.keeping);
        Self { records, key, loaded, batch, pages, keeping, updates: BTreeMap::new(), trim_on: false }
    }

    /// For records that belong to the decision but not to the environment.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The environment's own record, its history and its wake record.
    pub fn environment(&mut self, next: &Environment, outcome: &Outcome, now: Now) -> Result<(), StoreError> {
        if next.revision == self.loaded.environment.revision {
            return Ok(());
        }
        self.remember(next, outcome)?;
        if let Some((ticket, token)) = outcome.granted.as_ref().and_then(|granted| pointed(&granted.session)) {
            self.batch.put(keys::pointer(ticket), records::encode_pointer(self.key, token));
            self.keeping.pointers += 1;
        }
        self.trim(next)?;
        let expiry = |environment: &Environment| environment.lock.as_deref().and_then(Session::expiry);
        // A wake record that is too early is harmless, so heartbeats do not rewrite it.
        let is_sooner =
            |until: Deadline| expiry(&self.loaded.environment).is_none_or(|(before, _)| until.due < before.due);
        match expiry(next) {
            Some((until, _)) if !self.loaded.has_wake_record || is_sooner(until) => {
                self.batch.put(keys::wake(self.key), records::encode_wake(until, now, self.records.run));
            }
            None if self.loaded.has_wake_record => self.batch.delete(keys::wake(self.key)),
            Some(_) | None => {}
        }
        self.put_environment(next);
        Ok(())
    }

    pub fn put_environment(&mut self, next: &Environment) {
        let (keeping, run) = (self.keeping, self.records.run);
        let write = |out: &mut Vec<u8>| records::write_environment(next, keeping, run, out);
        self.batch.put_with(keys::environment(self.key), write);
    }

    /// Waiters that joined or left the queue.
    pub fn queue(&mut self, outcome: &Outcome) {
        if let Some(waiter) = outcome.enqueued.as_ref().filter(|waiter| waiter.is_durable()) {
            self.batch.put(keys::waiter(self.key, waiter.ticket), records::encode_waiter(waiter, None));
        }
        // Written before the deletions, since the same decision may have granted this waiter the lock.
        if let Some(waiter) = &outcome.made_known {
            self.batch.put(keys::waiter(self.key, waiter.ticket), records::encode_waiter(waiter, None));
        }
        for waiter in outcome.dequeued.iter().filter(|waiter| waiter.is_durable()) {
            self.batch.delete(keys::waiter(self.key, waiter.ticket));
        }
        if let Some(granted) =
            outcome.granted.as_ref().filter(|granted| granted.from_pool && granted.waiter.is_durable())
        {
            self.batch.delete(keys::pool_waiter(&self.key.pipeline, granted.waiter.ticket));
        }
        for session in &outcome.left {
            if let Origin::Queued(ticket) = session.id.origin {
                let record = records::encode_left(&self.key.pipeline, Some(&self.key.name), session);
                self.batch.put(keys::left(ticket), record);
            }
        }
    }

    pub fn events(&mut self, outcome: &Outcome, by: Option<&Initiator>, now: Now) {
        record_events(&mut self.batch, &self.key.pipeline, Some(&self.key.name), &outcome.events, by, now.at);
    }

    /// Hands the batch to the store, unless it is empty.
    pub fn commit(self) -> Result<Committed, StoreError> {
        let Self { records, key, loaded, mut batch, pages, keeping, updates, trim_on } = self;
        for (number, page) in pages.iter() {
            match page.record() {
                Some(record) => batch.put(keys::page(key, number), record),
                None => batch.delete(keys::page(key, number)),
            }
        }
        let sequence = if batch.is_empty() { loaded.handed_in } else { records.store().commit(batch)? };
        Ok(Committed { sequence, pages, keeping, deployments: updates, trim_on })
    }
}

/// Adds events to a batch. An event is attributed to its own initiator, otherwise to the caller `by`; automatic events
/// are attributed to nobody.
pub fn record_events(
    batch: &mut Batch,
    pipeline: &PipelineKey,
    environment: Option<&Identifier>,
    events: &[Event],
    by: Option<&Initiator>,
    at: Timestamp,
) {
    for event in events {
        let happening = NewEvent {
            at,
            by: event.by.as_ref().or(by).filter(|_| !event.automatic),
            pipeline: Some(&pipeline.pipeline),
            environment,
            session: event.session,
            deployment: event.deployment,
            data: &event.data,
        };
        events::record(batch, &pipeline.organization, &happening);
    }
}

/// The ticket and fencing token of a session that got its id in the queue.
fn pointed(session: &Session) -> Option<(Ticket, u64)> {
    match session.id.origin {
        Origin::Queued(ticket) => Some((ticket, session.fencing_token()?)),
        Origin::Granted(_) => None,
    }
}

/// The number of approvals kept per deployment, the newest: a deployment can be retried any number of times.
const APPROVALS_KEPT: usize = 64;
const _: () =
    assert!(APPROVALS_KEPT > pipeline::STAGES_MAX, "the approvals that a deployment shows must be among them");

// Deployments: their records and approvals, until their session is dropped from the history.
impl Change<'_> {
    /// Changed deployments, and the mark that one of this environment is unfinished.
    pub fn deployments(&mut self, next: &Environment, outcome: &Outcome) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        for record in &outcome.deployments {
            let key = keys::deployment(organization, record.deployment.id);
            self.batch.put(key, records::encode_deployment(self.key, record));
        }
        for (id, blueprint) in &outcome.blueprints {
            self.batch.put(keys::blueprint(organization, *id), records::encode_blueprint(blueprint));
        }
        for record in &outcome.approvals {
            self.approval(record, outcome)?;
        }
        for event in outcome.events.iter().filter(|event| event.event_type() == EventType::StageStarted) {
            event.deployment.map_or(Ok(()), |id| self.log_part(id))?;
        }
        match is_unfinished(next) {
            true if !self.loaded.has_unfinished_record => self.batch.put(keys::unfinished(self.key), Vec::new()),
            false if self.loaded.has_unfinished_record => self.batch.delete(keys::unfinished(self.key)),
            true | false => {}
        }
        for id in &outcome.forgotten {
            let sessions = [&self.loaded.environment.lock, &self.loaded.environment.leaving];
            let mut listed = sessions.into_iter().flatten().flat_map(|session| &session.deployments);
            // A deployment that no session lists may have had stages, so assume it had.
            let staged = listed.find(|deployment| deployment.id == *id).is_none_or(|deployment| deployment.staged);
            self.forget(*id, staged)?;
        }
        Ok(())
    }

    /// In a cluster, records durably which node has the output of a stage, before there is any output.
    fn log_part(&mut self, id: DeploymentId) -> Result<(), StoreError> {
        let (organization, Some(keeper)) = (&self.key.pipeline.organization, self.records.log_keeper()) else {
            return Ok(());
        };
        let known = self.records.log_parts(organization, id)?;
        let is_here = |number| keeper.has(organization, id, number);
        if let Some(parts) = LogPart::continued(&known, keeper.node(), keeper.uploads(), is_here) {
            self.batch.put(keys::log_parts(organization, id), records::encode_log_parts(&parts));
        }
        Ok(())
    }

    fn approval(&mut self, record: &ApprovalRecord, outcome: &Outcome) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        let key = keys::approval(organization, record.approval.id);
        self.batch.put(key, records::encode_approval(self.key, record));
        // Only a new approval is pending; its next write is the decision.
        if record.approval.status != ApprovalStatus::Pending {
            return Ok(());
        }
        let mut all = self.approvals_of(record.deployment)?;
        all.push(record.approval.id);
        if all.len() > APPROVALS_KEPT {
            let stages = outcome.deployments.iter().filter(|d| d.deployment.id == record.deployment);
            let shown: Vec<_> = stages.flat_map(|d| &d.stages).filter_map(|stage| stage.approval.as_ref()).collect();
            if let Some(oldest) = all.iter().position(|id| shown.iter().all(|approval| approval.id != *id)) {
                self.batch.delete(keys::approval(organization, all.remove(oldest)));
            }
        }
        let key = keys::approvals_of_deployment(organization, record.deployment);
        self.batch.put(key, records::encode_approvals(&all));
        self.updates.entry(record.deployment).or_default().approvals = Some(all);
        Ok(())
    }

    /// Drops everything stored about a deployment.
    fn forget(&mut self, id: DeploymentId, staged: bool) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        self.batch.delete(keys::deployment(organization, id));
        if !staged {
            return Ok(());
        }
        self.batch.delete(keys::blueprint(organization, id));
        let parts = self.records.log_parts(organization, id)?;
        if !parts.is_empty() {
            self.batch.delete(keys::log_parts(organization, id));
        }
        if parts.iter().any(|part| part.in_store) {
            self.batch.put(keys::dropped_log(organization, id), records::encode_log_parts(&parts));
        }
        let approvals = self.approvals_of(id)?;
        if !approvals.is_empty() {
            self.batch.delete(keys::approvals_of_deployment(organization, id));
        }
        for approval in approvals {
            self.batch.delete(keys::approval(organization, approval));
        }
        self.updates.insert(id, DeploymentUpdate { forgotten: true, ..DeploymentUpdate::default() });
        Ok(())
    }

    /// The approvals of a deployment, including everything handed in and this change.
    fn approvals_of(&self, id: DeploymentId) -> Result<Vec<ApprovalId>, StoreError> {
        let written = self.updates.get(&id).and_then(|update| update.approvals.as_ref());
        let recent = || self.loaded.deployments.get(id).and_then(|update| update.approvals.as_ref());
        if let Some(approvals) = written.or_else(recent) {
            return Ok(approvals.clone());
        }
        self.records.approvals_of(&self.key.pipeline.organization, id)
    }
}

/// Old sessions dropped per commit, so that a lowered retention or a deletion never exceeds the store's limit per
/// batch.
const TRIM_AT_ONCE: u64 = 500;
/// A commit with this many changes drops no further deployment, for the same reason: a page of the history may refer to
/// eight hundred deployments.
const FORGET_AT_ONCE: usize = 1_000;

// The history: ended sessions go into pages, and pages beyond the retention are dropped.
impl Change<'_> {
    /// Puts ended sessions into their pages.
    fn remember(&mut self, next: &Environment, outcome: &Outcome) -> Result<(), StoreError> {
        let oldest = Page::of(*next.remembered_sessions(self.records.history_retention).start());
        for session in &outcome.ended {
            // A kept page must be complete, even beyond the retention, since the retention may be raised.
            let stays = |number: &u64| *number >= next.first_session && Page::of(*number) >= oldest;
            let Some(number) = session.fencing_token().filter(stays) else {
                if !is_leaving(next, session) {
                    self.forget_deployments(&session.deployments)?;
                }
                continue;
            };
            let page = if Page::begins_with(number) && number == next.newest_ended() {
                // The page can only contain an older state of this session, so it is not read.
                Cow::Owned(Page::default())
            } else {
                self.page(Page::of(number))?
            };
            self.pages.insert(Page::of(number), readable(page.with(number, session))?);
            self.keeping.deployed |= !session.deployments.is_empty();
        }
        Ok(())
    }

    /// Drops the pages whose sessions are all beyond the retention, a limited number at a time.
    pub fn trim(&mut self, next: &Environment) -> Result<(), StoreError> {
        let remembered = next.remembered_sessions(self.records.history_retention);
        let (from, wanted) = (self.keeping.from, *remembered.start());
        // Skipped tokens have no sessions, and there may be a billion of them.
        let skipped = &next.skipped_tokens;
        let step = skipped.token_at(skipped.count_up_to(from) + TRIM_AT_ONCE);
        let until = wanted.min(step).max(from);
        self.trim_on = until < wanted;
        if until == from {
            return Ok(());
        }
        // If no session is kept at all, the page of the next session is dropped too.
        let nothing = until > *remembered.end();
        let end = Page::of(until) + u64::from(nothing);
        let parts = skipped.given_between(from, until.saturating_add(1));
        let pages: BTreeSet<u64> =
            parts.iter().flat_map(|part| Page::of(part.start)..=Page::of(part.end - 1)).collect();
        for number in pages.into_iter().filter(|page| *page < end) {
            let rest = self.drop_page(next, number)?;
            let done = rest.record().is_none();
            self.pages.insert(number, rest);
            if !done {
                self.trim_on = true;
                self.keeping.from = Page::first_of(number).max(from);
                return Ok(());
            }
        }
        self.keeping.from = until;
        Ok(())
    }

    /// Drops the sessions of a page with their pointers and deployments. Returns the part left for the next call.
    fn drop_page(&mut self, next: &Environment, number: u64) -> Result<Page, StoreError> {
        let mut rest = Page::default();
        if self.keeping.pointers == 0 && !self.keeping.deployed {
            return Ok(rest);
        }
        for mut session in readable(self.page(number)?.sessions(0..=u64::MAX))? {
            // The running deployment of a leaving session is still needed; `remember` drops it when it has ended.
            while !is_leaving(next, &session)
                && self.batch.changes().len() < FORGET_AT_ONCE
                && let Some(deployment) = session.deployments.pop()
            {
                self.forget(deployment.id, deployment.staged)?;
            }
            if !is_leaving(next, &session) && !session.deployments.is_empty() {
                rest = readable(rest.with(session.fencing_token().unwrap_or_default(), &session))?;
            } else if let Some((ticket, _)) = pointed(&session) {
                self.batch.delete(keys::pointer(ticket));
                self.keeping.pointers = self.keeping.pointers.saturating_sub(1);
            }
        }
        Ok(rest)
    }

    fn forget_deployments(&mut self, deployments: &[Deployment]) -> Result<(), StoreError> {
        deployments.iter().try_for_each(|deployment| self.forget(deployment.id, deployment.staged))
    }

    /// A page, including everything handed in and this change.
    fn page(&self, number: u64) -> Result<Cow<'_, Page>, StoreError> {
        match self.pages.get(number).or_else(|| self.loaded.pages.get(number)) {
            Some(page) => Ok(Cow::Borrowed(page)),
            None => self.records.page(self.key, number).map(Cow::Owned),
        }
    }
}

/// Whether the session has ended but its deployment has not.
fn is_leaving(next: &Environment, session: &Session) -> bool {
    next.leaving.as_ref().is_some_and(|leaving| leaving.id == session.id)
}
