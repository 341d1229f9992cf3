//! Reads deployments and approvals from the store. The store may briefly be ahead of an environment's published view.
//! Then the view decides, so that no deployment is shown as ended here and as running there.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Environments;
use super::reads::Listed;
use crate::keys;
use crate::state::records::readable;
use domain::{
    Approval, ApprovalId, ApprovalRecord, ApprovalStatus, Blueprint, Deployment, DeploymentId, DeploymentRecord,
    DeploymentStatus, DroppedLog, Environment, EnvironmentKey, Identifier, LogPart, SessionId,
};
use store::{Batch, StoreError, durable_up_to, end_of_prefix, walk};

/// A deployment and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentFound {
    pub environment: EnvironmentKey,
    pub record: DeploymentRecord,
}

/// An approval and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalFound {
    pub environment: EnvironmentKey,
    pub record: ApprovalRecord,
}

/// The record of a dropped deployment, whose log may still be in the log store.
#[derive(Debug)]
pub struct DroppedEntry {
    pub key: Vec<u8>,
    /// An error if the record cannot be read.
    pub log: Result<DroppedLog, StoreError>,
}

/// All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentFilter {
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub session: Option<SessionId>,
    pub status: Option<DeploymentStatus>,
}

/// All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    pub status: Option<ApprovalStatus>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub deployment: Option<DeploymentId>,
}

impl Environments {
    pub fn deployment(
        &self,
        organization: &Identifier,
        id: DeploymentId,
    ) -> Result<Option<DeploymentFound>, StoreError> {
        let found = self.services().records.deployment(organization, id)?;
        Ok(found.map(|(environment, record)| self.as_shown(environment, record)))
    }

