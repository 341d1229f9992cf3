//! A realm: opens its parts on a store in the order of their dependencies, runs its chores and webhooks, and stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::ServeError;
use super::host::{ShardHost, policy};
use super::runner_host::{PipelineDefinitions, PipelineMasks, RunnerExecutor, RunnerHost};
use super::{declarations, realm_chores, reconcile};
use crate::backup::Backups;
use crate::config::{self, AnalysisEngine, Settings};
use crate::http::{self, EventHubs, Node, RateLimits, Realm, Replaceable, StreamTiming, WallClock};
use accounts::auth::{Accounts, AccountsError, Member, NewToken, Password, TokenText};
use accounts::identities::Identities;
use accounts::secrets::{self, SecretError, Vault};
use accounts::sso::SingleSignOn;
use ambient::steady_clock::SteadyClock;
use analysis::fixes::{self, Fixes, Repositories};
use analysis::llm::{ApiKey, LlmSettings};
use analysis::service::{Analyses, EngineName, Engines, Masks, Sources};
use delivery::registries::Registries;
use delivery::runner::Runner;
use domain::{Identifier, Now, PipelineKey, Timestamp};
use events::{Cause, Events, Sealer};
use locks::idempotency::Keys;
use locks::pipelines::Pipelines;
use locks::{Clock, Environments, LogKeeper, Options, TicketLane};
use outbound::Policy;
use shares::Capacity;
use store::{LoggedStore, Store, StoreError};
use webhooks::Webhooks;

/// How long stopping waits for webhook receivers: enough for a working one.
const LAST_DELIVERIES_MAX: Duration = Duration::from_secs(5);

const LOOKED_AT_EVERY: Duration = Duration::from_millis(5);

/// A store to be opened as a realm.
pub struct RealmStore {
    pub store: Arc<dyn Store>,
    /// Its number among the hosts of the runner.
    pub number: u16,
    /// `None` in a cluster, where there is no data directory to copy.
    pub logged: Option<Arc<LoggedStore>>,
    pub clock: WallClock,
    pub steady: SteadyClock,
    /// Keeps the output of stages, in a cluster.
    pub log_keeper: Option<Box<dyn LogKeeper>>,
    /// After this time, no step of an earlier owner can be running.
    pub steps_over_at: Option<Instant>,
    /// Whether the store includes the organization whose admin gets a token at the first start.
    pub makes_admin: bool,
    pub tickets: TicketLane,
}

/// The credentials of the first admin, shown once.
pub struct FirstAdmin {
    pub organization: Identifier,
    pub name: Identifier,
    pub password: Password,
    pub token: TokenText,
}

pub struct LiveRealm {
    pub realm: Arc<Realm>,
    chores: Vec<JoinHandle<()>>,
    delivering: JoinHandle<()>,
}

impl LiveRealm {
    /// Opens a realm, and begins its chores. Returns the credentials of the first admin at the first start. The settings
    /// contain only the organizations of this store.
    pub async fn open(
        host: &ShardHost<'_>,
        settings: &Settings,
        store: RealmStore,
    ) -> Result<(Self, Option<FirstAdmin>), ServeError> {
        let (realm, first_admin) = open_realm(host, settings, store).await?;
        let realm = Arc::new(realm);
        let mut chores = realm_chores::begin(&realm, settings, &host.node.archive);
        let keeping = reconcile::run(realm.clone(), settings.organizations.clone(), host.declarations.clone());
        chores.push(actix_web::rt::spawn(keeping));
        let webhooks = realm.webhooks.clone();
        let delivering = actix_web::rt::spawn(async move { webhooks.run().await });
        Ok((Self { realm, chores, delivering }, first_admin))
    }

    /// Stops background work; requests are still answered.
    pub fn wind_down(&self) {
        self.realm.analyses.close();
        self.chores.iter().for_each(JoinHandle::abort);
        self.realm.webhooks.stop();
    }

    /// Waits for current deliveries; pending ones are made after the next start.
    pub async fn finish_deliveries(&mut self, patience: Duration) {
        tokio::time::timeout(patience.min(LAST_DELIVERIES_MAX), &mut self.delivering).await.ok();
    }

