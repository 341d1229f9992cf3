//! `lockkeeper cluster`: the state of a cluster, and moving all data into or out of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::backup::{self, FENCING_MARGIN, FENCING_MARGIN_MAX};
use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, Failed, load, say, start_logging};
use crate::app;
use crate::config::{Cluster, Flags, Settings};
use crate::moving::{Exported, NotReady, Totals};
use cluster::{ClusterStatus, ShardOwner};
use store::engine::{ClusterState, Room};

const NOT_A_CLUSTER: &str = "cluster.engine is \"off\": these settings are of a server on one machine; name those of a node \
                             with --config, or set LOCKKEEPER_CLUSTER_ENGINE";

#[derive(Subcommand)]
pub enum Command {
    /// Show the nodes, the shards with their owners, and how full the engine is
    #[command(
        after_help = "Asks the engine, so it works on any machine that reaches it, also while no node runs. It looks twice, \
                      some seconds apart: whoever lives has written meanwhile.\n\n\
                      Exit codes: 0 every shard has an owner that lives, 1 some have not, or the engine is full or away, 2 \
                      invalid usage, 78 invalid configuration.\n\n\
                      Examples:\n  lockkeeper cluster status --config /etc/lockkeeper/settings.toml\n  \
                      lockkeeper cluster status --json | jq -r '.shards[] | select(.state != \"owned\")'"
    )]
    Status(Status),
    /// Move the data directory of a stopped server into an empty cluster
    #[command(
        after_help = "Takes the settings of a node. LOCKKEEPER_MASTER_KEY is that of the data directory: the content of its file \
                      master.key, or what its server was started with. The data directory is only read.\n\n\
                      Every record goes to the shard of its organization, with its number, its fencing tokens and its place in the \
                      journal. Nodes do not start until everything is there. If it is interrupted, run it again: it starts \
                      from the beginning; or give it up with --give-up, which also works in an etcd that is full. A cluster that has \
                      data is refused.\n\n\
                      Exit codes: 0 done, 1 refused or failed, 2 invalid usage, 78 invalid configuration.\n\n\
                      Examples:\n  LOCKKEEPER_MASTER_KEY=$(cat /var/lib/lockkeeper/master.key) \\\n    \
                      lockkeeper cluster import --config /etc/lockkeeper/node.toml --data-dir /var/lib/lockkeeper\n  \
                      lockkeeper cluster import --config /etc/lockkeeper/node.toml --give-up"
    )]
    Import(Import),
    /// Copy a cluster into a new data directory, while its nodes serve it: its backup, and the way back to one machine
    #[command(
        after_help = "Takes the settings of a node. Each organization is as it was at one moment, of which nothing is missing; the \
                      moments of organizations in different shards may be some seconds apart. The master key and the logs of \
                      deployments are not in it.\n\n\
                      `lockkeeper serve` starts on the data directory, on one machine. `lockkeeper cluster import` makes a cluster of it \
                      again, also one with another number of shards.\n\n\
                      Clients that are given locks after this still have their fencing tokens when a server starts on it. So that \
                      none is given twice, every environment skips as many tokens as --fencing-margin says.\n\n\
                      Exit codes: 0 done, 1 refused or failed, 2 invalid usage, 74 disk failure, 78 invalid configuration.\n\n\
                      Examples:\n  lockkeeper cluster export --config /etc/lockkeeper/node.toml --to /backups/monday\n  \
                      lockkeeper cluster export --to /var/lib/lockkeeper-alone --fencing-margin 0"
    )]
    Export(Export),
}

#[derive(Args)]
pub struct Status {
    /// The settings file of a node; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command, variables: Variables) -> Result<ExitCode, Failed> {
    let (config, data_dir) = match &command {
        Command::Status(Status { config, .. }) | Command::Export(Export { config, .. }) => (config, &None),
        Command::Import(Import { config, data_dir, .. }) => (config, data_dir),
    };
    let flags = Flags { config: config.clone(), data_dir: data_dir.clone(), listen: None };
    let settings = load(&flags, variables)?;
    let Some(cluster) = &settings.cluster else { return Err(Failed::new(EXIT_CONFIG, NOT_A_CLUSTER)) };
    if !matches!(command, Command::Status(_)) {
        start_logging(&settings.log)?;
    }
    match command {
        Command::Status(Status { json, .. }) => status(cluster, json),
        Command::Import(Import { give_up: true, .. }) => Ok(say(given_up(app::give_up_import(cluster)?))),
        Command::Import(_) => import(&settings, cluster),
        Command::Export(arguments) => export(&arguments, &settings, cluster),
    }
}

