//! Owns `loadtest compare`: its options, and what must be right before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

use crate::cli::options::{
    Against, EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_WRONG, FileOptions, Files, Refusal, enough_files, failed, reported,
    said,
};
use crate::compare;
use crate::compare::{Ended, Plan, System};
use crate::server::Source;

/// A full comparison: goals are for this, and for more.
const ROUNDS: u32 = 3;
const SECONDS: u64 = 3;
const CLIENTS: [u32; 3] = [1, 64, 256];
const HOT_CLIENTS: [u32; 2] = [64, 256];
const READ_CLIENTS: u32 = 64;

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
    against: Against,
    /// The bare actix-web server's program; by default the one beside this program
    #[arg(long, value_name = "PATH")]
    bare: Option<PathBuf>,
    /// What to set side by side; Lockkeeper is always there
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::USUAL)]
    systems: Vec<System>,
    /// Where the servers keep their data while this runs: decides which disk is measured
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How often the systems take turns
    #[arg(long, default_value_t = ROUNDS, value_parser = value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of each turn
    #[arg(long, default_value_t = SECONDS, value_parser = value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Names to walk over; at least one for each client
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=100_000))]
    names: u32,
    /// Numbers of clients that claim and release names of their own
    #[arg(long, value_delimiter = ',', default_values_t = CLIENTS, value_parser = value_parser!(u32).range(1..=1_000))]
    clients: Vec<u32>,
    /// Numbers of clients that want one hot lock
    #[arg(long, value_delimiter = ',', default_values_t = HOT_CLIENTS, value_parser = value_parser!(u32).range(2..=1_000))]
    hot_clients: Vec<u32>,
    /// Number of clients that read
    #[arg(long, default_value_t = READ_CLIENTS, value_parser = value_parser!(u32).range(1..=1_000))]
    read_clients: u32,
    /// Worker threads of Lockkeeper and of the bare server; 0 is one for each processor
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=256))]
    workers: u32,
    #[command(flatten)]
    files: FileOptions,
}

pub fn run(options: &Options) -> u8 {
    // One thread for all clients: the machine's other processors are the servers'.
    let accepted = accept(options).and_then(|accepted| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok((accepted, runtime))
    });
    let ((plan, source, files), runtime) = match accepted {
        Ok(accepted) => accepted,
        Err(refusal) => return failed(&refusal.to_string(), EXIT_REFUSED),
    };
    match runtime.block_on(compare::run(&plan, source)) {
        Ok((tables, run)) => {
            said(&tables);
            reported(&run, files)
        }
        Err(Ended::Interrupted) => failed("interrupted before the first turn", EXIT_INTERRUPTED),
        Err(Ended::NotStarted(error)) => failed(&error.to_string(), EXIT_REFUSED),
        Err(Ended::NotPrepared(fault)) => failed(&format!("Lockkeeper cannot be prepared: {fault}"), EXIT_WRONG),
    }
}

fn accept(options: &Options) -> Result<(Plan, Source, Files), Refusal> {
    let with_own_name = options.clients.iter().copied().fold(options.read_clients, u32::max);
    if options.names < with_own_name {
        return Err(Refusal::FewNames(options.names, with_own_name));
    }
    enough_files(options.hot_clients.iter().copied().fold(with_own_name, u32::max))?;
    if let Some(bare) = options.bare.as_ref().filter(|bare| !bare.is_file()) {
        return Err(Refusal::NoProgram(bare.clone(), compare::HOW_TO_BUILD_BARE));
    }
    let source = options.against.source(None)?;
    let directory = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let in_memory = compare::is_in_memory(&directory);
    if in_memory.map_err(|error| Refusal::Directory(directory.clone(), error))? {
        return Err(Refusal::InMemory(directory));
    }
    let plan = Plan {
        target: match &source {
            Source::Program(program) => program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Source::Running { authority, .. } => format!("http://{authority}"),
        },
        organization: options.against.organization.clone(),
        pipeline: options.against.pipeline.clone(),
        bare: options.bare.clone().unwrap_or_else(beside_this_program),
        systems: with_lockkeeper(&options.systems),
        directory,
        rounds: options.rounds,
        length: Duration::from_secs(options.seconds),
        names: options.names,
        clients: in_order(&options.clients),
        hot_clients: in_order(&options.hot_clients),
        read_clients: options.read_clients,
        workers: options.workers,
        is_full: is_full(options),
    };
    Ok((plan, source, options.files.open()?))
}

/// At least as long, and with all the clients, as by default.
fn is_full(options: &Options) -> bool {
    let has_all = |asked: &[u32], usual: &[u32]| usual.iter().all(|number| asked.contains(number));
    options.rounds >= ROUNDS
        && options.seconds >= SECONDS
        && options.read_clients >= READ_CLIENTS
        && has_all(&options.clients, &CLIENTS)
        && has_all(&options.hot_clients, &HOT_CLIENTS)
}

fn beside_this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("bare-actix")
}

fn with_lockkeeper(systems: &[System]) -> Vec<System> {
    System::all().filter(|system| *system == System::Lockkeeper || systems.contains(system)).collect()
}

fn in_order(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let all = std::iter::once("compare").chain(arguments.iter().copied());
        CommandLine::try_parse_from(all).map(|line| line.options)
    }

    #[test]
    fn lockkeeper_comes_from_one_place_only() {
        assert!(parse(&["--server", "a", "--target", "http://127.0.0.1:1"]).is_err());
        assert!(parse(&["--server", "a", "--server-pid", "1"]).is_err());
        assert!(parse(&["--target", "http://127.0.0.1:1", "--server-pid", "1"]).is_ok());
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
            let options = parse(arguments).expect("well-formed");
            let refusal = accept(&options).err().expect("refused").to_string();
            assert!(refusal.contains(says), "{refusal}");
        }
        let all = ["loadtest", "compare", "--server", "/nowhere/lockkeeper", "--systems", "lockkeeper"];
        assert_eq!(crate::run_with(all), EXIT_REFUSED);
    }

    #[test]
    fn only_a_comparison_of_at_least_the_usual_size_is_full() {
        for (arguments, full) in [
            (&[][..], true),
            (&["--rounds", "5", "--seconds", "10", "--clients", "1,8,64,256"], true),
            (&["--rounds", "1"], false),
            (&["--seconds", "1"], false),
            (&["--clients", "64"], false),
            (&["--hot-clients", "256"], false),
            (&["--read-clients", "8"], false),
        ] {
            assert_eq!(is_full(&parse(arguments).expect("well-formed")), full, "{arguments:?}");
        }
    }

    #[test]
    fn lockkeeper_is_always_there_and_the_order_is_that_of_the_table() {
        assert_eq!(with_lockkeeper(&[System::Bare, System::Redis]), [System::Lockkeeper, System::Redis, System::Bare]);
        assert_eq!(in_order(&[64, 1, 64]), [1, 64]);
    }
}
