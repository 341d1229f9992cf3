//! Owns `loadtest linearizability`: its options, and what it says at the end.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, value_parser};
use tokio::sync::watch;

use crate::cli::options::{
    EXIT_CLEAN, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_WRONG, Refusal, end_early, enough_files, failed, has_etcd, said,
};
use crate::interruption::Interruption;
use crate::linearizability;
use crate::linearizability::{Disturbance, Disturbances, Plan, RunError, Summary};

#[derive(Args)]
#[command(
    after_help = "A history is everything that several clients asked of one environment and were told: claims with and \
    without waiting, places in the queue, force-claims, releases, heartbeats, reads, retries under a key. The servers are \
    killed with SIGKILL and started again on the same data, and paused with SIGSTOP. For each history an order of all \
    requests must exist, each between being sent and being answered, in which a server that does one at a time gives \
    exactly these answers; what got no answer may have happened or not.\n\n\
    With --nodes each server is a cluster on an etcd of its own (the program `etcd`, on loopback). The clients are spread \
    over the nodes. Nodes are killed, stopped with SIGTERM and started again, or stand still, for so long that another takes \
    over or not; so are the members of etcd. A take-over may lose what a restart may lose, and no more; when there was one \
    is read from etcd.\n\n\
    A history that has none is written to a file, whole and in short, and of a cluster the logs of its nodes; --check \
    FILE checks it again. The seed decides what the clients ask, not how the machine interleaves it.\n\n\
    Exit codes: 0 every history has such an order, 1 one has not, or something went wrong, 2 refused before the first \
    request, 130 interrupted but clean.\n\n\
    Examples:\n  \
    loadtest linearizability --server target/dist/lockkeeper\n  \
    loadtest linearizability --server target/dist/lockkeeper --histories 50 --seed 7\n  \
    loadtest linearizability --server target/dist/lockkeeper --nodes 3 --servers 1\n  \
    loadtest linearizability --check 7-violation-history-000003.json"
)]
pub struct Options {
    /// A lockkeeper program to start
    #[arg(long, value_name = "PATH", required_unless_present = "check", conflicts_with = "check")]
    server: Option<PathBuf>,
    /// Check a history from a file instead
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// How many histories
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    histories: u32,
    /// Requests in each
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=2_000))]
    operations: u32,
    /// Clients in each
    #[arg(long, default_value_t = 6, value_parser = value_parser!(u32).range(1..=16))]
    clients: u32,
    /// Histories at a time on each server
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u32).range(1..=1_000))]
    together: u32,
    /// Servers at a time
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=16))]
    servers: u32,
    /// Make each server a cluster of so many nodes
    #[arg(long, value_parser = value_parser!(u32).range(1..=9), conflicts_with = "check")]
    nodes: Option<u32>,
    /// Members of each cluster's etcd
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=5), requires = "nodes")]
    members: u32,
    /// Decides what the clients ask; a new one if left out
    #[arg(long)]
    seed: Option<u64>,
    /// Begin no more histories after this time
    #[arg(long, default_value_t = 900, value_parser = value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Where histories that are refused are written to
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

pub fn run(options: &Options) -> u8 {
    if let Some(path) = &options.check {
        return match linearizability::check_file(path) {
            Ok(None) => said("linearizable\n"),
            Ok(Some(wrong)) => {
                said(&wrong);
                EXIT_WRONG
            }
            Err(error) => failed(&format!("cannot read {}: {error}", path.display()), EXIT_REFUSED),
        };
    }
    let plan = match accept(options) {
        Ok(plan) => plan,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    let (seed, wanted, of_clusters) = (plan.seed, plan.histories, plan.nodes.is_some());
    eprintln!("seed {seed}");
    let ran = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Refusal::Start);
    match ran.and_then(|runtime| Ok(runtime.block_on(perform(plan))?)) {
        Ok(Ok(summary)) => reported(&summary, wanted, of_clusters, seed),
        Ok(Err(error)) => failed(&format!("{error} (seed {seed})"), EXIT_WRONG),
        Err(refusal) => failed(&refusal.to_string(), EXIT_REFUSED),
    }
}

fn accept(options: &Options) -> Result<Plan, Refusal> {
    let program = options.server.clone().unwrap_or_default();
    if !program.is_file() {
        return Err(Refusal::NoProgram(program, "build it with `cargo build --bin lockkeeper`"));
    }
    if options.nodes.is_some() {
        has_etcd()?;
    }
    enough_files(options.clients * options.together * options.servers)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Plan {
        program,
        histories: options.histories,
        operations: options.operations,
        clients: options.clients,
        together: options.together,
        servers: options.servers,
        nodes: options.nodes,
        members: options.members,
        seed: options.seed.unwrap_or(since.as_secs()),
        limit: Duration::from_secs(options.seconds),
        directory: options.directory.clone(),
    })
}

async fn perform(plan: Plan) -> std::io::Result<Result<Summary, RunError>> {
    let (stop, stopped) = watch::channel(false);
    let told = "ending early, the histories under way are checked first";
    tokio::spawn(end_early(Interruption::new()?, stop, told));
    Ok(linearizability::run(plan, stopped).await)
}

fn reported(summary: &Summary, wanted: u32, of_clusters: bool, seed: u64) -> u8 {
    let Summary { histories, operations, unknown, grants, disturbances, violations, undecided, .. } = summary;
    let mut text = summary.shown.concat();
    // Writing to a string cannot fail.
    for (what, times) in &summary.errors {
        _ = writeln!(text, "unexpected answer, {times} times: {what}");
    }
    _ = writeln!(
        text,
        "{histories} histories, {operations} operations ({unknown} without an answer, {grants} grants), {}: {violations} \
         violations, {undecided} undecided (seed {seed})",
        told(disturbances, of_clusters)
    );
    said(&text);
    if violations + undecided > 0 || !summary.errors.is_empty() {
        EXIT_WRONG
    } else if summary.ended_early {
        failed(&format!("only {histories} of {wanted} histories were made"), EXIT_INTERRUPTED)
    } else {
        EXIT_CLEAN
    }
}

fn told(disturbances: &Disturbances, of_clusters: bool) -> String {
    let times = |what| disturbances.get(&what).copied().unwrap_or(0);
    let (kills, pauses) = (times(Disturbance::Kill), times(Disturbance::Pause));
    if !of_clusters {
        return format!("{kills} kills, {pauses} pauses");
    }
    let (stops, deposed) = (times(Disturbance::Stop), times(Disturbance::Deposed));
    let (member_kills, member_pauses) = (times(Disturbance::MemberKill), times(Disturbance::MemberPause));
    let takeovers = times(Disturbance::Takeover);
    format!(
        "{kills} kills, {pauses} pauses and {stops} stops of nodes ({deposed} deposed), {member_kills} kills and \
         {member_pauses} pauses of members, {takeovers} take-overs"
    )
}