    /// Writes updates that were deferred, after the last request.
    pub async fn write_last(&self) {
        if let Err(error) = self.realm.accounts.write_usage().await {
            tracing::warn!(%error, "cannot write when tokens were last used");
        }
        if let Some(mut sealer) = Sealer::new(self.realm.events.clone())
            && let Err(error) = sealer.seal().await
        {
            tracing::warn!(%error, "cannot seal the last events; the next start does");
        }
    }

    /// Waits up to `patience` for deliveries and then for the requests in progress.
    pub async fn settle(&mut self, patience: Duration) {
        self.finish_deliveries(patience).await;
        let idle = async {
            // Every request holds a reference.
            while Arc::strong_count(&self.realm) > 1 {
                tokio::time::sleep(LOOKED_AT_EVERY).await;
            }
        };
        tokio::time::timeout(patience, idle).await.ok();
    }
}

/// Opens the parts that use a store, and resumes unfinished work of the previous run.
async fn open_realm(
    host: &ShardHost<'_>,
    settings: &Settings,
    RealmStore { store, number, logged, clock, steady, log_keeper, steps_over_at, makes_admin, tickets }: RealmStore,
) -> Result<(Realm, Option<FirstAdmin>), ServeError> {
    let (node, declared) = (&*host.node, settings.organizations.as_slice());
    let events = Events::new(store.clone());
    // Must happen before any event is added.
    events.repair_heads().await?;
    declarations::log_changes(&*store, declared)?;
    let accounts = Accounts::open(store.clone(), declarations::members(declared), clock()).await?;
    let accounts = accounts.with_limits(settings.auth.sign_ins, settings.auth.attempts);
    accounts.apply_trust(declarations::trusted(declared), clock()).await?;
    let first_admin = if makes_admin { first_admin(&accounts, settings, clock()).await? } else { None };
    let master = secrets::unlock(&*store, &settings.data_dir, settings.master_key.clone()).await?;
    let events = events.with_key(secrets::audit_key(&*store, &master).await?);
    let backups = logged.map(|logged| Backups::new(logged, node.logs.clone(), Some(master.fingerprint())));
    let vault = Arc::new(Vault::open(store.clone(), master)?);
    let idempotency = Keys::open(store.clone(), settings.idempotency.max_keys, steady.clone())?;
    let pipelines = Pipelines::open(store.clone(), declarations::pipelines(declared), clock()).await?;
    let known = declared.iter().map(|organization| &organization.id);
    if let Err(error) = delete_orphaned_secrets(&vault, &pipelines, known, clock()).await {
        tracing::warn!(%error, "cannot delete the secrets of deleted pipelines; the next start tries again");
    }
    let registries =
        Registries::open(store.clone(), pipelines.clone(), vault.clone(), node.git.clone(), config::read_step)?;
    declarations::warn_of_unresolved(declared, &pipelines, &registries);
    let definitions = PipelineDefinitions { pipelines: pipelines.clone(), registries: registries.clone() };
    let of = (settings, node);
    let environments = open_environments(of, (store.clone(), tickets), clock.clone(), &steady, definitions)?;
    if let Some(keeper) = log_keeper {
        environments.set_log_keeper(keeper);
    }
    let masks = PipelineMasks::new(vault.clone());
    let runner_host = RunnerHost::new(environments.clone(), masks.clone(), store.clone(), steps_over_at);
    host.runner_hosts.add(number, runner_host);
    // Must come before any other decision, so that stages of the previous run are not mistaken for stages of this one.
    resume_deployments(&environments, &host.runner).await?;
    declarations::environments(&environments, declared, &pipelines).await?;
    // The actors of declared environments run on this thread; after dismissing them, the next request starts them on a
    // thread that serves requests. The first call only clears the mark that they were just used.
    environments.dismiss_unused();
    environments.dismiss_unused();
    declarations::forget_gone((&environments, &pipelines), &*store, declared, clock()).await?;
    declarations::note_entries(&*store, declared).await?;
    declarations::warn_of_reserved_names(declared, &pipelines, &environments)?;
    let masks: Masks = Arc::new(move |pipeline: &PipelineKey| {
        let mask = masks.mask(pipeline)?;
        Ok(Arc::new(move |text: &str| mask.apply(text)))
    });
    let repositories = Repositories { git: node.git.clone(), pipelines: pipelines.clone(), vault: vault.clone() };
    let analyses = open_analyses(of, store.clone(), &environments, masks.clone(), repositories.clone(), clock.clone())?;
    let dependencies = fixes::FixDependencies {
        repositories,
        policy: policy(settings),
        analyses: analyses.clone(),
        masks,
        clock: clock.clone(),
    };
    let webhooks = open_webhooks(of, store.clone(), vault.clone(), clock.clone())?;
    let timing = StreamTiming { heartbeat: settings.events.heartbeat, stall: settings.events.stall };
    let realm = Realm {
        store,
        environments,
        accounts,
        organization_names: Replaceable::new(declarations::organization_names(declared)),
        idempotency,
        pipelines,
        registries,
        vault,
        webhooks,
        analyses,
        fixes: Fixes::new(dependencies, node.organizations),
        event_hubs: EventHubs::new(events.clone(), timing, node.organizations),
        events,
        sso: Replaceable::new(SingleSignOn::new(declarations::providers(declared))),
        identities: Replaceable::new(Identities::new(declarations::identities(declared))),
        backups,
        rate_limits: settings.rate_limit.map(|limit| RateLimits::new(limit.per_second, limit.burst)),
        clock,
    };
    Ok((realm, first_admin))
}

