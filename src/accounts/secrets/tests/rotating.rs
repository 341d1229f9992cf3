//! Rotations, complete and interrupted after each of their writes.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use store::{Batch, LoggedStore, Options, Pair, Sequence, StoreError};

/// More than fit into one batch, so that a rotation can be cut off in the middle of an organization.
const OF_ACME: usize = 40;

/// Accepts a number of batches, and then none: its content is the state after a crash at that moment.
struct Dying {
    store: Arc<MemoryStore>,
    left: AtomicUsize,
}

impl Dying {
    fn after(store: &Arc<MemoryStore>, batches: usize) -> Self {
        Self { store: store.clone(), left: AtomicUsize::new(batches) }
    }
}

impl Store for Dying {
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(1).ok_or(StoreError::Closed)?;
        self.left.store(left, Ordering::Relaxed);
        self.store.commit(batch)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.store.durable()
    }

    fn handed_in(&self) -> Sequence {
        self.store.handed_in()
    }

    fn applied(&self) -> Sequence {
        self.store.applied()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.store.scan(from, to, limit)
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        self.store.refusing_writes()
    }
}

async fn filled(master: MasterKey) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    fill(&Vault::open(store.clone(), master).unwrap()).await;
    store
}

async fn fill(vault: &Vault) {
    for number in 0..OF_ACME {
        create(vault, "acme", (number % 3 == 0).then_some("web"), &format!("S{number:02}"), &format!("v{number}"))
            .await;
    }
    create(vault, "globex", None, "TOKEN", "of globex").await;
    create(vault, "initech", None, "GONE", "x").await;
    vault.delete(&id("initech"), None, &name("GONE"), None, CHANGED).await.unwrap();
    vault.prepare(&id("hooli")).await.unwrap();
    for organization in ["acme", "hooli"] {
        let mut batch = Batch::default();
        vault.keep(&mut batch, &id(organization), "webhook/1", &value("kept")).unwrap();
        vault.store().commit(batch).unwrap();
    }
}

fn check(store: Arc<dyn Store>, master: MasterKey) {
    let vault = Vault::open(store, master).unwrap();
    let expected: Vec<_> = (0..OF_ACME).map(|number| (format!("S{number:02}"), format!("v{number}"))).collect();
    assert_eq!(opened(&vault, "acme", "web"), expected);
    assert_eq!(opened(&vault, "globex", "web"), pairs(&[("TOKEN", "of globex")]));
    assert_eq!(opened(&vault, "initech", "web"), []);
    for organization in ["acme", "hooli"] {
        assert_eq!(vault.kept(&id(organization), "webhook/1").unwrap(), Some(value("kept")));
    }
}

/// Checks that every record has changed, and that no organization has an old key left.
fn check_all_is_new(before: &MemoryStore, after: &MemoryStore) {
    for prefix in [store::keys::SECRETS, store::keys::DATA_KEYS, store::keys::SEALED_VALUES] {
        let records = |store: &MemoryStore| store.scan(prefix, &end_of_prefix(prefix), usize::MAX).unwrap();
        let (before, after) = (records(before), records(after));
        assert_eq!(before.len(), after.len());
        for ((key, old), (same_key, new)) in before.iter().zip(&after) {
            assert_eq!((key, old.len()), (same_key, new.len()));
            assert_ne!(old, new, "{}", String::from_utf8_lossy(key));
        }
    }
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

fn key_text(dir: &Path) -> String {
    fs::read_to_string(dir.join("master.key")).unwrap()
}

#[tokio::test]
async fn a_rotation_seals_everything_again_and_the_old_key_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    let store = filled(old.clone()).await;
    let before = store.crash();
    let rotated = rotate(&*store, dir.path(), None).await.unwrap();
    assert_eq!(rotated, Rotated { organizations: 4, secrets: OF_ACME + 3 });
    check_all_is_new(&before, &store);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the key and its fingerprint");
    assert!(Vault::open(store.clone(), old).is_err());
    let new = unlock(&*store, dir.path(), None).await.unwrap();
    check(store.clone(), new.clone());
    let vault = Vault::open(store, new).unwrap();
    assert_eq!(create(&vault, "initech", None, "GONE", "x").await.version, 2);
}

