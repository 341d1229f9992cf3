//! Owns `loadtest compare`: its help, and what must be right before anything is started.

use clap::Args;

use crate::cli::options::{
    EXIT_INTERRUPTED, EXIT_WRONG, FileOptions, Files, Refusal, enough_files, failed, refused, reported, runtime, said,
};
use crate::compare;
use crate::compare::{Ended, Plan};
use crate::server::Source;

#[derive(Args)]
#[command(
    after_help = "Every system does the same work in turn, round by round, so that a ratio is of figures measured side by \
    side: claim and release of an exclusive lock with a fencing token, acknowledged only when durable. Redis, PostgreSQL \
    and etcd are started privately on loopback, if they are installed ('loadtest/peers install' on Debian), and the bare \
    actix-web server if it is built ('cargo build --profile dist -p bare-actix'); those that are not there are left out. Fencing \
    tokens and mutual exclusion are checked for all of them. 'cluster' is three nodes on three members of etcd, and \
    'etcd-cluster' etcd's own locks on the same members; they are set side by side only if they are asked for.\n\n\
    With --target, the token is read from LOCKKEEPER_TOKEN or --token-file, and environments compare-000001 and so on are \
    made in that server and never deleted.\n\n\
    Nothing else is left behind, also after Ctrl-C.\n\n\
    Exit codes: 0 measured and clean, whether or not the goals are met; 1 a rule was broken or something went wrong; \
    2 refused before the first request; 130 interrupted but clean.\n\n\
    Examples:\n  \
    loadtest compare --server target/dist/lockkeeper --html compare.html\n  \
    loadtest compare --server target/dist/lockkeeper --systems redis,bare --clients 64 --seconds 10\n  \
    loadtest compare --server target/dist/lockkeeper --systems cluster,etcd-cluster"
)]
pub struct Options {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    files: FileOptions,
}

pub fn run(options: Options) -> Result<u8, Refusal> {
    let plan = options.plan.ordered();
    let (source, files) = accept(&plan, &options.files)?;
    match runtime()?.block_on(compare::run(&plan, source)) {
        Ok((tables, run)) => {
            said(&tables);
            Ok(reported(&run, files))
        }
        Err(Ended::Interrupted) => Ok(failed("interrupted before the first turn", EXIT_INTERRUPTED)),
        Err(Ended::NotStarted(error)) => Err(error.into()),
        Err(Ended::NotPrepared(fault)) => Ok(failed(&format!("Lockkeeper cannot be prepared: {fault}"), EXIT_WRONG)),
    }
}

fn accept(plan: &Plan, files: &FileOptions) -> Result<(Source, Files), Refusal> {
    let (names, needed) = (plan.names, plan.most_with_own_name());
    if names < needed {
        return refused(format!("--names {names} is fewer than the {needed} clients, each of which needs one"));
    }
    enough_files(plan.hot_clients.iter().copied().fold(needed, u32::max))?;
    if let Some(bare) = plan.bare.as_ref().filter(|bare| !bare.is_file()) {
        return refused(format!("there is no program at {}: {}", bare.display(), compare::HOW_TO_BUILD_BARE));
    }
    let source = plan.against.source(None)?;
    let directory = plan.directory();
    match compare::is_in_memory(&directory) {
        Ok(false) => Ok((source, files.open()?)),
        Ok(true) => {
            refused(format!("{} is in memory, where nothing is durable: give --dir on a disk", directory.display()))
        }
        Err(error) => refused(format!("cannot use the directory {}: {error}", directory.display())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::options::EXIT_REFUSED;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_starts() {
        for (arguments, says) in [
            (&[][..], "--server PATH"),
            (&["--server", "/bin/sh", "--names", "10"], "256 clients"),
            (&["--server", "/bin/sh", "--pipeline", "a/b"], "--pipeline"),
            (&["--server", "/bin/sh", "--dir", "/nowhere"], "/nowhere"),
            (&["--server", "/bin/sh", "--bare", "/nowhere/bare"], "cargo build --profile dist -p bare-actix"),
            (&["--server", "/bin/sh", "--html", "/nowhere/compare.html"], "compare.html"),
        ] {
            let all = std::iter::once("compare").chain(arguments.iter().copied());
            let Options { plan, files } = CommandLine::try_parse_from(all).expect("well-formed").options;
            let Err(Refusal(why)) = accept(&plan.ordered(), &files) else { panic!("accepted: {arguments:?}") };
            assert!(why.contains(says), "{why}");
        }
        let all = ["loadtest", "compare", "--server", "/nowhere/lockkeeper", "--systems", "lockkeeper"];
        assert_eq!(crate::run_with(all), EXIT_REFUSED);
    }
}
