//! The signals of a server. SIGTERM and Ctrl-C: how it finishes its work and ends. SIGHUP: which files it reloads (the
//! log filter, the certificate, organization files), and which other settings have changed, since they only apply from
//! the next start.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal::SIGHUP};
use tokio::signal::unix::{Signal, SignalKind, signal as handle};
use tokio::sync::{Notify, watch};

use super::reconcile::Declarations;
use crate::config::{Faults, Organization, Settings};
use crate::http::RunningServer;
use crate::telemetry;
use delivery::runner::Runner;

/// Runs `finish` until it ends or a second signal comes. Returns whether all processes of steps have ended, like
/// `finish`.
pub async fn stop(finish: impl Future<Output = bool>, runner: &Runner, signals: &mut Signals) -> bool {
    tracing::info!("stopping: answering the requests in flight; a second signal stops at once");
    tokio::select! {
        gone = finish => gone,
        () = signals.next() => {
            tracing::warn!("stopped at once by a second signal");
            runner.shut_down(Duration::ZERO).await
        }
    }
}

/// Exits unless all processes of steps have ended: dropping the runtime would wait for tasks that wait for them.
pub fn exit_unless(gone: bool) {
    if !gone {
        tracing::warn!("stopped, but some processes of steps could not be killed; the next start waits for their end");
        std::process::exit(0);
    }
}

/// Answers the requests in flight, for up to `patience`.
pub async fn drain(running: RunningServer, patience: Duration) {
    let left = running.drain(patience).await;
    if left > 0 {
        tracing::warn!(left, "stopped before all requests were answered; raise http.drain_seconds to wait longer");
    }
}

/// Ctrl-C and SIGTERM.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: handle(SignalKind::terminate())?, interrupt: handle(SignalKind::interrupt())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Blocks SIGHUP, also while the program executes itself: without a handler, the signal would end the process. Must be
/// called before there is a second thread.
pub fn hold_hangups() -> std::io::Result<()> {
    Ok(SigSet::from(SIGHUP).thread_block()?)
}

/// Enough for fixing a file; a file of the wrong kind has thousands of faults.
const FAULTS_LOGGED_MAX: usize = 50;

/// Reads the settings of this process again.
pub type Load = Arc<dyn Fn() -> Result<Settings, Faults> + Send + Sync>;

/// SIGHUP makes the server reload its files. It never ends the server, not even during its start or stop.
pub struct Reloading {
    hangups: Signal,
    load: Load,
    /// The settings of the start, with those that have been reloaded since.
    running: Settings,
    /// The declarations of organization files, for the realms.
    declared: watch::Sender<Arc<Vec<Organization>>>,
    /// Notified to reload the TLS files.
    pub certificates: Arc<Notify>,
}

impl Reloading {
    pub fn new(load: Load, settings: &Settings) -> std::io::Result<Self> {
        let hangups = handle(SignalKind::hangup())?;
        SigSet::from(SIGHUP).thread_unblock()?;
        let declared = watch::Sender::new(Arc::new(settings.organizations.clone()));
        Ok(Self { hangups, load, running: settings.clone(), declared, certificates: Arc::default() })
    }

    pub fn declarations(&self) -> Declarations {
        self.declared.subscribe()
    }

    /// Runs until it is aborted. All signals during a reload cause one further reload.
    pub async fn run(mut self) {
        loop {
            self.hangups.recv().await;
            tracing::info!("SIGHUP: reading the files again");
            self.reload().await;
        }
    }

    async fn reload(&mut self) {
        let load = self.load.clone();
        match tokio::task::spawn_blocking(move || load()).await {
            Ok(Ok(settings)) => self.apply(&settings),
            Ok(Err(faults)) => refuse(&faults),
            Err(error) => tracing::error!(%error, "cannot read the files again; nothing has changed"),
        }
    }

    fn apply(&mut self, new: &Settings) {
        let filter = match telemetry::read_filter(&new.log.filter) {
            Ok(filter) => filter,
            Err(bad) => return tracing::error!("{bad}; nothing is reloaded"),
        };
        let mut changed = Vec::new();
        if new.log.filter != self.running.log.filter && telemetry::replace_filter(filter) {
            self.running.log.filter.clone_from(&new.log.filter);
            changed.push("log.filter");
        }
        for new in &new.organizations {
            let running = self.running.organizations.iter_mut().find(|running| running.id == new.id);
            if let Some(running) = running.filter(|running| *running != new) {
                running.clone_from(new);
                changed.push(new.id.as_str());
            }
        }
        // Also sent without changes, so that undeclared entries are reported again.
        self.declared.send_replace(Arc::new(self.running.organizations.clone()));
        self.certificates.notify_one();
        let restart = self.running.changed_for_restart(new);
        if !restart.is_empty() {
            let settings = restart.join(", ");
            tracing::warn!(settings, "these settings have changed, and count from the next start on");
        }
        let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
        tracing::info!(changed, "reloaded");
    }
}

/// Logs all faults, like a start; nothing is applied.
fn refuse(faults: &Faults) {
    for fault in faults.iter().take(FAULTS_LOGGED_MAX) {
        tracing::error!("{fault}");
    }
    let faults = faults.iter().count();
    tracing::error!(faults, "the files have faults; nothing is reloaded, and the next start will be refused");
}
