//! The store of a data directory, and what counts its events.

use std::sync::Arc;

use crate::config::Settings;
use crate::telemetry;
use store::LoggedStore;

/// Opens the store of the data directory, which locks the directory.
pub fn open_store(settings: &Settings, discard_damaged_log: bool) -> Result<LoggedStore, store::OpenError> {
    let options = store::Options {
        segment_bytes: usize::try_from(settings.storage.log_segment_bytes).unwrap_or(usize::MAX),
        cache_bytes: settings.storage.cache_bytes,
        min_free_bytes: settings.storage.min_free_bytes,
        starting: true,
        discard_damaged_log,
        appended: Some(event_counter()),
        ..store::Options::default()
    };
    LoggedStore::open(&settings.data_dir, options)
}

/// Counts events as they become durable.
pub fn event_counter() -> store::journal::Appended {
    let counter = telemetry::EventCounter::new();
    Arc::new(move |organization, event| counter.count(organization, event))
}
