//! The analyses of every organization: asked for, run a few at a time in the background, and kept.
//!
//! An analysis is durable before it is answered for; one that a crash has cut off is taken up again by the next start.
//! Readers take the store, which has only what is durable. An analysis has one writer at a time: first whoever runs it,
//! then whoever makes its fix; only making and forgetting them takes all of them into account.

mod case;
mod record;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

pub use record::{Analysis, Compared, EngineName, PullRequest, Pushing, Report, Standing, Status};

use super::llm::LlmSettings;
use super::stored::{self, Unreadable};
use crate::actors::Environments;
use crate::domain::{Agent, AnalysisId, DeploymentId, EnvironmentKey, IdSeed, Identifier, PipelineKey, Timestamp};
use crate::logs::Logs;
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to, end_of_prefix, walk};

/// Kept of an organization; beyond it the oldest are forgotten. A list of them is read through within milliseconds.
pub const KEPT_MAX: usize = 1_000;
/// Kept of one deployment, so that whoever asks about it again and again does not push out the others.
pub const KEPT_OF_DEPLOYMENT_MAX: usize = 20;
/// Run at once: the builtin engine takes a processor, and a model takes few at a time.
const RUNNING_MAX: usize = 4;
/// Under way in all, those that wait for their turn included.
const UNDER_WAY_MAX: usize = 128;
/// The same of one organization, so that one cannot take all the places.
const UNDER_WAY_OF_ORGANIZATION_MAX: usize = 32;

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Keeps secrets out of a text.
pub type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;
/// What keeps the secrets of a pipeline out of texts; otherwise why there is nothing that does.
pub type Masks = Arc<dyn Fn(&PipelineKey) -> Result<Mask, String> + Send + Sync>;

/// What an analysis needs of the rest of the server.
pub struct Sources {
    pub store: Arc<dyn Store>,
    pub environments: Environments,
    pub logs: Logs,
    pub masks: Masks,
    pub clock: Clock,
}

/// Which engines there are.
#[derive(Debug, Clone)]
pub struct Engines {
    /// The one that is asked where nobody says which; none: nothing is analysed.
    pub default: Option<EngineName>,
    pub llm: Option<LlmSettings>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Analyses {
    shared: Arc<Shared>,
}

struct Shared {
    sources: Sources,
    engines: Engines,
    /// Whoever makes, changes or forgets one holds it while both the store and this take the change, and never while
    /// waiting for the disk.
    newest: Mutex<Newest>,
    /// Where analyses run, whoever asks for them.
    runtime: Handle,
    places: Semaphore,
    /// Tells those who wait that something has changed; there are few of them, and few changes.
    changed: watch::Sender<()>,
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Newest {
    organizations: HashMap<Identifier, BTreeMap<AnalysisId, Entry>>,
    under_way: usize,
    last_change: Sequence,
}

struct Entry {
    deployment: DeploymentId,
    is_running: bool,
}

#[derive(Debug, Clone)]
pub struct NewAnalysis {
    pub environment: EnvironmentKey,
    pub deployment: DeploymentId,
    pub engine: EngineName,
    pub requested_by: Agent,
}

/// All that is said must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnalysisFilter {
    pub deployment: Option<DeploymentId>,
    pub pipeline: Option<Identifier>,
    pub status: Option<Status>,
}

/// Some analyses, newest first, and how many match in all.
#[derive(Debug, Default)]
pub struct AnalysisPage {
    pub analyses: Vec<Analysis>,
    pub total: u64,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum AnalysisError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("as many analyses are under way as may be")]
    Overloaded,
    #[error("there is no such analysis, or no longer")]
    NotFound,
}

