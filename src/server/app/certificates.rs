//! The certificate of a running server: reloaded when its files change, with warnings before it expires.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::sync::Notify;

use super::realm_chores::every;
use crate::tls::{Concern, Refreshed, ServerTls};
use http1::Handshakes;

/// How often the files are read. A new certificate is soon in use.
const FILES_READ_EVERY: Duration = Duration::from_secs(5);
/// How often failed handshakes are reported, with one line per reason.
const HANDSHAKES_REPORTED_EVERY: Duration = Duration::from_secs(1);

/// Reads the files every few seconds, and immediately when notified. The metrics are there from the call on.
pub fn keep_fresh(tls: Arc<ServerTls>, asked: Arc<Notify>) -> impl Future<Output = ()> {
    let mut watch = Watch::new(&tls);
    async move {
        let mut rounds = tokio::time::interval(FILES_READ_EVERY);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                () = asked.notified() => {}
            }
            let reading = tls.clone();
            match tokio::task::spawn_blocking(move || reading.refresh()).await {
                Ok(refreshed) => watch.refreshed(refreshed, &tls),
                Err(error) => tracing::error!(%error, "cannot read the files of TLS"),
            }
        }
    }
}

/// Reports failed handshakes, which anybody can cause, at a bounded rate.
pub async fn report_handshakes(handshakes: Arc<Handshakes>) {
    let work = || {
        for (reason, failed) in handshakes.take_failures() {
            let last_peer = failed.peer.map(|peer| peer.to_string()).unwrap_or_default();
            tracing::info!(count = failed.count, last_peer, reason, "TLS handshakes failed");
        }
    };
    every(HANDSHAKES_REPORTED_EVERY, work).await;
}

/// The concern about the certificate that was logged last, and the metrics.
struct Watch {
    concern: Option<Concern>,
    replaced: metrics::Counter,
    refused: metrics::Counter,
    expires: metrics::Gauge,
}

impl Watch {
    fn new(tls: &ServerTls) -> Self {
        let counter = |outcome| metrics::counter!("lockkeeper_tls_reloads_total", "outcome" => outcome);
        let mut watch = Self {
            concern: None,
            replaced: counter("replaced"),
            refused: counter("refused"),
            expires: metrics::gauge!("lockkeeper_tls_certificate_expires_timestamp_seconds"),
        };
        watch.look_at_key(tls);
        watch.look(tls);
        watch
    }

    fn refreshed(&mut self, refreshed: Refreshed, tls: &ServerTls) {
        match refreshed {
            Refreshed::Unchanged => {}
            Refreshed::Replaced(certificate) => {
                self.replaced.increment(1);
                tracing::info!("new connections get the new certificate, {certificate}");
                self.look_at_key(tls);
            }
            Refreshed::Refused(unfit) => {
                self.refused.increment(1);
                for fault in unfit {
                    tracing::warn!("{fault}; new connections still get the old certificate");
                }
            }
        }
        self.look(tls);
    }

    fn look_at_key(&self, tls: &ServerTls) {
        if let Some(warning) = tls.exposure() {
            tracing::warn!("{warning}");
        }
    }

    /// Logs a concern once.
    fn look(&mut self, tls: &ServerTls) {
        let certificate = tls.certificate();
        self.expires.set(certificate.expires_at() as f64);
        let concern = certificate.concern(UnixTime::now());
        if let Some(concern) = concern.filter(|_| concern != self.concern) {
            tracing::warn!("tls.certificate: {}", certificate.explain(concern));
        }
        self.concern = concern;
    }
}
