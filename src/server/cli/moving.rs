//! `lockkeeper cluster import` and `lockkeeper cluster export`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::backup::{self, FENCING_MARGIN, FENCING_MARGIN_MAX};
use super::output::{EXIT_FAILED, complain, say};
use crate::app;
use crate::config::{Cluster, Settings};
use crate::moving::{Exported, Totals};
use store::engine::Room;

/// How often it says how far it is.
const SAID_EVERY: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct Import {
    /// The settings file of a node; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory of a server that is stopped
    #[arg(long, value_name = "DIR", required_unless_present = "give_up")]
    pub data_dir: Option<PathBuf>,
    /// Instead, delete what an interrupted import has left in the cluster, which is empty then
    #[arg(long, conflicts_with = "data_dir")]
    give_up: bool,
}

#[derive(Args)]
pub struct Export {
    /// The settings file of a node; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory to make; it must be missing or empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// How many fencing tokens every environment skips: more than it can give until a server starts on the data directory. 0 if
    /// the cluster is stopped and will not be started again
    #[arg(long, value_name = "NUMBER", default_value_t = FENCING_MARGIN,
          value_parser = clap::value_parser!(u64).range(0..=FENCING_MARGIN_MAX))]
    fencing_margin: u64,
}

pub fn import(arguments: &Import, settings: &Settings, cluster: &Cluster) -> ExitCode {
    if arguments.give_up {
        return match app::give_up_import(cluster) {
            Ok(room) => say(given_up(room)),
            Err(error) => complain(EXIT_FAILED, &error),
        };
    }
    let mut speaker = Speaker::new();
    match app::import_cluster(settings, cluster, &mut |totals| speaker.tell(totals)) {
        Ok((totals, room)) => say(&imported(&totals, room, settings, cluster, speaker.began)),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

pub fn export(arguments: &Export, settings: &Settings, cluster: &Cluster) -> ExitCode {
    let Export { to, fencing_margin, .. } = arguments;
    let mut speaker = Speaker::new();
    let options = (to.as_path(), *fencing_margin, backup::options(to));
    match app::export_cluster(settings, cluster, options, &mut |totals| speaker.tell(totals)) {
        Ok(done) => say(&exported(&done, arguments, speaker.began)),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

/// Says how far it is, to who watches.
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
            // The receiver was closed on purpose.
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
        let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
        let (used, quota) = (mib(room.used_bytes), mib(room.quota_bytes));
        text += &format!(
            "\nThe engine is full ({used} of {quota} MiB): nodes refuse writes until its quota and cluster.quota_mb are larger."
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