impl Analyses {
    /// Loads what there is. Nothing is run before [`Analyses::resume`].
    pub fn open(sources: Sources, engines: Engines) -> Result<Self, StoreError> {
        let mut newest = Newest::default();
        walk(&*sources.store, stored::ANALYSES, &end_of_prefix(stored::ANALYSES), |_, record| {
            newest.put(&read(record)?);
            Ok(ControlFlow::Continue(()))
        })?;
        let shared = Shared {
            sources,
            engines,
            newest: Mutex::new(newest),
            runtime: Handle::current(),
            places: Semaphore::new(RUNNING_MAX),
            changed: watch::Sender::new(()),
            closed: watch::Sender::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub fn engines(&self) -> &Engines {
        &self.shared.engines
    }

    /// What `keep` adds goes into the batch that makes the analysis; what it returns is held until that is durable.
    pub async fn start<Held>(
        &self,
        new: NewAnalysis,
        id: IdSeed,
        keep: impl FnOnce(&Analysis, &mut Batch) -> Held,
    ) -> Result<Analysis, AnalysisError> {
        let analysis = Analysis {
            id: AnalysisId(id),
            engine: new.engine,
            environment: new.environment,
            deployment: new.deployment,
            requested_by: new.requested_by,
            created_at: (self.shared.sources.clock)(),
            standing: Standing::Running,
            pushing: None,
            pull_request: None,
            revision: 1,
        };
        let (_held, sequence) = self.hand_in_new(&analysis, keep)?;
        durable_up_to(&*self.shared.sources.store, sequence).await;
        self.tell();
        self.run(analysis.clone());
        Ok(analysis)
    }

    pub fn get(&self, organization: &Identifier, id: AnalysisId) -> Result<Option<Analysis>, StoreError> {
        let record = self.shared.sources.store.get(&stored::key(organization, id))?;
        record.map(|record| read(&record)).transpose()
    }

    /// `limit` of those that match, after the `offset` newest. Looks at all of the organization's.
    pub fn list(
        &self,
        organization: &Identifier,
        filter: &AnalysisFilter,
        offset: u64,
        limit: u64,
    ) -> Result<AnalysisPage, StoreError> {
        let prefix = stored::organization_prefix(organization);
        let mut page = AnalysisPage::default();
        walk(&*self.shared.sources.store, &prefix, &end_of_prefix(&prefix), |_, record| {
            let analysis = read(record)?;
            if filter.deployment.is_none_or(|wanted| analysis.deployment == wanted)
                && filter.pipeline.as_ref().is_none_or(|wanted| analysis.environment.pipeline.pipeline == *wanted)
                && filter.status.is_none_or(|wanted| analysis.status() == wanted)
            {
                if page.total >= offset && (page.analyses.len() as u64) < limit {
                    page.analyses.push(analysis);
                }
                page.total += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// Changes whenever any analysis does: make it first, then read, then wait.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.shared.changed.subscribe()
    }

    /// A change of an analysis that whoever calls is the only writer of. `keep` as with [`Analyses::start`].
    pub async fn change<Held>(
        &self,
        mut analysis: Analysis,
        change: impl FnOnce(&mut Analysis),
        keep: impl FnOnce(&Analysis, &mut Batch) -> Held,
    ) -> Result<Analysis, AnalysisError> {
        change(&mut analysis);
        analysis.revision += 1;
        let (_held, sequence) = {
            let newest = &mut *self.shared.newest.lock();
            if !newest.has(&analysis) {
                return Err(AnalysisError::NotFound);
            }
            let mut batch = Batch::default();
            put(&mut batch, &analysis);
            let held = keep(&analysis, &mut batch);
            newest.last_change = self.shared.sources.store.commit(batch)?;
            newest.put(&analysis);
            (held, newest.last_change)
        };
        durable_up_to(&*self.shared.sources.store, sequence).await;
        self.tell();
        Ok(analysis)
    }

    fn tell(&self) {
        self.shared.changed.send_replace(());
    }

    fn hand_in_new<Held>(
        &self,
        analysis: &Analysis,
        keep: impl FnOnce(&Analysis, &mut Batch) -> Held,
    ) -> Result<(Held, Sequence), AnalysisError> {
        let newest = &mut *self.shared.newest.lock();
        let organization = &analysis.environment.pipeline.organization;
        let surplus = newest.surplus(organization, analysis.deployment).ok_or(AnalysisError::Overloaded)?;
        let mut batch = Batch::default();
        for id in &surplus {
            batch.delete(stored::key(organization, *id));
        }
        put(&mut batch, analysis);
        let held = keep(analysis, &mut batch);
        newest.last_change = self.shared.sources.store.commit(batch)?;
        for id in surplus {
            newest.forget(organization, id);
        }
        newest.put(analysis);
        Ok((held, newest.last_change))
    }
}

fn put(batch: &mut Batch, analysis: &Analysis) {
    batch.put(stored::key(&analysis.environment.pipeline.organization, analysis.id), stored::encode(analysis));
}

fn read(record: &[u8]) -> Result<Analysis, StoreError> {
    stored::decode(record).map_err(|unreadable: Unreadable| StoreError::Read(unreadable.to_string()))
}

impl Newest {
    fn has(&self, analysis: &Analysis) -> bool {
        let known = self.organizations.get(&analysis.environment.pipeline.organization);
        known.is_some_and(|known| known.contains_key(&analysis.id))
    }

    fn put(&mut self, analysis: &Analysis) {
        let entry = Entry { deployment: analysis.deployment, is_running: analysis.status() == Status::Running };
        let organization = self.organizations.entry(analysis.environment.pipeline.organization.clone()).or_default();
        self.under_way += usize::from(entry.is_running);
        let before = organization.insert(analysis.id, entry);
        self.under_way -= usize::from(before.is_some_and(|before| before.is_running));
    }

    fn forget(&mut self, organization: &Identifier, id: AnalysisId) {
        if let Some(known) = self.organizations.get_mut(organization) {
            known.remove(&id);
        }
    }

    /// Which have to go for another one of this deployment; none if there is no place for another.
    fn surplus(&self, organization: &Identifier, deployment: DeploymentId) -> Option<Vec<AnalysisId>> {
        let Some(known) = self.organizations.get(organization) else {
            return (self.under_way < UNDER_WAY_MAX).then(Vec::new);
        };
        let running = known.values().filter(|entry| entry.is_running).count();
        if self.under_way >= UNDER_WAY_MAX || running >= UNDER_WAY_OF_ORGANIZATION_MAX {
            return None;
        }
        let mut surplus = Vec::new();
        // Ids sort by time: the first is the oldest.
        let of_deployment = known.values().filter(|entry| entry.deployment == deployment).count();
        if of_deployment >= KEPT_OF_DEPLOYMENT_MAX {
            let mut ended = known.iter().filter(|(_, entry)| entry.deployment == deployment && !entry.is_running);
            surplus.push(*ended.next()?.0);
        }
        if known.len() - surplus.len() >= KEPT_MAX {
            let mut ended = known.iter().filter(|(id, entry)| !entry.is_running && !surplus.contains(id));
            surplus.push(*ended.next()?.0);
        }
        Some(surplus)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{Person, UserId};

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    fn seed(number: usize) -> IdSeed {
        let mut seed = [0; 12];
        seed[4..].copy_from_slice(&(number as u64).to_be_bytes());
        IdSeed(seed)
    }

    fn analysis(number: usize, deployment: usize, standing: Standing) -> Analysis {
        Analysis {
            id: AnalysisId(seed(number)),
            environment: EnvironmentKey {
                pipeline: PipelineKey { organization: id("acme"), pipeline: id("web") },
                name: id("review-1"),
            },
            deployment: DeploymentId(seed(deployment)),
            engine: EngineName::Builtin,
            requested_by: Agent { person: Person { id: UserId(seed(0)), name: "ana".into() }, via: None },
            created_at: Timestamp::from_millis(0),
            standing,
            pushing: None,
            pull_request: None,
            revision: 1,
        }
    }

    fn ended() -> Standing {
        Standing::Failed { at: Timestamp::from_millis(0), reason: "".into() }
    }

    fn surplus(newest: &Newest, deployment: usize) -> Option<Vec<usize>> {
        let surplus = newest.surplus(&id("acme"), DeploymentId(seed(deployment)))?;
        Some(surplus.into_iter().map(|id| usize::from(id.0.0[11]) + 256 * usize::from(id.0.0[10])).collect())
    }

    #[test]
    fn the_oldest_of_a_deployment_goes_when_it_has_too_many_and_never_one_that_runs() {
        let mut newest = Newest::default();
        newest.put(&analysis(1, 7, Standing::Running));
        for number in 2..=KEPT_OF_DEPLOYMENT_MAX {
            assert_eq!(surplus(&newest, 7), Some(vec![]));
            newest.put(&analysis(number, 7, ended()));
        }
        assert_eq!(surplus(&newest, 7), Some(vec![2]));
        assert_eq!(surplus(&newest, 8), Some(vec![]));
    }

    #[test]
    fn the_oldest_of_an_organization_goes_when_it_has_too_many() {
        let mut newest = Newest::default();
        for number in 1..=KEPT_MAX {
            newest.put(&analysis(number, number / 10, ended()));
        }
        assert_eq!(surplus(&newest, 2_000), Some(vec![1]));
        newest.forget(&id("acme"), AnalysisId(seed(500)));
        assert_eq!(surplus(&newest, 2_000), Some(vec![]));
    }

    #[test]
    fn a_crowd_is_refused_until_some_have_ended() {
        let mut newest = Newest::default();
        for number in 1..=UNDER_WAY_OF_ORGANIZATION_MAX {
            assert_eq!(surplus(&newest, number), Some(vec![]));
            newest.put(&analysis(number, number, Standing::Running));
        }
        assert_eq!(surplus(&newest, 1_000), None);
        assert!(
            newest.surplus(&id("beta"), DeploymentId(seed(1))).is_some(),
            "another organization has its own places"
        );
        newest.put(&analysis(3, 3, ended()));
        assert_eq!(surplus(&newest, 1_000), Some(vec![]));
        assert_eq!(newest.under_way, UNDER_WAY_OF_ORGANIZATION_MAX - 1);
    }
}
