//! The analyses of every organization: requested, run a few at a time in the background, and stored.
//!
//! An analysis is durable before its request is answered; one that a crash interrupted is run again after the next
//! start. Writers decide in memory through [`Ordered`], on an index of existing and running analyses; readers use the
//! store, which has only durable state. An analysis has one writer at a time: first the task that runs it, then the
//! request that proposes its fix.

mod case;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

pub use super::record::{Analysis, AnalysisError, PullRequest, Pushing, Standing, Status};
pub use super::{Compared, EngineName};

use super::fixes::Repositories;
use super::llm::LlmSettings;
use super::record;
use delivery::archive::Archive;
use delivery::logs::Logs;
use domain::{
    AnalysisId, DeploymentId, EnvironmentKey, Holder, IdSeed, Identifier, Initiator, MemberShare, PipelineKey,
    Timestamp, UserId,
};
use locks::Environments;
use shares::{Capacity, Permits};
use store::{Batch, Ordered, Store, StoreError, for_each};

/// Stored per organization; beyond it the oldest are removed. Few enough to scan within milliseconds.
pub const KEPT_MAX: usize = 1_000;
/// Stored per deployment, so that repeated requests for one deployment do not push out the others.
pub const KEPT_OF_DEPLOYMENT_MAX: usize = 20;
/// Concurrent analyses: the builtin engine needs a processor, and a model serves few requests at a time.
const RUNNING_MAX: usize = 4;
/// Unfinished analyses, including waiting ones. An organization may have as many as are still free.
const UNDER_WAY_MAX: usize = 128;
/// Unfinished analyses per organization, even if it is the only one.
const UNDER_WAY_OF_ORGANIZATION_MAX: usize = 32;

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Masks secrets in a text.
pub type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;
/// Returns the mask of a pipeline's secrets, or why it has none.
pub type Masks = Arc<dyn Fn(&PipelineKey) -> Result<Mask, String> + Send + Sync>;

/// The parts of the server that analyses need.
pub struct Sources {
    pub store: Arc<dyn Store>,
    pub environments: Environments,
    pub logs: Logs,
    /// For log parts that other nodes wrote.
    pub archive: Archive,
    pub masks: Masks,
    pub repositories: Repositories,
    pub clock: Clock,
    /// The number of organizations that share the capacity for analyses.
    pub organizations: usize,
}

/// The configured engines.
#[derive(Debug, Clone)]
pub struct Engines {
    /// The engine for requests that name none; without a default, deployments are not analysed.
    pub default: Option<EngineName>,
    pub llm: Option<LlmSettings>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Analyses {
    inner: Arc<Inner>,
}

struct Inner {
    sources: Sources,
    engines: Engines,
    index: Ordered<Index>,
    /// The runtime for analyses, whichever thread requests them.
    runtime: Handle,
    places: Permits,
    /// Wakes all waiting requests; both waiting requests and changes are rare.
    changed: watch::Sender<()>,
    closed: watch::Sender<bool>,
}

/// The existing and running analyses, durable or not.
#[derive(Default)]
struct Index {
    organizations: HashMap<Identifier, BTreeMap<AnalysisId, Entry>>,
    under_way: usize,
}

struct Entry {
    deployment: DeploymentId,
    requested_by: UserId,
    is_running: bool,
}

#[derive(Debug, Clone)]
pub struct NewAnalysis {
    pub environment: EnvironmentKey,
    pub deployment: DeploymentId,
    pub engine: EngineName,
    pub requested_by: Initiator,
    /// The member, for their share of the organization's unfinished analyses.
    pub holder: Holder,
}

/// All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnalysisFilter {
    pub deployment: Option<DeploymentId>,
    pub pipeline: Option<Identifier>,
    pub status: Option<Status>,
}

/// A page of analyses, newest first, and the total number that match.
#[derive(Debug, Default)]
pub struct AnalysisPage {
    pub analyses: Vec<Analysis>,
    pub total: u64,
}