fn status(cluster: &Cluster, json: bool) -> Result<ExitCode, Failed> {
    let status = app::cluster_status(cluster)?;
    let shown = say(if json { shown_as_json(&status) } else { shown(&status) }.trim_end());
    Ok(if status.is_healthy() { shown } else { ExitCode::from(EXIT_FAILED) })
}

fn shown(status: &ClusterStatus) -> String {
    let full = if status.room.is_full() { ", which is full: writes are refused" } else { "" };
    let mut text = format!("Engine: {} used{full}\n\n", used(status.room));
    match status.state {
        Some(ClusterState::Filling { .. }) => text += &format!("{}\n\n", NotReady::Filling),
        Some(ClusterState::Rotating { .. }) => text += &format!("{}\n\n", NotReady::Rotating),
        Some(ClusterState::Ready | ClusterState::Filled { .. }) | None => {}
    }
    let width = status.nodes.iter().map(|node| node.node.len()).max().unwrap_or(0).max("NODE".len());
    // Writing to a string cannot fail.
    writeln!(text, "{:width$}  SHARDS  STATE   VERSION  URL", "NODE").ok();
    for node in &status.nodes {
        let state = if node.lives { "lives" } else { "gone" };
        writeln!(text, "{:width$}  {:6}  {state:6}  {:7}  {}", node.node, node.shards, node.program, node.url).ok();
    }
    if status.shards.is_empty() {
        text += "no node has ever started in this engine, or its keys have another prefix (cluster.etcd_prefix)\n";
        return text;
    }
    writeln!(text, "\nSHARD  {:width$}  EPOCH  BATCHES  STATE", "OWNER").ok();
    for shard in &status.shards {
        let owner = shard.owner.node().unwrap_or("-");
        let state = explained(&shard.owner);
        writeln!(text, "{:5}  {owner:width$}  {:5}  {:7}  {state}", shard.number, shard.epoch, shard.batches).ok();
    }
    text
}

fn used(room: Room) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    format!("{} of {} MiB", mib(room.used_bytes), mib(room.quota_bytes))
}

fn explained(owner: &ShardOwner) -> String {
    match owner {
        ShardOwner::Active(_) => "owned".to_owned(),
        ShardOwner::Silent(_) => "silent; another node takes it soon, if one lives".to_owned(),
        ShardOwner::Nobody { successor: Some(node) } => format!("left to {node}"),
        ShardOwner::Nobody { successor: None } => "nobody's; a node takes it soon, if one lives".to_owned(),
    }
}

fn shown_as_json(status: &ClusterStatus) -> String {
    let shard_state = |owner: &ShardOwner| match owner {
        ShardOwner::Active(_) => "owned",
        ShardOwner::Silent(_) => "silent",
        ShardOwner::Nobody { .. } => "vacant",
    };
    let state = status.state.map(|state| match state {
        ClusterState::Ready | ClusterState::Filled { .. } => "ready",
        ClusterState::Filling { .. } => "filling",
        ClusterState::Rotating { .. } => "rotating",
    });
    let nodes = status.nodes.iter().map(|node| {
        json!({ "node": node.node, "url": node.url, "version": node.program, "lives": node.lives, "shards": node.shards })
    });
    let shards = status.shards.iter().map(|shard| {
        json!({
            "shard": shard.number, "owner": shard.owner.node(), "state": shard_state(&shard.owner),
            "epoch": shard.epoch, "batches": shard.batches,
        })
    });
    let engine = json!({ "usedBytes": status.room.used_bytes, "quotaBytes": status.room.quota_bytes, "full": status.room.is_full() });
    let all = json!({
        "healthy": status.is_healthy(), "state": state, "engine": engine,
        "nodes": nodes.collect::<Vec<Value>>(), "shards": shards.collect::<Vec<Value>>(),
    });
    format!("{all:#}")
}

/// Interval between progress reports.
const SAID_EVERY: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct Import {
    /// The settings file of a node; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of a server that is stopped
    #[arg(long, value_name = "DIR", required_unless_present = "give_up")]
    data_dir: Option<PathBuf>,
    /// Instead, delete what an interrupted import has left in the cluster, which is empty then
    #[arg(long, conflicts_with = "data_dir")]
    give_up: bool,
}

