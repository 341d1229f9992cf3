//! A node of a cluster, from start to end. It reads logs from its own files, the store that all nodes share, and other
//! nodes.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::engine;
use super::operations::master_key;
use super::shards::{OwnedShard, OwnedShards, OwnedStore, ShardMap};
use crate::app::error::ServeError;
use crate::app::host::{self, ShardHost, event_counter, reserve};
use crate::app::realm::{FirstAdmin, LiveRealm, RealmStore};
use crate::app::runner_host::RunnerHosts;
use crate::app::signals::{Reloading, Signals, drain, exit_unless, stop};
use crate::app::{greeting, node_chores, step_users};
use crate::config::{self, Cluster, Settings};
use crate::http::{self, Served};
use crate::moving::{self, NotReady};
use accounts::secrets::MasterKey;
use ambient::backoff::{Backoff, Retries};
use ambient::entropy;
use ambient::steady_clock::SteadyClock;
use cluster::peers::{PeerClient, ViaKey};
use cluster::{ShardOwnership, ShardOwnershipOptions, TakenShard, View, shard_of};
use delivery::archive::{Archive, ArchiveOptions, Credentials, LogStore, S3, S3Settings, UPLOADS_WAITING_MAX, Uploads};
use delivery::logs::{self, Logs, Parts};
use domain::{Boot, DeploymentId, Identifier, Tick, Timestamp};
use locks::{LogKeeper, TicketLane, has_unfinished};
use store::engine::{ClusterRecord, ClusterState, Engine, EngineError, Owner};
use store::{DataDir, EngineOptions, EngineStore, FORMAT_NUMBER, exit_with};

/// `EX_TEMPFAIL` of sysexits.h: another node has taken a shard, so this one should start again.
const EXIT_DEPOSED: i32 = 75;
/// Covers the time until a supervisor notices the end of its lease and has killed its processes.
const STEPS_KILLED_WITHIN: Duration = Duration::from_secs(3);
/// How long a stopping node waits for its last uploads; it uploads the rest after its next start.
const UPLOADED_WITHIN: Duration = Duration::from_secs(10);
/// How often a node maintains the engine and balances shards.
const TENDED_EVERY: Duration = Duration::from_secs(5);
/// The pauses of a starting node while the engine is unreachable.
const ENGINE_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));

/// Serves until asked to stop.
pub async fn serve<E: Engine>(
    engine: E,
    settings: &Settings,
    cluster: &Cluster,
    step_umask: u32,
    mut signals: Signals,
    reloading: Reloading,
) -> Result<(), ServeError> {
    let engine = Arc::new(engine);
    let _dir = DataDir::open_for_node(&settings.data_dir)?;
    let listeners = reserve(settings)?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let own_url = format!("{scheme}://{}", listeners.main.address()?);
    let url = cluster.advertise.clone().unwrap_or(own_url);
    let master = master_key(settings)?;
    let shards = tokio::select! {
        shards = join(&*engine, cluster, master) => shards?,
        () = signals.next() => return Ok(()),
    };
    let own = Owner { node: cluster.node.clone(), url, run: entropy::run() };
    let store =
        EngineOptions { appended: Some(event_counter()), fatal: exit_with(EXIT_DEPOSED), ..EngineOptions::default() };
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let options = ShardOwnershipOptions { own: own.clone(), program, shards, store };
    let (ownership, view, mut taken) = ShardOwnership::new(engine.clone(), options);
    let authorities = cluster.nodes_ca.as_deref().map(engine::read).transpose()?;
    let client = PeerClient::new(&cluster.node, ViaKey::of(master), authorities.as_deref());
    let client = client.map_err(ServeError::Cluster)?;
    let logs = open_logs(settings, cluster, client.clone(), view.clone())?;
    let organizations = settings.organizations.iter().map(|organization| &organization.id);
    let users = async { step_users::open_in(&settings.data_dir, organizations, settings.runner.users) };
    let runner_hosts = RunnerHosts::new(host::wall_clock(), move |organization| shard_of(organization, shards));
    let declarations = reloading.declarations();
    let host = ShardHost::open(settings, declarations, step_umask, logs, users, runner_hosts).await?;
    let map = Arc::new(ShardMap::new(shards, own.run, view.clone()));
    let served = Served::Shards(Arc::new(http::Cluster { shards: map.clone(), client }));
    let running = host.listen(listeners, served)?;
    let chores = node_chores::begin(&host, &running, reloading);
    greeting::greet_node(&host, (cluster, &own.url), &running);
    actix_web::rt::spawn(ownership.run());

    let opener = Opener { engine: &*engine, key: master.short_hash(), cluster, shards, host: &host };
    let mut owned = OwnedShards::new(engine.clone(), view, map.clone(), cluster.node.clone());
    let mut tended = tokio::time::interval(TENDED_EVERY);
    let mut opening = FuturesUnordered::new();
    let ended = loop {
        tokio::select! {
            () = signals.next() => break Ok(()),
            Some(shard) = taken.recv() => {
                let taken = opener.taken(shard);
                owned.opens(taken.clone());
                opening.push(opener.open(taken));
            }
            Some(opened) = opening.next() => match opened {
                Ok((shard, first_admin)) => {
                    if let Some(first) = first_admin {
                        greeting::show_first_admin(settings, &running, &first);
                    }
                    owned.add(shard);
                }
                Err(error) => break Err(error),
            },
            _ = tended.tick() => {
                owned.tend().await;
                owned.hand_over_one(&host).await;
            }
        }
    };
    drop(opening);
    // The `ShardOwnership` takes no more shards but continues to watch their owners. Shards that it has already taken
    // must be given up, too.
    taken.close();
    while let Some(shard) = taken.recv().await {
        owned.opens(opener.taken(shard));
    }
    chores.iter().for_each(JoinHandle::abort);
    let patience = settings.http.drain;
    // The listener is closed last: until then, requests wait for the new owners of their shards and are forwarded to
    // them.
    let finish = async {
        let (gone, ()) = tokio::join!(host.runner.shut_down(patience), owned.settle(patience));
        owned.give_up(gone).await;
        tokio::join!(drain(running, patience), host.node.archive.finish_uploads(patience.min(UPLOADED_WITHIN)));
        gone
    };
    exit_unless(stop(finish, &host.runner, &mut signals).await);
    ended.inspect(|()| tracing::info!("stopped"))
}