#[tokio::test]
async fn a_rotation_of_files_cut_off_after_any_write_is_finished_by_the_next_start_and_by_the_next_rotation() {
    let original = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), original.path(), None).await.unwrap();
    let filled = filled(old).await;
    for batches in 0.. {
        let (dir, store) = (copy(original.path()), Arc::new(filled.crash()));
        let finished = rotate(&Dying::after(&store, batches), dir.path(), None).await.is_ok();
        let again = (copy(dir.path()), Arc::new(store.crash()));

        let master = unlock(&*store, dir.path(), None).await.unwrap();
        check(store.clone(), master);
        check_all_is_new(&filled, &store);
        assert_ne!(key_text(dir.path()), key_text(original.path()));

        let (dir, store) = again;
        rotate(&*store, dir.path(), None).await.unwrap();
        let master = unlock(&*store, dir.path(), None).await.unwrap();
        check(store.clone(), master);
        check_all_is_new(&filled, &store);
        if finished {
            assert!(batches > 5, "only {batches} writes");
            return;
        }
    }
}

#[tokio::test]
async fn a_rotation_that_is_interrupted_again_and_again_is_finished_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    let store = filled(old).await;
    let before = store.crash();
    assert!(rotate(&Dying::after(&store, 0), dir.path(), None).await.is_err());
    let mut starts = 0;
    while unlock(&Dying::after(&store, 1), dir.path(), None).await.is_err() {
        starts += 1;
        assert!(starts < 20);
    }
    assert!(starts > 3);
    let master = unlock(&*store, dir.path(), None).await.unwrap();
    check(store.clone(), master);
    check_all_is_new(&before, &store);
}

#[tokio::test]
async fn a_rotation_cut_off_between_the_last_wrapped_key_and_the_renamed_file_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    let store = filled(old).await;
    let before = store.crash();
    assert!(rotate(&Dying::after(&store, 0), dir.path(), None).await.is_err());
    let both_files = copy(dir.path());
    assert!(both_files.path().join("master.key.new").exists());
    assert!(rotate(&Dying::after(&store, 1), dir.path(), None).await.is_err());
    assert!(!dir.path().join("master.key.new").exists());

    let master = unlock(&*store, both_files.path(), None).await.unwrap();
    check(store.clone(), master);
    check_all_is_new(&before, &store);
    assert_eq!(key_text(both_files.path()), key_text(dir.path()));
}

#[tokio::test]
async fn a_rotation_of_variables_touches_no_file_and_cut_off_after_any_write_is_finished_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (master('1'), master('2'));
    let filled = filled(old.clone()).await;
    let keys = || Some((old.clone(), new.clone()));
    for batches in 0.. {
        let store = Arc::new(filled.crash());
        let finished = rotate(&Dying::after(&store, batches), dir.path(), keys()).await.is_ok();
        let served = Arc::new(store.crash());
        let opens = if batches == 0 { &old } else { &new };
        let master = unlock(&*served, dir.path(), Some(opens.clone())).await.unwrap();
        check(served, master);

        rotate(&*store, dir.path(), keys()).await.unwrap();
        check(store.clone(), new.clone());
        check_all_is_new(&filled, &store);
        assert!(!dir.path().join("master.key").exists());
        if finished {
            assert_eq!(rotate(&*store, dir.path(), keys()).await.unwrap(), Rotated::default());
            return;
        }
    }
}

#[tokio::test]
async fn a_rotation_on_top_of_one_that_was_cut_off_finishes_that_first_and_keys_do_not_pile_up() {
    let dir = tempfile::tempdir().unwrap();
    let longest_ring = |store: &MemoryStore| {
        let rings = store.scan(store::keys::DATA_KEYS, &end_of_prefix(store::keys::DATA_KEYS), usize::MAX).unwrap();
        rings.iter().map(|(_, ring)| ring.len()).max()
    };
    let cut_off = filled(master('1')).await;
    let keys = Some((master('1'), master('2')));
    assert!(rotate(&Dying::after(&cut_off, 1), dir.path(), keys).await.is_err());
    for batches in 0.. {
        let store = Arc::new(cut_off.crash());
        let keys = Some((master('2'), master('3')));
        let finished = rotate(&Dying::after(&store, batches), dir.path(), keys).await.is_ok();
        assert!(longest_ring(&store) <= longest_ring(&cut_off));
        if finished {
            return check(store, master('3'));
        }
    }
}

