//! Owns the neighbour's attacks: each targets a limited resource of the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::nice;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::engine::Fault;
use crate::sync::locked;
use crate::wire::problem_code;
use crate::workloads::neighbour::tenant::{Caller, Tenant};

/// The pause after an answer. The load generator shares the machine's processors with the server: without a pause, the
/// neighbour's use of CPU would hide its use of all other resources.
const PAUSE: Duration = Duration::from_millis(20);
/// The niceness of the neighbour's clients, for the same reason. In practice they would be on other machines; here each
/// answer wakes one of them, which could take the processor from a server thread that still has others to answer.
const LOWEST_PRIORITY: i32 = 19;
/// A followed stream or log is closed after this long, and reopened.
const HELD: Duration = Duration::from_secs(5);
/// Environments per connection: enough that each lease has expired by the time its environment is claimed again.
const LEASES: u32 = 64;
const UNDER_WAY_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attack {
    Keys,
    /// All environments of a large pipeline.
    Lists,
    Waits,
    /// Event streams that are never read.
    Streams,
    /// Logs that are followed but not read.
    Followers,
    Deployments,
    /// Git remotes that never answer.
    Syncs,
    /// Webhook receivers that never answer.
    Webhooks,
    /// Steps that write until they are stopped.
    Disk,
    /// Locks that expire a second after the claim.
    Leases,
    /// Failure analyses in a small repository with ten million large files.
    Bombs,
    Tokens,
    Queues,
}

impl Attack {
    /// In declaration order.
    const NAMES: [(Self, &'static str); 13] = [
        (Self::Keys, "keyed heartbeats"),
        (Self::Lists, "lists"),
        (Self::Waits, "waiting claims"),
        (Self::Streams, "event streams"),
        (Self::Followers, "followed logs"),
        (Self::Deployments, "deployments"),
        (Self::Syncs, "registries in git"),
        (Self::Webhooks, "webhook tests"),
        (Self::Disk, "steps that fill the disk"),
        (Self::Leases, "leases of a second"),
        (Self::Bombs, "analyses of a git bomb"),
        (Self::Tokens, "tokens"),
        (Self::Queues, "queued sessions"),
    ];

    pub fn all() -> Vec<Self> {
        Self::NAMES.into_iter().map(|(attack, _)| attack).collect()
    }

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// The running attacks; dropping this ends them.
pub struct Attacking {
    attacks: Vec<Attack>,
    thread: JoinHandle<()>,
    /// Dropping this ends the thread.
    stop: oneshot::Sender<()>,
    faults: mpsc::UnboundedReceiver<Fault>,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    tenant: Arc<Tenant>,
}

pub fn begin(tenant: &Arc<Tenant>, attacks: &[Attack], each: u32) -> Result<Attacking, Fault> {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let attackers = attacks.iter().map(|&attack| Attacker { tenant: tenant.clone(), seen: seen.clone(), attack });
    let attackers: Vec<_> = attackers.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Fault::neighbour)?;
    let ((stop, stopped), (tell, faults)) = (oneshot::channel(), mpsc::unbounded_channel());
    let thread = std::thread::Builder::new().name("neighbour".to_owned()).spawn(move || {
        nice(LOWEST_PRIORITY).ok();
        runtime.block_on(until(stopped, attackers, each, tell));
    });
    let thread = thread.map_err(Fault::neighbour)?;
    Ok(Attacking { attacks: attacks.to_vec(), thread, stop, faults, seen, tenant: tenant.clone() })
}

async fn until(
    mut stopped: oneshot::Receiver<()>,
    attackers: Vec<Attacker>,
    each: u32,
    tell: mpsc::UnboundedSender<Fault>,
) {
    let mut attacking: JoinSet<_> = attackers.into_iter().map(|attacker| attacker.all(each)).collect();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(ended) = attacking.join_next() => if let Ok(Err(fault)) = ended {
                tell.send(fault).ok();
            },
        }
    }
    attacking.shutdown().await;
}

