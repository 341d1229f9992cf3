//! Deployments in a change: their records and approvals, until their session is dropped from the history.

use super::Change;
use crate::keys;
use crate::state::loaded::is_unfinished;
use crate::state::recent::DeploymentUpdate;
use domain::{
    ApprovalId, ApprovalRecord, ApprovalStatus, DeploymentId, Environment, EventType, LogPart, Outcome, pipeline,
};
use store::StoreError;

/// How many approvals of one deployment are kept, the newest: a deployment can be retried any number of times.
const APPROVALS_KEPT: usize = 64;
const _: () =
    assert!(APPROVALS_KEPT > pipeline::STAGES_MAX, "the approvals that a deployment shows must be among them");

impl Change<'_> {
    /// Changed deployments, and the mark that one here is unfinished.
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
        for event in outcome.events.iter().filter(|event| event.event_type == EventType::StageStarted) {
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
            // A deployment that no session lists may have had stages.
            let staged = listed.find(|deployment| deployment.id == *id).is_none_or(|deployment| deployment.staged);
            self.forget(*id, staged)?;
        }
        Ok(())
    }

    /// In a cluster, it is durable which node has the output of a stage before there is any.
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
        // Only a new approval is pending; it is not written again until it is decided.
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

    /// Drops everything kept of a deployment.
    pub(super) fn forget(&mut self, id: DeploymentId, staged: bool) -> Result<(), StoreError> {
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

    /// The approvals of a deployment after everything handed in and after this change.
    fn approvals_of(&self, id: DeploymentId) -> Result<Vec<ApprovalId>, StoreError> {
        let written = self.updates.get(&id).and_then(|update| update.approvals.as_ref());
        let recent = || self.loaded.deployments.get(id).and_then(|update| update.approvals.as_ref());
        if let Some(approvals) = written.or_else(recent) {
            return Ok(approvals.clone());
        }
        self.records.approvals_of(&self.key.pipeline.organization, id)
    }
}