fn open_environments(
    (settings, node): (&Settings, &Node),
    (store, tickets): (Arc<dyn Store>, TicketLane),
    wall: WallClock,
    steady: &SteadyClock,
    definitions: PipelineDefinitions,
) -> Result<Environments, StoreError> {
    let (boot, steady) = (steady.boot, steady.clone());
    let clock: Clock = Arc::new(move || Now { at: wall(), tick: steady.tick() });
    let options = Options {
        history_retention: settings.storage.history_retention.into(),
        mailbox: settings.environments.mailbox,
        waiting: Capacity::seats(settings.environments.max_waiting).among(node.organizations),
        waiting_per_token: settings.environments.max_waiting_per_token,
        answer_timeout: settings.http.answer_timeout,
        tickets,
    };
    Environments::open(store, clock, boot, Arc::new(definitions), options)
}

/// Starts running stages, beginning with those that the previous run left.
async fn resume_deployments(environments: &Environments, runner: &Runner) -> Result<(), ServeError> {
    environments.set_executor(Box::new(RunnerExecutor(runner.clone())));
    let unfinished = environments.recover().await.map_err(ServeError::Recover)?;
    if unfinished > 0 {
        tracing::info!(environments = unfinished, "resumed unfinished deployments");
    }
    Ok(())
}

fn open_webhooks(
    (settings, node): (&Settings, &Node),
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
    clock: WallClock,
) -> Result<Webhooks, StoreError> {
    let options = webhooks::Options {
        policy: if settings.webhooks.allow_private { Policy::anywhere() } else { policy(settings) },
        timeout: settings.webhooks.timeout,
        retries: settings.webhooks.retries.clone(),
        disable_after: settings.webhooks.disable_after,
        max_sending: settings.webhooks.max_sending,
        organizations: node.organizations,
    };
    let events = Events::new(store.clone());
    Webhooks::open(store, events, vault, clock, Arc::new(http::webhook_body), options)
}

/// The admin of the first organization: with the operator's token, or on the first start with a new token and a
/// password.
async fn first_admin(
    accounts: &Accounts,
    settings: &Settings,
    now: Timestamp,
) -> Result<Option<FirstAdmin>, StoreError> {
    let Some(first) = settings.organizations.first() else {
        return Ok(None);
    };
    if let Some(text) = &settings.bootstrap_token {
        if let Some(revoked) = accounts.bootstrap(&first.id, text, now).await? {
            tracing::warn!(
                revoked_at = %jiff::Timestamp::from_millisecond(revoked.as_millis()).unwrap_or_default(),
                "LOCKKEEPER_BOOTSTRAP_TOKEN has a token that was revoked, and that stays so; unset it, or set a new one from `lockkeeper token`"
            );
        }
        return Ok(None);
    }
    let user = accounts.first_admin(&first.id).filter(|_| !accounts.has_been_used());
    let Some(member) = user.and_then(|user| accounts.member(&first.id, user)) else {
        return Ok(None);
    };
    match make_first_admin(accounts, &member, now).await {
        Ok(first_admin) => Ok(Some(first_admin)),
        Err(AccountsError::Store(error)) => Err(error),
        // Nothing else can fail: it is the first token, for an existing member.
        Err(_) => Ok(None),
    }
}