impl Attacking {
    /// Waits until each attack has been answered at least once.
    pub async fn is_under_way(&mut self) -> Result<(), Fault> {
        let under_way = async {
            while self.missing().is_some() {
                if let Ok(fault) = self.faults.try_recv() {
                    return Err(fault);
                }
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        };
        match tokio::time::timeout(UNDER_WAY_LIMIT, under_way).await {
            Ok(under_way) => under_way,
            Err(_) => Err(Fault::Neighbour(format!("none of its {} was answered", self.missing().unwrap_or_default()))),
        }
    }

    fn missing(&self) -> Option<&'static str> {
        let seen = locked(&self.seen);
        let mut names = self.attacks.iter().copied().map(Attack::name);
        names.find(|name| !seen.keys().any(|what| what.starts_with(name)))
    }

    /// Ends the attacks, and waits until none of their requests or steps is running. Returns the answers by attack and
    /// code, counted.
    pub async fn end(mut self) -> Result<BTreeMap<String, u64>, Fault> {
        if let Ok(fault) = self.faults.try_recv() {
            return Err(fault);
        }
        drop(self.stop);
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await;
        ended.expect("joining a thread does not panic").expect("the neighbour does not panic");
        self.tenant.rest().await?;
        Ok(std::mem::take(&mut *locked(&self.seen)))
    }
}

struct Attacker {
    tenant: Arc<Tenant>,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    attack: Attack,
}

impl Attacker {
    async fn all(self, each: u32) -> Result<(), Fault> {
        let attacker = Arc::new(self);
        let mut tasks = JoinSet::new();
        let hole = TcpListener::bind("127.0.0.1:0").await.map_err(Fault::neighbour)?;
        let silent = hole.local_addr().map_err(Fault::neighbour)?.to_string();
        tasks.spawn(take_and_never_answer(hole));
        for number in 0..each {
            let (attacker, silent) = (attacker.clone(), silent.clone());
            tasks.spawn(async move { attacker.one(number, &silent).await });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("an attacker neither panics nor is aborted")?;
        }
        Ok(())
    }