impl Analyses {
    /// Loads the index. Nothing runs before [`Analyses::resume`].
    pub fn open(sources: Sources, engines: Engines) -> Result<Self, StoreError> {
        let mut index = Index::default();
        for_each(&*sources.store, store::keys::ANALYSES, |_, record| {
            index.put(&read(record)?);
            Ok(())
        })?;
        let places = Capacity::turns(RUNNING_MAX).among(sources.organizations);
        let inner = Inner {
            index: Ordered::new(sources.store.clone(), index),
            sources,
            engines,
            runtime: Handle::current(),
            // Waiting analyses are limited by `UNDER_WAY_MAX`.
            places: Permits::new("analyses", places, Capacity::turns(usize::MAX).among(1)),
            changed: watch::Sender::new(()),
            closed: watch::Sender::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn engines(&self) -> &Engines {
        &self.inner.engines
    }

    /// `beside` adds to the same batch; its result is held until the batch is durable or refused.
    pub async fn start<Held>(
        &self,
        new: NewAnalysis,
        id: IdSeed,
        beside: impl FnOnce(&Analysis, &mut Batch) -> Held,
    ) -> Result<Analysis, AnalysisError> {
        let analysis = Analysis {
            id: AnalysisId(id),
            engine: new.engine,
            environment: new.environment,
            deployment: new.deployment,
            requested_by: new.requested_by,
            created_at: (self.inner.sources.clock)(),
            standing: Standing::Running,
            pushing: None,
            pull_request: None,
            revision: 1,
        };
        let organization = &analysis.environment.pipeline.organization;
        let handed_in = self.inner.index.change(|index, committer| {
            let surplus =
                index.surplus(organization, analysis.deployment, new.holder).ok_or(AnalysisError::Overloaded)?;
            let mut batch = Batch::default();
            for id in &surplus {
                batch.delete(record::key(organization, *id));
            }
            put(&mut batch, &analysis);
            let held = beside(&analysis, &mut batch);
            committer.commit(batch)?;
            for id in surplus {
                index.forget(organization, id);
            }
            index.put(&analysis);
            Ok::<_, AnalysisError>(held)
        });
        handed_in.await?;
        self.inner.changed.send_replace(());
        self.run(analysis.clone());
        Ok(analysis)
    }

    pub fn get(&self, organization: &Identifier, id: AnalysisId) -> Result<Option<Analysis>, StoreError> {
        let record = self.inner.sources.store.get(&record::key(organization, id))?;
        record.map(|record| read(&record)).transpose()
    }

    /// At most `limit` matching analyses, after the `offset` newest. Scans all analyses of the organization.
    pub fn list(
        &self,
        organization: &Identifier,
        filter: &AnalysisFilter,
        offset: u64,
        limit: u64,
    ) -> Result<AnalysisPage, StoreError> {
        let mut page = AnalysisPage::default();
        for_each(&*self.inner.sources.store, &record::organization_prefix(organization), |_, record| {
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
            Ok(())
        })?;
        Ok(page)
    }

    /// Changes whenever any analysis changes: subscribe first, then read, then wait.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.inner.changed.subscribe()
    }

    /// Changes an analysis; the caller is its only writer. `beside` as with [`Analyses::start`].
    pub async fn change<Held>(
        &self,
        mut analysis: Analysis,
        change: impl FnOnce(&mut Analysis),
        beside: impl FnOnce(&Analysis, &mut Batch) -> Held,
    ) -> Result<Analysis, AnalysisError> {
        change(&mut analysis);
        analysis.revision += 1;
        let handed_in = self.inner.index.change(|index, committer| {
            if !index.has(&analysis) {
                return Err(AnalysisError::NotFound);
            }
            let mut batch = Batch::default();
            put(&mut batch, &analysis);
            let held = beside(&analysis, &mut batch);
            committer.commit(batch)?;
            index.put(&analysis);
            Ok(held)
        });
        handed_in.await?;
        self.inner.changed.send_replace(());
        Ok(analysis)
    }
}

fn put(batch: &mut Batch, analysis: &Analysis) {
    batch.put(record::key(&analysis.environment.pipeline.organization, analysis.id), record::encode(analysis));
}

fn read(record: &[u8]) -> Result<Analysis, StoreError> {
    Ok(record::decode(record)?)
}

impl Index {
    fn has(&self, analysis: &Analysis) -> bool {
        let known = self.organizations.get(&analysis.environment.pipeline.organization);
        known.is_some_and(|known| known.contains_key(&analysis.id))
    }

