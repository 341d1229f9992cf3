//! What was handed to the store and it may not show yet. An actor decides on this first and on the store second.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::page_list::PageList;
use super::records::readable;
use domain::{ApprovalId, Blueprint, DeploymentId, DeploymentRecord, Origin, Session, SessionId};
use records::Page;
use store::{Sequence, StoreError};

/// The history pages that an actor keeps in memory: those whose last change may not be durable, and the newest, since
/// the next session to end goes into it. The store has every other page as it is.
#[derive(Default)]
pub struct RecentPages {
    pages: PageList<RecentPage>,
}

struct RecentPage {
    page: Page,
    written: Sequence,
}

impl RecentPages {
    /// Adds the pages handed in, and drops those that are durable.
    pub fn advance(&mut self, written: PageList<Page>, sequence: Sequence, settled: impl Fn(Sequence) -> bool) {
        for (number, page) in written {
            self.pages.insert(number, RecentPage { page, written: sequence });
        }
        let newest = self.pages.last_number();
        self.pages.retain(|number, recent| Some(number) == newest || !settled(recent.written));
    }

    pub fn get(&self, number: u64) -> Option<&Page> {
        self.pages.get(number).map(|recent| &recent.page)
    }

    pub fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let numbers = match id.origin {
            Origin::Granted(number) => number..=number,
            Origin::Queued(_) => 0..=u64::MAX,
        };
        let pages = Page::of(*numbers.start())..=Page::of(*numbers.end());
        for (_, recent) in self.pages.iter().filter(|(number, _)| pages.contains(number)) {
            let sessions = readable(recent.page.sessions(numbers.clone()))?;
            if let Some(session) = sessions.into_iter().find(|session| session.id == id) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }
}

/// Sessions that have left the queue, until the store shows how they ended.
#[derive(Default)]
pub struct RecentDepartures {
    of: Vec<(Sequence, Arc<Session>)>,
}

impl RecentDepartures {
    /// Adds the sessions handed in, and drops those that are durable.
    pub fn advance(&mut self, left: Vec<Arc<Session>>, sequence: Sequence, settled: impl Fn(Sequence) -> bool) {
        self.of.retain(|(written, _)| !settled(*written));
        self.of.extend(left.into_iter().map(|session| (sequence, session)));
    }

    pub fn session(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.of.iter().map(|(_, session)| session).find(|session| session.id == id)
    }
}

/// The recent changes to deployments with stages. A command on an ended deployment must know how it ended.
#[derive(Default)]
pub struct RecentDeployments {
    of: BTreeMap<DeploymentId, RecentDeployment>,
}

#[derive(Default)]
struct RecentDeployment {
    update: DeploymentUpdate,
    written: Sequence,
}

/// What changed about one deployment; the store has the parts that are `None`.
#[derive(Default)]
pub struct DeploymentUpdate {
    pub record: Option<DeploymentRecord>,
    pub blueprint: Option<Arc<Blueprint>>,
    pub approvals: Option<Vec<ApprovalId>>,
    /// Everything is gone, whatever the store still shows.
    pub forgotten: bool,
}

impl RecentDeployments {
    /// Adds what was handed in, and drops what is durable.
    pub fn advance(
        &mut self,
        records: Vec<DeploymentRecord>,
        blueprints: Vec<(DeploymentId, Arc<Blueprint>)>,
        written: BTreeMap<DeploymentId, DeploymentUpdate>,
        sequence: Sequence,
        settled: impl Fn(Sequence) -> bool,
    ) {
        for record in records.into_iter().filter(|record| record.deployment.staged) {
            let id = record.deployment.id;
            self.update(id, sequence).record = Some(record);
        }
        for (id, blueprint) in blueprints {
            self.update(id, sequence).blueprint = Some(blueprint);
        }
        for (id, update) in written {
            let kept = self.update(id, sequence);
            kept.forgotten |= update.forgotten;
            kept.approvals = update.approvals.or(kept.approvals.take());
        }
        self.of.retain(|_, recent| !settled(recent.written));
    }

    fn update(&mut self, id: DeploymentId, sequence: Sequence) -> &mut DeploymentUpdate {
        let recent = self.of.entry(id).or_default();
        recent.written = sequence;
        &mut recent.update
    }

    pub fn get(&self, id: DeploymentId) -> Option<&DeploymentUpdate> {
        self.of.get(&id).map(|recent| &recent.update)
    }
}