/// Checks the engine and its cluster record; returns the number of shards. Waits while the engine is unreachable.
async fn join(engine: &impl Engine, cluster: &Cluster, master: &MasterKey) -> Result<NonZeroU16, ServeError> {
    let (shards, key) = (cluster.shards, master.short_hash());
    let wanted = ClusterRecord { format: FORMAT_NUMBER, shards, key, state: ClusterState::Ready };
    let mut retries = Retries::new(ENGINE_BACKOFF);
    let found = loop {
        let found = async {
            engine.probe().await?;
            engine.found(&wanted).await
        };
        match found.await {
            Ok(found) => break found,
            Err(error @ EngineError::Away(_)) => {
                let pause = retries.failed();
                if retries.is_first() {
                    tracing::warn!(%error, "cannot join the cluster; asking again until the engine answers");
                }
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    moving::check(&found, wanted.key)?;
    if found.shards != cluster.shards {
        let (shards, configured) = (found.shards, cluster.shards);
        tracing::warn!(
            shards,
            configured,
            "cluster.shards counts only when a cluster is first started, and is ignored"
        );
    }
    Ok(found.shards)
}

/// Opens a realm on each shard that this node takes.
struct Opener<'a, E> {
    engine: &'a E,
    /// The hash of the master key.
    key: u64,
    cluster: &'a Cluster,
    shards: NonZeroU16,
    host: &'a ShardHost<'a>,
}

impl<E: Engine> Opener<'_, E> {
    /// Steps of an earlier owner may still run if it did not give up the shard in an orderly way and left deployments
    /// unfinished.
    fn taken(&self, TakenShard { number, store, was_left }: TakenShard) -> OwnedStore {
        let may_run = !was_left && has_unfinished(&store).unwrap_or(true);
        let steps_over_at = may_run.then(|| Instant::now() + self.cluster.step_lease + STEPS_KILLED_WITHIN);
        OwnedStore { number, store: Arc::new(store), steps_over_at }
    }

    async fn open(&self, owned: OwnedStore) -> Result<(OwnedShard, Option<FirstAdmin>), ServeError> {
        let began = Instant::now();
        self.check().await?;
        let (number, store) = (owned.number, owned.store.clone());
        let settings = self.settings_of(number);
        let first = self.host.settings.organizations.first();
        let makes_admin =
            first.is_some_and(|first| settings.organizations.first().is_some_and(|own| own.id == first.id));
        let realm_store = RealmStore {
            store: store.clone(),
            number,
            logged: None,
            clock: wall_clock(&store),
            steady: steady_clock(store.clone()),
            log_keeper: Some(Box::new(OwnLogs {
                node: self.cluster.node.clone(),
                uploads: self.cluster.logs.is_some(),
                logs: self.host.node.logs.clone(),
            })),
            steps_over_at: owned.steps_over_at,
            makes_admin,
            tickets: TicketLane { number: u64::from(number), of: NonZeroU64::from(self.shards) },
        };
        let (live, first_admin) = LiveRealm::open(self.host, &settings, realm_store).await?;
        tracing::info!(shard = number, millis = began.elapsed().as_millis() as u64, "opened a shard");
        Ok((OwnedShard { owned, live }, first_admin))
    }

    /// Checks that the master key has not been replaced since this node joined, and is not being replaced. Must run
    /// after taking the shard: a rotation that begins later takes the shard from this node.
    async fn check(&self) -> Result<(), ServeError> {
        let mut retries = Retries::new(ENGINE_BACKOFF);
        loop {
            match moving::ready(self.engine, self.key).await {
                Err(NotReady::Engine(EngineError::Away(_))) => tokio::time::sleep(retries.failed()).await,
                checked => return Ok(checked.map(drop)?),
            }
        }
    }

    /// The settings with only the organizations of this shard, as last declared.
    fn settings_of(&self, number: u16) -> Settings {
        let mut settings = self.host.settings.clone();
        settings.organizations.clone_from(&self.host.declarations.borrow());
        settings.organizations.retain(|organization| shard_of(&organization.id, self.shards) == number);
        settings
    }
}

/// Never behind the clocks of earlier owners, so that their records are not in the future.
fn wall_clock(store: &EngineStore) -> http::WallClock {
    let (floor, clock) = (store.millis_at_start(), host::wall_clock());
    let floor = Timestamp::from_millis(i64::try_from(floor).unwrap_or(i64::MAX));
    Arc::new(move || clock().max(floor))
}

/// The boot id is new, because no other process can compare its ticks: only this one knows when the clock was halted.
fn steady_clock(store: Arc<EngineStore>) -> SteadyClock {
    SteadyClock::new(Boot::from(entropy::id_seed()), move || Tick(i64::try_from(store.time().0).unwrap_or(i64::MAX)))
}

/// Opens the logs. A separate task uploads them until the node ends.
fn open_logs(
    settings: &Settings,
    cluster: &Cluster,
    client: PeerClient,
    view: watch::Receiver<View>,
) -> Result<(Logs, Archive), ServeError> {
    let store =
        cluster.logs.as_ref().map(|logs| log_store(logs, &cluster.node)).transpose().map_err(ServeError::Cluster)?;
    let (sender, ended) = mpsc::channel(UPLOADS_WAITING_MAX);
    let parts = Parts { foreign_bytes_max: cluster.foreign_log_bytes, ended: store.as_ref().map(|_| sender) };
    let dir = settings.data_dir.join(logs::FOLDER);
    let logs = Logs::open_in_parts(&dir, settings.storage.deployment_log_bytes, parts)?;
    let uploads = store.clone().map(|store| {
        let (uploads, control) = Uploads::new(logs.clone(), store, ended);
        actix_web::rt::spawn(uploads.run());
        control
    });
    let url_of = move |node: &str| {
        let view = view.borrow();
        let living = view.nodes.iter().find(|seen| seen.lives && seen.record.node == node);
        living.map(|seen| seen.record.url.clone())
    };
    let archive = Archive::new(ArchiveOptions {
        node: cluster.node.clone(),
        logs: logs.clone(),
        store,
        client,
        urls: Box::new(url_of),
        uploads,
        organizations: settings.organizations.len(),
    });
    Ok((logs, archive))
}

fn log_store(logs: &config::LogStore, node: &str) -> Result<LogStore, String> {
    Ok(match logs {
        config::LogStore::Directory(root) => LogStore::directory(root, node),
        config::LogStore::S3(s3) => LogStore::s3(S3::new(S3Settings {
            bucket: s3.bucket.clone(),
            prefix: s3.prefix.clone(),
            endpoint: s3.endpoint.clone(),
            region: s3.region.clone(),
            credentials: Credentials {
                key_id: s3.key_id.clone(),
                secret: Zeroizing::new(s3.secret.reveal().to_owned()),
                session_token: s3.session_token.as_ref().map(|token| Zeroizing::new(token.reveal().to_owned())),
            },
        })?),
    })
}

/// The logs of this node.
struct OwnLogs {
    node: String,
    uploads: bool,
    logs: Logs,
}

impl LogKeeper for OwnLogs {
    fn node(&self) -> &str {
        &self.node
    }

    fn uploads(&self) -> bool {
        self.uploads
    }

    fn has(&self, organization: &Identifier, deployment: DeploymentId, number: u32) -> bool {
        self.logs.has(&self.logs.file(organization, deployment, number))
    }
}