#[derive(Args)]
pub struct Export {
    /// The settings file of a node; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory to make; it must be missing or empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// How many fencing tokens every environment skips: more than it can give until a server starts on the data
    /// directory. 0 if the cluster is stopped and will not be started again
    #[arg(long, value_name = "NUMBER", default_value_t = FENCING_MARGIN,
          value_parser = clap::value_parser!(u64).range(0..=FENCING_MARGIN_MAX))]
    fencing_margin: u64,
}

fn import(settings: &Settings, cluster: &Cluster) -> Result<ExitCode, Failed> {
    let mut speaker = Speaker::new();
    let (totals, room) = app::import_cluster(settings, cluster, &mut |totals| speaker.tell(totals))?;
    Ok(say(&imported(&totals, room, settings, cluster, speaker.began)))
}

fn export(arguments: &Export, settings: &Settings, cluster: &Cluster) -> Result<ExitCode, Failed> {
    let Export { to, fencing_margin, .. } = arguments;
    let mut speaker = Speaker::new();
    let options = (to.as_path(), *fencing_margin, backup::options(to));
    let done = app::export_cluster(settings, cluster, options, &mut |totals| speaker.tell(totals))?;
    Ok(say(&exported(&done, arguments, speaker.began)))
}

/// Reports progress to stderr.
struct Speaker {
    began: Instant,
    said: Instant,
}

impl Speaker {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, said: now }
    }

    fn tell(&mut self, totals: &Totals) {
        if self.said.elapsed() >= SAID_EVERY {
            self.said = Instant::now();
            // A closed stderr must not stop the move.
            writeln!(std::io::stderr(), "lockkeeper: so far {}", moved(totals)).ok();
        }
    }
}

fn moved(totals: &Totals) -> String {
    let Totals { organizations, environments, records, bytes, .. } = totals;
    let organizations = organizations.len();
    format!("organizations: {organizations}, environments: {environments}, records: {records}, bytes: {bytes}")
}

fn imported(totals: &Totals, room: Room, settings: &Settings, cluster: &Cluster, began: Instant) -> String {
    let (dir, shards) = (settings.data_dir.display(), cluster.shards);
    let mut text =
        format!("Imported {dir} into {shards} shards in {:.1} s; {}.", began.elapsed().as_secs_f64(), moved(totals));
    if totals.left_out > 0 {
        text += &format!("\nLeft out: {} recorded answers to tokens that do not exist any more.", totals.left_out);
    }
    if room.is_full() {
        text += &format!(
            "\nThe engine is full ({}): nodes refuse writes until its quota and cluster.quota_mb are larger.",
            used(room)
        );
    }
    text + &format!(
        "\nNow start the nodes. Never start a server on {dir} again: it would give the same locks to others. Logs of deployments \
         were not moved; copy those of {dir}/logs into the folder logs of each node's data directory."
    )
}

fn given_up(room: Room) -> &'static str {
    if room.is_exhausted {
        return "The cluster is empty again, and etcd still takes no writes: run `etcdctl compact REVISION`, `etcdctl defrag --cluster` and \
                `etcdctl alarm disarm`; then import into it, or start its nodes.";
    }
    "The cluster is empty again: import into it, or start its nodes."
}

fn exported(done: &Exported, arguments: &Export, began: Instant) -> String {
    let Exported { totals, shards, raised, .. } = done;
    let (dir, margin) = (arguments.to.display(), arguments.fencing_margin);
    let mut text =
        format!("Exported {shards} shards to {dir} in {:.1} s; {}.", began.elapsed().as_secs_f64(), moved(totals));
    if totals.left_out > 0 {
        text += &format!("\nLeft out: {} sessions that another shard has under the same ticket.", totals.left_out);
    }
    if margin > 0 {
        text += &format!(
            "\nThe next fencing token of each of the {raised} environments is {margin} higher, and of new ones too."
        );
    }
    text + &format!(
        "\nBefore a server starts on it, give it the master key of the cluster: in {dir}/master.key with mode 600, or as \
         LOCKKEEPER_MASTER_KEY. Logs of deployments lie on the nodes; copy those of each node's folder logs into {dir}/logs."
    )
}
