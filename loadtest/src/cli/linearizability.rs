//! Owns `loadtest linearizability`: its help, what must be right before it starts, and its exit code.

use clap::Args;

use crate::cli::options::{
    EXIT_CLEAN, EXIT_INTERRUPTED, EXIT_WRONG, Refusal, cannot_start, end_early, enough_files, failed, has_etcd,
    refused, runtime, said,
};
use crate::interruption::Interruption;
use crate::linearizability;
use crate::linearizability::Plan;

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
    #[command(flatten)]
    plan: Plan,
}

pub fn run(Options { plan }: Options) -> Result<u8, Refusal> {
    if let Some(path) = &plan.check {
        return match linearizability::check_file(path) {
            Ok(None) => Ok(said("linearizable\n")),
            Ok(Some(wrong)) => {
                said(&wrong);
                Ok(EXIT_WRONG)
            }
            Err(error) => refused(format!("cannot read {}: {error}", path.display())),
        };
    }
    if let Some(program) = plan.server.as_ref().filter(|program| !program.is_file()) {
        let program = program.display();
        return refused(format!("there is no program at {program}: build it with `cargo build --bin lockkeeper`"));
    }
    if plan.nodes.is_some() {
        has_etcd()?;
    }
    enough_files(plan.clients * plan.together * plan.servers)?;
    let (seed, wanted, of_clusters) = (plan.seed, plan.histories, plan.nodes.is_some());
    eprintln!("seed {seed}");
    let ran = runtime()?.block_on(async {
        let interruption = Interruption::new().map_err(cannot_start)?;
        let stopped = end_early(interruption, "ending early, the histories under way are checked first");
        Ok::<_, Refusal>(linearizability::run(plan, stopped).await)
    });
    let summary = match ran? {
        Ok(summary) => summary,
        Err(error) => return Ok(failed(&format!("{error} (seed {seed})"), EXIT_WRONG)),
    };
    said(&summary.text(seed, of_clusters));
    Ok(match summary.histories {
        _ if !summary.is_clean() => EXIT_WRONG,
        made if made < wanted => failed(&format!("only {made} of {wanted} histories were made"), EXIT_INTERRUPTED),
        _ => EXIT_CLEAN,
    })
}