/// The token comes last: if a start crashes before it, the next one is the first again.
async fn make_first_admin(accounts: &Accounts, member: &Member, now: Timestamp) -> Result<FirstAdmin, AccountsError> {
    let password = Password::generate();
    accounts.set_first_password(member, password.clone(), now).await?;
    let (organization, name) = (member.organization.clone(), member.name.clone());
    let new = NewToken {
        organization: organization.clone(),
        user: member.id,
        name: "first start".to_owned(),
        expires_at: None,
    };
    let open = accounts.create_token(new, Cause::system(now), |_, _| ()).await?;
    Ok(FirstAdmin { organization, name, password, token: open.text })
}

/// Opens the analyses with their sources, and resumes those that the previous run left unfinished.
fn open_analyses(
    (settings, node): (&Settings, &Node),
    store: Arc<dyn Store>,
    environments: &Environments,
    masks: Masks,
    repositories: Repositories,
    clock: WallClock,
) -> Result<Analyses, StoreError> {
    let sources = Sources {
        store,
        environments: environments.clone(),
        logs: node.logs.clone(),
        archive: node.archive.clone(),
        masks,
        repositories,
        clock,
        organizations: node.organizations,
    };
    let analyses = Analyses::open(sources, analysis_engines(settings))?;
    let resumed = analyses.resume()?;
    if resumed > 0 {
        tracing::info!(analyses = resumed, "resumed unfinished analyses");
    }
    Ok(analyses)
}

fn analysis_engines(settings: &Settings) -> Engines {
    let llm = settings.analysis.llm.as_ref().map(|llm| LlmSettings {
        url: llm.url.clone(),
        model: llm.model.clone(),
        key: llm.key.as_ref().map(|key| ApiKey::new(key.reveal())),
        timeout: llm.timeout,
        max_log_bytes: llm.max_log_bytes,
    });
    let default = match settings.analysis.engine {
        AnalysisEngine::Off => None,
        AnalysisEngine::Builtin => Some(EngineName::Builtin),
        AnalysisEngine::Llm => Some(EngineName::Llm),
    };
    Engines { default, llm }
}

/// Deletes the secrets of pipelines whose deletion was interrupted by a crash.
async fn delete_orphaned_secrets(
    vault: &Vault,
    pipelines: &Pipelines,
    organizations: impl IntoIterator<Item = &Identifier>,
    now: Timestamp,
) -> Result<(), SecretError> {
    for organization in organizations {
        let scopes: BTreeSet<_> = vault.list(organization, None)?.into_iter().filter_map(|s| s.pipeline).collect();
        for pipeline in scopes.into_iter().filter(|id| pipelines.get(organization, id.as_str()).is_none()) {
            tracing::info!(%organization, %pipeline, "deleting the secrets of a deleted pipeline");
            let key = PipelineKey { organization: organization.clone(), pipeline };
            vault.delete_pipeline(&key, Cause::system(now)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use accounts::secrets::{MasterKey, NewSecret, SecretValue};
    use domain::{Blueprint, Description, VariableName};
    use locks::pipelines::{Declared, Definition};
    use store::{MemoryStore, Store};

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    #[actix::test]
    async fn only_the_secrets_of_deleted_pipelines_are_deleted() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let now = Timestamp::from_millis(0);
        let key = PipelineKey { organization: id("acme"), pipeline: id("web") };
        let blueprint = Arc::new(Blueprint::default());
        let definition = Definition { name: "web".to_owned(), slug: id("web"), blueprint, repository: None };
        let pipelines = Pipelines::open(store.clone(), vec![Declared { key, definition }], now).await.unwrap();
        let vault = Vault::open(store, MasterKey::parse(&"7".repeat(64)).unwrap()).unwrap();
        for pipeline in [None, Some("web"), Some("gone")] {
            let new = NewSecret {
                pipeline: pipeline.map(id),
                name: VariableName::parse("KEY").unwrap(),
                value: SecretValue::parse("value").unwrap(),
                description: Description::parse("").unwrap(),
            };
            vault.create(&id("acme"), new, Cause::system(now), |_, _| {}).await.unwrap();
        }
        delete_orphaned_secrets(&vault, &pipelines, [&id("acme")], now).await.unwrap();
        let left: Vec<_> = vault.list(&id("acme"), None).unwrap().into_iter().map(|secret| secret.pipeline).collect();
        assert_eq!(left, [None, Some(id("web"))]);
    }
}