    /// `limit` matching deployments after the `offset` newest, newest first. Reads all deployments of the organization.
    pub fn deployments(
        &self,
        organization: &Identifier,
        filter: &DeploymentFilter,
        offset: u64,
        limit: u64,
    ) -> Result<Listed<DeploymentFound>, StoreError> {
        let prefix = keys::deployments_of(organization);
        let mut page = Listed::default();
        walk(self.services().store(), &prefix, &end_of_prefix(&prefix), |_, record| {
            if *filter != DeploymentFilter::default() {
                let head = readable(records::decode_deployment_head(record))?;
                let behind = || self.behind(&head.environment, head.id, head.revision);
                let status = || behind().map_or(head.status, |shown| shown.deployment.status);
                if !is_of(&head.environment, filter.pipeline.as_ref(), filter.environment.as_ref())
                    || filter.session.is_some_and(|session| head.session != Some(session))
                    || filter.status.is_some_and(|wanted| status() != wanted)
                {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            if page.counts(offset, limit) {
                let (environment, record) = readable(records::decode_deployment(record))?;
                page.items.push(self.as_shown(environment, record));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// The blueprint of a deployment; None if it had no stages or is no longer kept.
    pub fn blueprint(&self, organization: &Identifier, id: DeploymentId) -> Result<Option<Arc<Blueprint>>, StoreError> {
        self.services().records.blueprint(organization, id)
    }

    /// The newest successful deployments of the environment before this one, newest first, at most the wanted number.
    /// Examines the `most` preceding deployments of the organization.
    pub fn last_successes_before(
        &self,
        environment: &EnvironmentKey,
        id: DeploymentId,
        wanted: usize,
        most: usize,
    ) -> Result<Vec<DeploymentFound>, StoreError> {
        let organization = &environment.pipeline.organization;
        // Keys are sorted newest first, so the keys that follow are older.
        let from = [keys::deployment(organization, id).as_slice(), &[0]].concat();
        let (mut left, mut found) = (most, Vec::new());
        walk(self.services().store(), &from, &end_of_prefix(&keys::deployments_of(organization)), |_, record| {
            if left == 0 || found.len() == wanted {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            let head = readable(records::decode_deployment_head(record))?;
            if head.environment != *environment || head.status != DeploymentStatus::Succeeded {
                return Ok(ControlFlow::Continue(()));
            }
            let (environment, record) = readable(records::decode_deployment(record))?;
            found.push(DeploymentFound { environment, record });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    pub fn approval(&self, organization: &Identifier, id: ApprovalId) -> Result<Option<ApprovalFound>, StoreError> {
        let record = self.services().store().get(&keys::approval(organization, id))?;
        record.map(|record| self.read_approval(&record)).transpose()
    }

    /// `limit` matching approvals after the `offset` newest, newest first. Reads all approvals of the organization.
    pub fn approvals(
        &self,
        organization: &Identifier,
        filter: &ApprovalFilter,
        offset: u64,
        limit: u64,
    ) -> Result<Listed<ApprovalFound>, StoreError> {
        let prefix = keys::approvals_of(organization);
        let mut page = Listed::default();
        walk(self.services().store(), &prefix, &end_of_prefix(&prefix), |_, record| {
            let found = self.read_approval(record)?;
            if is_of(&found.environment, filter.pipeline.as_ref(), filter.environment.as_ref())
                && filter.deployment.is_none_or(|wanted| found.record.deployment == wanted)
                && filter.status.is_none_or(|wanted| found.record.approval.status == wanted)
                && page.counts(offset, limit)
            {
                page.items.push(found);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// The parts of a deployment's log. Empty before the first stage, and for a log written without a cluster.
    pub fn log_parts(&self, organization: &Identifier, id: DeploymentId) -> Result<Vec<LogPart>, StoreError> {
        self.services().records.log_parts(organization, id)
    }

    /// Up to `limit` logs, after this key, that may still be in the log store although their deployments are no longer
    /// kept.
    pub fn dropped_logs(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError> {
        let from = after.map_or_else(|| keys::DROPPED_LOGS.to_vec(), |after| [after, &[0]].concat());
        let found = self.services().store().scan(&from, &end_of_prefix(keys::DROPPED_LOGS), limit)?;
        let dropped = |key: &[u8], record: &[u8]| {
            let unreadable = || StoreError::Read("its key does not belong to a dropped log".to_owned());
            let (organization, deployment) = keys::parse_dropped_log(key).ok_or_else(unreadable)?;
            Ok(DroppedLog { organization, deployment, parts: readable(records::decode_log_parts(record))? })
        };
        Ok(found.into_iter().map(|(key, record)| DroppedEntry { log: dropped(&key, &record), key }).collect())
    }

    /// Records that the log store no longer has this log.
    pub async fn log_is_removed(&self, log: &DroppedLog) -> Result<(), StoreError> {
        let store = self.services().store();
        let mut batch = Batch::default();
        batch.delete(keys::dropped_log(&log.organization, log.deployment));
        durable_up_to(store, store.commit(batch)?).await;
        Ok(())
    }

    /// The organizations with deployments, including those that no file declares any more. Reads one record per
    /// organization.
    pub fn organizations_with_deployments(&self) -> Result<Vec<Identifier>, StoreError> {
        let mut organizations = Vec::new();
        let mut from = keys::DEPLOYMENTS.to_vec();
        while let Some((key, _)) = self.services().store().scan(&from, &end_of_prefix(keys::DEPLOYMENTS), 1)?.first() {
            let unreadable =
                || StoreError::Read(format!("the key {} does not belong to a deployment", key.escape_ascii()));
            let organization = keys::organization_of_deployment(key).ok_or_else(unreadable)?;
            from = end_of_prefix(&keys::deployments_of(&organization));
            organizations.push(organization);
        }
        Ok(organizations)
    }

    /// Whether the files of a deployment may still be needed, because it is unfinished or can be retried. An id does
    /// not reveal its organization, so it is looked up in each of these.
    pub fn holds_work<'a>(
        &self,
        organizations: impl IntoIterator<Item = &'a Identifier>,
        id: DeploymentId,
    ) -> Result<bool, StoreError> {
        for organization in organizations {
            let Some(DeploymentFound { environment, record }) = self.deployment(organization, id)? else { continue };
            return match record.deployment.status {
                DeploymentStatus::Queued
                | DeploymentStatus::Running
                | DeploymentStatus::AwaitingApproval
                | DeploymentStatus::Cancelling => Ok(true),
                DeploymentStatus::Failed | DeploymentStatus::Cancelled => {
                    let environment = self.at_a_glance(&environment)?;
                    let holder = environment.as_ref().and_then(|environment| environment.lock.as_ref());
                    Ok(record.session.is_some() && holder.map(|session| session.id) == record.session)
                }
                DeploymentStatus::Succeeded => Ok(false),
            };
        }
        Ok(false)
    }

    fn read_approval(&self, record: &[u8]) -> Result<ApprovalFound, StoreError> {
        let (environment, mut record) = readable(records::decode_approval(record))?;
        let view = self.directory.peek(&environment);
        if let Some(shown) = view.as_ref().and_then(|view| approval_in(view, record.deployment, record.approval.id))
            && shown.status != record.approval.status
        {
            record.approval = shown.clone();
        }
        Ok(ApprovalFound { environment, record })
    }

    fn as_shown(&self, environment: EnvironmentKey, record: DeploymentRecord) -> DeploymentFound {
        let Deployment { id, revision, .. } = record.deployment;
        let record = self.behind(&environment, id, revision).unwrap_or(record);
        DeploymentFound { environment, record }
    }

    /// The deployment in the published view, if the view is behind this revision in the store.
    fn behind(&self, environment: &EnvironmentKey, id: DeploymentId, revision: u32) -> Option<DeploymentRecord> {
        let view = self.directory.peek(environment)?;
        let (deployment, session) = view.unfinished_deployment(id)?;
        (deployment.revision < revision).then(|| view.deployment_record(deployment, session))
    }
}

fn is_of(key: &EnvironmentKey, pipeline: Option<&Identifier>, environment: Option<&Identifier>) -> bool {
    pipeline.is_none_or(|wanted| key.pipeline.pipeline == *wanted)
        && environment.is_none_or(|wanted| key.name == *wanted)
}

fn approval_in(view: &Environment, deployment: DeploymentId, id: ApprovalId) -> Option<&Approval> {
    let run = view.unfinished_deployment(deployment)?.0.run.as_ref()?;
    run.stages.iter().filter_map(|stage| stage.approval.as_ref()).find(|approval| approval.id == id)
}
