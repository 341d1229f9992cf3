//! `lockkeeper audit verify` over a cluster, while its nodes serve it: each shard as it was at one moment.

use std::path::Path;
use std::sync::Arc;

use super::operating::{ClusterError, Operation, master_key, operate};
use crate::config::{Cluster, Settings};
use crate::moving;
use accounts::secrets::{self, FoundAuditKey, MasterKey};
use domain::Identifier;
use events::{AuditReport, Events, Expectation};
use store::Snapshot;
use store::engine::Engine;

/// Verifies the events of one organization or of all, ordered by their names.
pub fn audit(
    settings: &Settings,
    cluster: &Cluster,
    organization: Option<&str>,
    expected: &[Expectation],
) -> Result<Vec<AuditReport>, ClusterError> {
    operate(cluster, Audit { master: master_key(settings)?, organization, expected })
}

struct Audit<'a> {
    master: MasterKey,
    organization: Option<&'a str>,
    expected: &'a [Expectation],
}

impl Operation for Audit<'_> {
    type Outcome = Vec<AuditReport>;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Vec<AuditReport>, ClusterError> {
        let cluster = moving::ready(&*engine, self.master.short_hash()).await?;
        let mut reports = Vec::new();
        for number in 0..cluster.shards.get() {
            let copied = moving::answered(async || engine.copy(number).await).await?;
            if let Some((shard, pairs)) = copied {
                reports.extend(self.audit(Arc::new(Snapshot::new(shard, pairs)))?);
            }
        }
        reports.sort_by(|one, other| one.organization.cmp(&other.organization));
        Ok(reports)
    }
}

impl Audit<'_> {
    fn audit(&self, shard: Arc<Snapshot>) -> Result<Vec<AuditReport>, ClusterError> {
        let found = secrets::find_audit_key(&*shard, Path::new(""), Some(self.master.clone()))?;
        let events = Events::new(shard);
        let events = match found {
            FoundAuditKey::Key(key) => events.with_key(key),
            // The report says that the seals could not be checked.
            FoundAuditKey::NotMade | FoundAuditKey::NoMasterKey | FoundAuditKey::DoesNotOpen => events,
        };
        let is_wanted = |organization: &Identifier| self.organization.is_none_or(|name| organization.as_str() == name);
        let organizations = events.audited()?.into_iter().filter(is_wanted);
        organizations.map(|organization| Ok(events.audit(&organization, self.expected)?)).collect()
    }
}