    async fn one(&self, number: u32, silent: &str) -> Result<(), Fault> {
        let tenant = &self.tenant;
        let mut caller = tenant.caller().await?;
        let post = |path: &str, body: &str| tenant.request("POST", path, "", body);
        // Sent one after another, in a loop.
        let requests = match self.attack {
            Attack::Keys => {
                let environment = caller.environment("crowd", &format!("keys-{number}")).await?;
                let session = caller.claim(&environment).await?;
                let path = format!("{environment}/sessions/{session}/heartbeat");
                for beat in 0_u64.. {
                    let key = format!("Idempotency-Key: {session}-{beat}\r\n");
                    self.again(&mut caller, &tenant.request("POST", &path, &key, "{}")).await;
                }
                Vec::new()
            }
            Attack::Lists => vec![tenant.request("GET", "/pipelines/crowd/ephemeral-environments", "", "")],
            Attack::Waits => {
                let environment = caller.environment("crowd", &format!("waits-{number}")).await?;
                caller.claim(&environment).await?;
                vec![post(&format!("{environment}/sessions"), r#"{"waitSeconds":1}"#)]
            }
            Attack::Streams => return self.hold(&tenant.request("GET", "/events/stream", "", "")).await,
            Attack::Followers => {
                let deployment = self.deploy(&mut caller, "loud", &format!("logs-{number}"), 0).await?;
                let follow = format!("/deployments/{deployment}/logs?follow=true");
                return self.hold(&tenant.request("GET", &follow, "", "")).await;
            }
            Attack::Deployments => return self.keep_deploying(&mut caller, "loud", number).await,
            Attack::Disk => return self.keep_deploying(&mut caller, "filling", number).await,
            Attack::Syncs => {
                // A new registry is synced before the answer.
                let name = format!("silent-{number}-{}", silent.replace([':', '.'], "-"));
                let body = format!(r#"{{"name":"{name}","git":{{"url":"https://{silent}/steps.git","ref":"main"}}}}"#);
                vec![post("/step-registries", &body)]
            }
            Attack::Webhooks => {
                let body = format!(r#"{{"url":"http://{silent}/"}}"#);
                let webhook = caller.make("/webhooks", &body, "webhookId").await?;
                vec![post(&format!("/webhooks/{webhook}/test"), "{}")]
            }
            Attack::Leases => {
                let mut claims = Vec::new();
                for lease in 0..LEASES {
                    let environment = caller.environment("crowd", &format!("lease-{number}-{lease}")).await?;
                    claims.push(post(&format!("{environment}/sessions"), r#"{"ttlSeconds":1}"#));
                }
                claims
            }
            Attack::Bombs => {
                let deployment = self.deploy(&mut caller, "bomb", &format!("bomb-{number}"), 5).await?;
                vec![post(&format!("/deployments/{deployment}/analyses"), "{}")]
            }
            Attack::Tokens => vec![post("/tokens", r#"{"name":"one more"}"#)],
            Attack::Queues => {
                let environment = caller.environment("crowd", "queues").await?;
                caller.claim(&environment).await?;
                vec![post(&format!("{environment}/sessions"), r#"{"queue":true}"#)]
            }
        };
        for request in requests.iter().cycle() {
            self.again(&mut caller, request).await;
        }
        Ok(())
    }

    async fn keep_deploying(&self, caller: &mut Caller, pipeline: &str, number: u32) -> Result<(), Fault> {
        loop {
            self.deploy(caller, pipeline, &format!("{pipeline}-{number}"), 5).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn deploy(&self, caller: &mut Caller, pipeline: &str, name: &str, wait: u32) -> Result<String, Fault> {
        let environment = caller.environment(pipeline, name).await?;
        let session = caller.claim(&environment).await?;
        let path = format!("{environment}/sessions/{session}/deploy");
        let body = format!(r#"{{"commitId":"c0ffee1","waitSeconds":{wait}}}"#);
        let made = caller.make(&path, &body, "deploymentId").await?;
        self.count("done");
        Ok(made)
    }

    async fn again(&self, caller: &mut Caller, request: &[u8]) {
        self.count("asked");
        let connection = &mut caller.connection;
        let told = match connection.exchange(request).await {
            Ok(200..=299) => "done".to_owned(),
            Ok(status) => problem_code(connection.body()).map_or_else(|| status.to_string(), str::to_owned),
            Err(error) if error.is_chunked() && connection.skip_chunks().await.is_ok() => "done".to_owned(),
            Err(_) => "cut off".to_owned(),
        };
        self.count(&told);
        tokio::time::sleep(PAUSE).await;
        if told == "cut off" || connection.closes() {
            *caller = self.connected().await;
        }
    }

    /// Repeatedly sends the request, and keeps the connection open for a while without reading.
    async fn hold(&self, request: &[u8]) -> Result<(), Fault> {
        loop {
            let mut connection = self.connected().await.connection;
            match connection.send(request).await {
                Ok(()) => {
                    self.count("held");
                    tokio::time::sleep(HELD).await;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn connected(&self) -> Caller {
        loop {
            match self.tenant.caller().await {
                Ok(caller) => return caller,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn count(&self, told: &str) {
        let mut seen = locked(&self.seen);
        *seen.entry(format!("{}: {told}", self.attack.name())).or_default() += 1;
    }
}

/// Holds incoming connections, up to the number that one server may open.
async fn take_and_never_answer(hole: TcpListener) -> Result<(), Fault> {
    let mut held = VecDeque::new();
    loop {
        let (connection, _) = hole.accept().await.map_err(Fault::neighbour)?;
        held.push_back(connection);
        if held.len() > 500 {
            held.pop_front();
        }
    }
}
