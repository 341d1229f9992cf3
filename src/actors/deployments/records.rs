//! What is kept of deployments, as an environment's actor writes it: their records and approvals in the batch of the
//! decision that changes them, until their session is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reading::{stored_blueprint, stored_deployment};
use crate::actors::batching::Change;
use crate::actors::committing::Loaded;
use crate::actors::environments::Parts;
use crate::actors::reading::readable;
use crate::actors::{keys, stored};
use crate::domain::{
    ApprovalId, ApprovalRecord, ApprovalStatus, Blueprint, DeploymentId, DeploymentRecord, EndedDeployment,
    Environment, EnvironmentKey, Outcome, pipeline,
};
use crate::store::{Sequence, StoreError};

/// How many approvals of one deployment are kept, the newest: it can be run again as often as one likes.
const APPROVALS_KEPT: usize = 64;
const _: () = assert!(APPROVALS_KEPT > pipeline::STAGES_MAX, "those that a deployment shows must be among them");

/// What the store may not show yet of deployments with stages, though it was handed in. A command that speaks of one that
/// has ended must know how it ended.
#[derive(Default)]
pub struct RecentDeployments {
    of: BTreeMap<DeploymentId, Recent>,
}

#[derive(Default)]
struct Recent {
    traces: Traces,
    written: Sequence,
}

/// What is kept of one deployment; what is not said, the store has.
#[derive(Default)]
pub struct Traces {
    record: Option<DeploymentRecord>,
    blueprint: Option<Arc<Blueprint>>,
    approvals: Option<Vec<ApprovalId>>,
    /// Nothing, whatever the store still shows.
    forgotten: bool,
}

impl RecentDeployments {
    /// Takes in what was handed in, and lets go of what the store has.
    pub fn advance(
        &mut self,
        records: Vec<DeploymentRecord>,
        blueprints: Vec<(DeploymentId, Arc<Blueprint>)>,
        written: BTreeMap<DeploymentId, Traces>,
        sequence: Sequence,
        settled: impl Fn(Sequence) -> bool,
    ) {
        for record in records.into_iter().filter(|record| record.deployment.staged) {
            let id = record.deployment.id;
            self.write(id, sequence).record = Some(record);
        }
        for (id, blueprint) in blueprints {
            self.write(id, sequence).blueprint = Some(blueprint);
        }
        for (id, traces) in written {
            let kept = self.write(id, sequence);
            kept.forgotten |= traces.forgotten;
            kept.approvals = traces.approvals.or(kept.approvals.take());
        }
        self.of.retain(|_, recent| !settled(recent.written));
    }

    fn write(&mut self, id: DeploymentId, sequence: Sequence) -> &mut Traces {
        let recent = self.of.entry(id).or_default();
        recent.written = sequence;
        &mut recent.traces
    }

    fn get(&self, id: DeploymentId) -> Option<&Traces> {
        self.of.get(&id).map(|recent| &recent.traces)
    }
}

impl Loaded {
    /// What is kept of a deployment of this environment that has ended.
    pub(in crate::actors) fn recall_deployment(
        &self,
        parts: &Parts,
        key: &EnvironmentKey,
        id: DeploymentId,
    ) -> Result<Option<EndedDeployment>, StoreError> {
        let (store, organization) = (&*parts.store, &key.pipeline.organization);
        let recent = self.deployments.get(id);
        if recent.is_some_and(|traces| traces.forgotten) {
            return Ok(None);
        }
        let record = match recent.and_then(|traces| traces.record.clone()) {
            Some(record) => Some(record),
            None => stored_deployment(store, organization, id)?
                .filter(|found| found.environment == *key)
                .map(|found| found.record),
        };
        let Some(record) = record else { return Ok(None) };
        let blueprint = match recent.and_then(|traces| traces.blueprint.clone()) {
            Some(blueprint) => Some(blueprint),
            None if record.deployment.staged => stored_blueprint(store, organization, id)?,
            None => None,
        };
        Ok(Some(EndedDeployment { record, blueprint }))
    }
}

impl Change<'_> {
    /// The deployments that have changed, and whether the store says that one here has not ended.
    pub fn deployments(&mut self, next: &Environment, outcome: &Outcome) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        for record in &outcome.deployments {
            let key = keys::deployment(organization, record.deployment.id);
            self.batch.put(key, stored::encode_deployment(self.key, record));
        }
        for (id, blueprint) in &outcome.blueprints {
            self.batch.put(keys::blueprint(organization, *id), stored::encode_blueprint(blueprint));
        }
        for record in &outcome.approvals {
            self.approval(record, outcome)?;
        }
        match is_unfinished(next) {
            true if !self.loaded.unfinished => self.batch.put(keys::unfinished(self.key), Vec::new()),
            false if self.loaded.unfinished => self.batch.delete(keys::unfinished(self.key)),
            true | false => {}
        }
        for id in &outcome.forgotten {
            let sessions = [&self.loaded.environment.lock, &self.loaded.environment.leaving];
            let mut listed = sessions.into_iter().flatten().flat_map(|session| &session.deployments);
            // What is not listed in a session may have had stages.
            let staged = listed.find(|deployment| deployment.id == *id).is_none_or(|deployment| deployment.staged);
            self.forget(*id, staged)?;
        }
        Ok(())
    }

    fn approval(&mut self, record: &ApprovalRecord, outcome: &Outcome) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        let key = keys::approval(organization, record.approval.id);
        self.batch.put(key, stored::encode_approval(self.key, record));
        // It is pending when it is new, and not written again as long as it is.
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
        self.batch.put(key, stored::encode_approvals(&all));
        self.traces.entry(record.deployment).or_default().approvals = Some(all);
        Ok(())
    }

    /// Nothing is kept of a deployment any more.
    pub(in crate::actors) fn forget(&mut self, id: DeploymentId, staged: bool) -> Result<(), StoreError> {
        let organization = &self.key.pipeline.organization;
        self.batch.delete(keys::deployment(organization, id));
        if !staged {
            return Ok(());
        }
        self.batch.delete(keys::blueprint(organization, id));
        let approvals = self.approvals_of(id)?;
        if !approvals.is_empty() {
            self.batch.delete(keys::approvals_of_deployment(organization, id));
        }
        for approval in approvals {
            self.batch.delete(keys::approval(organization, approval));
        }
        self.traces.insert(id, Traces { forgotten: true, ..Traces::default() });
        Ok(())
    }

    /// The approvals of a deployment after everything handed in, and after what this change has done.
    fn approvals_of(&self, id: DeploymentId) -> Result<Vec<ApprovalId>, StoreError> {
        let written = self.traces.get(&id).and_then(|traces| traces.approvals.as_ref());
        let recent = || self.loaded.deployments.get(id).and_then(|traces| traces.approvals.as_ref());
        if let Some(approvals) = written.or_else(recent) {
            return Ok(approvals.clone());
        }
        let key = keys::approvals_of_deployment(&self.key.pipeline.organization, id);
        let record = self.parts.store.get(&key)?;
        record.map_or_else(|| Ok(Vec::new()), |record| readable(stored::decode_approvals(&record)))
    }
}

/// Whether a deployment here has begun or waits.
pub(in crate::actors) fn is_unfinished(environment: &Environment) -> bool {
    environment.current_deployment().is_some() || environment.has_waiting_deployment()
}
