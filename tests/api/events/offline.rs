//! The data directory of a stopped server, opened like its server would.

use std::path::Path;

use domain::samples::AnyEvent;
use domain::{EventType, EventValue, Identifier, Timestamp};
use events::{Cause, Events, NewEvent, record as record_event};
use store::journal::{self, PAGE_ENTRIES};
use store::{Batch, LoggedStore, Options, Store, StoreError};

pub fn open(home: &Path) -> LoggedStore {
    let options = Options { segment_bytes: 4 << 20, min_free_bytes: 0, ..Options::default() };
    LoggedStore::open(&home.join("data"), options).unwrap()
}

pub fn acme() -> Identifier {
    Identifier::parse("acme").unwrap()
}

/// Records this many events, each with a text of this many bytes, as a busy server would. Returns the id of the first.
pub fn record(home: &Path, count: usize, bytes: usize) -> String {
    let store = std::sync::Arc::new(open(home));
    let text = EventValue::Text("x".repeat(bytes).into());
    let data = AnyEvent(EventType::SecretUpdated, vec![("text", text)]);
    let at = Timestamp::from_millis(1_794_735_000_123);
    for _ in 0..count.div_ceil(100) {
        let mut batch = Batch::default();
        for _ in 0..count.min(100) {
            record_event(&mut batch, &acme(), &NewEvent::new(&data, Cause::system(at)));
        }
        // The store accepts only as much as the disk can write.
        while let Err(error) = store.commit(batch.clone()) {
            assert!(matches!(error, StoreError::Overloaded), "{error}");
            std::thread::yield_now();
        }
    }
    store.close();
    Events::new(store).read(&acme(), 0).unwrap()[0].id.to_string()
}

/// Removes pages as retention would.
pub fn drop_pages(home: &Path, pages: u64) {
    let store = open(home);
    let mut batch = Batch::default();
    for page in 0..pages {
        batch.delete(journal::page_key("acme", page));
    }
    batch.put(b"EF/acme", (pages * PAGE_ENTRIES).to_be_bytes());
    store.commit(batch).unwrap();
    store.close();
}