#[tokio::test]
async fn more_organizations_than_one_batch_takes_can_be_under_either_master_key_when_a_rotation_is_cut_off() {
    const ORGANIZATIONS: usize = 1_001;
    let dir = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    let store = Arc::new(MemoryStore::new());
    let vault = Vault::open(store.clone(), old.clone()).unwrap();
    for number in 0..ORGANIZATIONS {
        create(&vault, &format!("o{number}"), None, "TOKEN", &format!("v{number}")).await;
    }
    assert!(rotate(&Dying::after(&store, 1), dir.path(), None).await.is_err());
    assert!(dir.path().join("master.key.new").exists());
    assert!(matches!(Vault::open(store.clone(), old), Err(OpenError::WrongFile { .. })));

    let master = unlock(&*store, dir.path(), None).await.unwrap();
    let vault = Vault::open(store, master).unwrap();
    for number in 0..ORGANIZATIONS {
        assert_eq!(opened(&vault, &format!("o{number}"), "web"), pairs(&[("TOKEN", &format!("v{number}"))]));
    }
}

#[tokio::test]
async fn a_secret_that_does_not_open_stops_a_rotation_before_it_has_changed_anything() {
    let dir = tempfile::tempdir().unwrap();
    let old = unlock(&MemoryStore::new(), dir.path(), None).await.unwrap();
    let store = filled(old).await;
    let mut batch = Batch::default();
    let of_globex = store.get(&secret::secret_key(&id("globex"), None, &name("TOKEN"))).unwrap().unwrap();
    batch.put(secret::secret_key(&id("acme"), Some(&id("web")), &name("S00")), of_globex);
    store.commit(batch).unwrap();
    let (bytes, key) = (bytes_of(&*store), key_text(dir.path()));
    let refused = rotate(&*store, dir.path(), None).await.unwrap_err();
    assert!(matches!(&refused, OpenError::DoesNotOpen { name, .. } if name.as_str() == "S00"), "{refused}");
    assert_eq!((bytes_of(&*store), key_text(dir.path())), (bytes, key));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the key and its fingerprint");
}

#[tokio::test]
async fn a_wrong_old_key_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(master('1')).await;
    let bytes = bytes_of(&*store);
    let refused = rotate(&*store, dir.path(), Some((master('3'), master('2')))).await;
    assert!(matches!(refused, Err(OpenError::WrongVariable { .. })));
    assert_eq!(bytes_of(&*store), bytes);
}

#[tokio::test]
async fn on_the_real_store_values_survive_a_rotation_and_never_reach_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let open = || Arc::new(LoggedStore::open(&data, Options { min_free_bytes: 0, ..Options::default() }).unwrap());
    {
        let store = open();
        let master = unlock(&*store, &data, None).await.unwrap();
        let vault = Vault::open(store.clone(), master).unwrap();
        create(&vault, "acme", None, "TOKEN", "a-value-to-be-looked-for").await;
        create(&vault, "acme", Some("web"), "LARGE", &"large-value.".repeat(1_365)).await;
    }
    assert_eq!(rotate(&*open(), &data, None).await.unwrap(), Rotated { organizations: 1, secrets: 2 });
    {
        let store = open();
        let master = unlock(&*store, &data, None).await.unwrap();
        let vault = Vault::open(store.clone(), master).unwrap();
        let large = "large-value.".repeat(1_365);
        assert_eq!(opened(&vault, "acme", "web"), pairs(&[("LARGE", &large), ("TOKEN", "a-value-to-be-looked-for")]));
    }
    let (mut files, mut named) = (0, false);
    for folder in [data.clone(), data.join("log"), data.join("sled")] {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let bytes = fs::read(&entry).unwrap();
            files += 1;
            named |= contains(&bytes, "TOKEN");
            assert!(!contains(&bytes, "looked-for") && !contains(&bytes, "large-value"), "{}", entry.display());
        }
    }
    assert!(files > 4 && named);
}