    fn put(&mut self, analysis: &Analysis) {
        let entry = Entry {
            deployment: analysis.deployment,
            requested_by: analysis.requested_by.person.id,
            is_running: analysis.status() == Status::Running,
        };
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

    /// The analyses to remove for a new one of this deployment; None if there is no room for a new one.
    fn surplus(
        &self,
        organization: &Identifier,
        deployment: DeploymentId,
        Holder { member, is_admin }: Holder,
    ) -> Option<Vec<AnalysisId>> {
        let share = Capacity::seats(UNDER_WAY_MAX);
        let Some(known) = self.organizations.get(organization) else {
            return share.check(0, self.under_way).ok().map(|()| Vec::new());
        };
        let running = known.values().filter(|entry| entry.is_running).count();
        share.check(running, self.under_way).ok()?;
        let own = || known.values().filter(|entry| entry.is_running && entry.requested_by == member).count();
        MemberShare { total: UNDER_WAY_OF_ORGANIZATION_MAX, used: running, is_admin }.check(own).ok()?;
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
    use domain::Person;

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
            requested_by: Initiator { person: Person { id: UserId(seed(number)), name: "ana".into() }, via: None },
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

    fn admin(number: usize) -> Holder {
        Holder { member: UserId(seed(number)), is_admin: true }
    }

    fn surplus(index: &Index, deployment: usize) -> Option<Vec<usize>> {
        let surplus = index.surplus(&id("acme"), DeploymentId(seed(deployment)), admin(deployment))?;
        Some(surplus.into_iter().map(|id| usize::from(id.0.0[11]) + 256 * usize::from(id.0.0[10])).collect())
    }

    #[test]
    fn the_oldest_analysis_of_a_deployment_is_dropped_beyond_the_limit_but_never_a_running_one() {
        let mut index = Index::default();
        index.put(&analysis(1, 7, Standing::Running));
        for number in 2..=KEPT_OF_DEPLOYMENT_MAX {
            assert_eq!(surplus(&index, 7), Some(vec![]));
            index.put(&analysis(number, 7, ended()));
        }
        assert_eq!(surplus(&index, 7), Some(vec![2]));
        assert_eq!(surplus(&index, 8), Some(vec![]));
    }

    #[test]
    fn the_oldest_analysis_of_an_organization_is_dropped_beyond_the_limit() {
        let mut index = Index::default();
        for number in 1..=KEPT_MAX {
            index.put(&analysis(number, number / 10, ended()));
        }
        assert_eq!(surplus(&index, 2_000), Some(vec![1]));
        index.forget(&id("acme"), AnalysisId(seed(500)));
        assert_eq!(surplus(&index, 2_000), Some(vec![]));
    }

    #[test]
    fn however_many_organizations_fill_their_part_another_one_finds_a_place() {
        let mut index = Index::default();
        let mut number = 0;
        for organization in ["a", "b", "c", "d", "e", "f"] {
            let mut got = 0;
            while index.surplus(&id(organization), DeploymentId(seed(number)), admin(number)).is_some() {
                let mut analysis = analysis(number, number, Standing::Running);
                analysis.environment.pipeline.organization = id(organization);
                index.put(&analysis);
                (number, got) = (number + 1, got + 1);
            }
            assert!(got > 0, "{organization} gets none");
        }
        assert!(index.under_way <= UNDER_WAY_MAX);
    }

    #[test]
    fn one_member_has_half_of_the_analyses_and_the_last_ones_are_for_admins() {
        let mut index = Index::default();
        let mut got = |member: usize, is_admin: bool| {
            let holder = Holder { member: UserId(seed(member)), is_admin };
            (0..UNDER_WAY_OF_ORGANIZATION_MAX)
                .take_while(|nth| {
                    let number = 100 * member + nth;
                    let found = index.surplus(&id("acme"), DeploymentId(seed(number)), holder).is_some();
                    if found {
                        let mut made = analysis(number, number, Standing::Running);
                        made.requested_by.person.id = holder.member;
                        index.put(&made);
                    }
                    found
                })
                .count()
        };
        assert_eq!([got(1, false), got(2, false)], [16, 8]);
        let others: usize = (3..30).map(|member| got(member, false)).sum();
        assert_eq!((others, got(30, true)), (6, 2));
    }

    #[test]
    fn analyses_beyond_the_limit_are_refused_until_some_have_ended() {
        let mut index = Index::default();
        for number in 1..=UNDER_WAY_OF_ORGANIZATION_MAX {
            assert_eq!(surplus(&index, number), Some(vec![]));
            index.put(&analysis(number, number, Standing::Running));
        }
        assert_eq!(surplus(&index, 1_000), None);
        let other = index.surplus(&id("beta"), DeploymentId(seed(1)), admin(1));
        assert!(other.is_some(), "another organization has its own places");
        index.put(&analysis(3, 3, ended()));
        assert_eq!(surplus(&index, 1_000), Some(vec![]));
        assert_eq!(index.under_way, UNDER_WAY_OF_ORGANIZATION_MAX - 1);
    }
}
