#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::git::{Commit, Git, GitSettings, RefName, RemoteUrl};
use accounts::secrets::{MasterKey, Vault};
use domain::{
    Action, Blueprint, Description, EventType, EventValue, IdSeed, Identifier, Initiator, Input, InputKind, InputValue,
    Person, PipelineKey, RegistryId, RegistryStep, Stage, Step, StepReference, Timestamp, Use, UserId, VariableName,
    VariableValue,
};
use events::Events;
use locks::pipelines::{Definition, Pipelines};
use outbound::Policy;
use store::{Batch, MemoryStore, Store, StoreError};

const NOW: Timestamp = Timestamp::from_millis(1_000);

struct Bench {
    store: Arc<MemoryStore>,
    pipelines: Pipelines,
    registries: Registries,
    _scratch: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new())).await
    }

    async fn over(store: Arc<MemoryStore>) -> Self {
        let pipelines = Pipelines::open(store.clone(), Vec::new(), NOW).await.unwrap();
        let vault = Arc::new(Vault::open(store.clone(), MasterKey::parse(&"7".repeat(64)).unwrap()).unwrap());
        let scratch = tempfile::tempdir().unwrap();
        let settings = GitSettings {
            program: "no-such-git".into(),
            timeout: Duration::from_secs(1),
            allow_file: true,
            scratch: scratch.path().to_owned(),
            policy: Policy::default(),
            own_program: "/nonexistent/lockkeeper".into(),
            disk: None,
            max_bytes: 64 << 20,
        };
        let git = Git::new(settings, 1);
        let read_step: ReadStep = |_| Err(vec!["is no step".to_owned()]);
        let registries = Registries::open(store.clone(), pipelines.clone(), vault, git.unwrap(), read_step).unwrap();
        Self { store, pipelines, registries, _scratch: scratch }
    }

    async fn create(&self, number: u8, name: &str, steps: Steps) -> Result<Arc<Registry>, RegistryError> {
        let new = NewRegistry { name: identifier(name), source: NewSource::Inline(steps) };
        self.registries.create(&acme(), id(number), new, &ana(), &|| NOW, |_, _| ()).await
    }

    async fn delete(&self, number: u8) -> Result<(), RegistryError> {
        self.registries.delete(&acme(), id(number), None, &ana(), NOW).await
    }

    /// Saves a pipeline that uses `tools/build@1`.
    async fn save(&self) -> Result<(), Vec<(String, String)>> {
        let using = self.registries.using().await;
        let used = Use { reference: StepReference::parse("tools/build@1").unwrap(), with: Default::default() };
        let faults = using.faults(&acme(), &used);
        if !faults.is_empty() {
            return Err(faults);
        }
        let stage = Stage {
            name: identifier("s"),
            approval: domain::ApprovalRule::Never,
            timeout_seconds: 60,
            idempotent: false,
            steps: vec![Step::own(identifier("b"), Action::Uses(Box::new(used)))],
        };
        let blueprint = Arc::new(Blueprint { stages: vec![stage], ..Blueprint::default() });
        let key = PipelineKey { organization: acme(), pipeline: identifier("web") };
        let definition = Definition { name: "web".to_owned(), slug: identifier("web"), blueprint, repository: None };
        self.pipelines.put(&key, definition, None, &ana(), NOW).await.unwrap();
        Ok(())
    }
}

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn acme() -> Identifier {
    identifier("acme")
}

fn id(number: u8) -> RegistryId {
    RegistryId(IdSeed([number; 12]))
}

fn ana() -> Initiator {
    Initiator { person: Person { id: UserId(IdSeed([1; 12])), name: "ana".into() }, via: None }
}

fn step(name: &str, version: &str) -> RegistryStep {
    let default = Some(InputValue::string(VariableValue::parse("x").unwrap()));
    let input = Input { kind: InputKind::String, required: false, default };
    RegistryStep {
        name: identifier(name),
        version: identifier(version),
        description: Description::parse("builds").unwrap(),
        inputs: [(VariableName::parse("TARGET").unwrap(), input)].into(),
        action: Action::Run(vec![Arc::from("make")]),
    }
}

fn build() -> Steps {
    steps_of([step("build", "1")], |_, message| panic!("{message}"))
}

#[tokio::test]
async fn no_registry_is_shown_before_it_is_durable() {
    let bench = Bench::new().await;
    bench.store.hold();
    let mut making = pin!(bench.create(1, "tools", build()));
    assert!(making.as_mut().now_or_never().is_none());
    assert!(bench.registries.get(&acme(), id(1)).is_none() && bench.registries.list(&acme()).is_empty());
    let mut taken = pin!(bench.create(2, "tools", build()));
    assert!(taken.as_mut().now_or_never().is_none(), "a refusal waits for what it speaks of");
    bench.store.release();
    making.await.unwrap();
    assert!(matches!(taken.await, Err(RegistryError::Exists)));
    assert!(bench.registries.get(&acme(), id(1)).is_some());
}

#[tokio::test]
async fn a_pipeline_whose_caller_went_away_keeps_its_registry() {
    let bench = Bench::new().await;
    bench.create(1, "tools", build()).await.unwrap();
    bench.store.hold();
    assert!(bench.save().now_or_never().is_none(), "it is handed in and not durable");
    let mut deleting = pin!(bench.delete(1));
    assert!(deleting.as_mut().now_or_never().is_none());
    bench.store.release();
    let refused = deleting.await;
    assert!(
        matches!(&refused, Err(RegistryError::InUse { used_by }) if used_by == &[identifier("web")]),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_pipeline_cannot_use_a_registry_that_is_being_deleted() {
    let bench = Bench::new().await;
    bench.create(1, "tools", build()).await.unwrap();
    bench.store.hold();
    assert!(bench.delete(1).now_or_never().is_none(), "it is handed in and not durable");
    let refused = bench.save().now_or_never().unwrap().unwrap_err();
    assert_eq!(refused, [("uses".to_owned(), "names tools/build@1, and there is no registry `tools`".to_owned())]);
    bench.store.release();
}

#[tokio::test]
async fn no_registry_is_deleted_while_a_pipeline_is_checked() {
    let bench = Bench::new().await;
    bench.create(1, "tools", build()).await.unwrap();
    let using = bench.registries.using().await;
    let mut deleting = pin!(bench.delete(1));
    assert!(deleting.as_mut().now_or_never().is_none());
    drop(using);
    deleting.await.unwrap();
}

#[tokio::test]
async fn a_restart_finds_the_same_registries_and_refuses_an_unreadable_record() {
    let bench = Bench::new().await;
    bench.create(1, "tools", build()).await.unwrap();
    let restarted = Bench::over(Arc::new(bench.store.crash())).await;
    assert_eq!(restarted.registries.list(&acme()), bench.registries.list(&acme()));
    let mut batch = Batch::default();
    batch.put(registry::key(&acme(), id(9)), vec![9, 9, 9]);
    bench.store.commit(batch).unwrap();
    let refused = service::load(bench.store.clone()).err();
    assert!(matches!(refused, Some(StoreError::Read(why)) if why.contains("version")));
}

#[tokio::test]
async fn an_organization_has_a_hundred_registries_and_no_more() {
    let bench = Bench::new().await;
    for number in 0..REGISTRIES_MAX {
        bench.create(u8::try_from(number).unwrap(), &format!("r{number}"), Steps::new()).await.unwrap();
    }
    assert!(matches!(bench.create(200, "more", Steps::new()).await, Err(RegistryError::TooMany)));
    bench.delete(7).await.unwrap();
    bench.create(200, "more", Steps::new()).await.unwrap();
}

#[tokio::test]
async fn every_change_is_recorded_with_who_made_it() {
    let bench = Bench::new().await;
    let made = bench.create(1, "tools", build()).await.unwrap();
    let git = GitSource {
        url: RemoteUrl::parse("https://git.example/x", false).unwrap(),
        reference: RefName::parse("main").unwrap(),
        credential: None,
        commit: None,
    };
    let new = NewRegistry { name: identifier("fetched"), source: NewSource::Git(git) };
    let fetched = bench.registries.create(&acme(), id(2), new, &ana(), &|| NOW, |_, _| ()).await.unwrap();
    assert!(fetched.failure.as_ref().unwrap().message.contains("git is not installed"));
    let new = NewRegistry { name: identifier("tools"), source: NewSource::Inline(Steps::new()) };
    let changed = bench.registries.update(&acme(), id(1), new, None, &ana(), &|| NOW).await.unwrap();
    assert!(changed.revision > made.revision && changed.steps.is_empty());
    let failed = bench.registries.sync(&acme(), id(2), &ana(), &|| NOW, |_, _| ()).await;
    assert!(matches!(failed, Err(RegistryError::SyncFailed(_))), "{failed:?}");
    bench.delete(1).await.unwrap();
    let happened = Events::new(bench.store.clone()).read(&acme(), 0).unwrap();
    let event_types: Vec<_> = happened.iter().map(|event| event.event_type).collect();
    let expected = [
        EventType::RegistryCreated,
        EventType::RegistryCreated,
        EventType::RegistryUpdated,
        EventType::RegistrySynced,
        EventType::RegistryDeleted,
    ];
    assert_eq!(event_types, expected);
    assert!(happened.iter().all(|event| event.by.as_ref() == Some(&ana())));
    let status = |place: usize| happened[place].data.iter().find(|(name, _)| &**name == "status").unwrap().1.clone();
    assert_eq!((status(0), status(3)), (EventValue::Text("ready".into()), EventValue::Text("failed".into())));
}

#[test]
fn a_registry_is_read_as_it_was_written() {
    let call = domain::HttpCall {
        method: "POST".into(),
        url: "https://x.example/${A}".into(),
        headers: vec![("X-A".into(), "ä".into())],
        body: Some("{}".into()),
        expect_status: vec![200],
    };
    let request = RegistryStep { action: Action::Http(call), ..step("call", "2") };
    let git = GitSource {
        url: RemoteUrl::parse("file:///srv/x.git", true).unwrap(),
        reference: RefName::parse("main").unwrap(),
        credential: Some(VariableName::parse("TOKEN").unwrap()),
        commit: Some(Commit::parse(&"a".repeat(40)).unwrap()),
    };
    let faults = vec![FileError { file: "steps/a.toml".to_owned(), message: "is no step".to_owned() }];
    let full = Registry {
        organization: acme(),
        id: id(1),
        name: identifier("tools"),
        source: Source::Git(git),
        steps: Arc::new(steps_of([step("build", "1"), request], |_, message| panic!("{message}"))),
        failure: Some(Arc::new(SyncError { message: "no".to_owned(), faults })),
        created_at: NOW,
        updated_at: Timestamp::from_millis(2_000),
        synced_at: Some(NOW),
        revision: 7,
    };
    let bare =
        Registry { source: Source::Inline, steps: Arc::default(), failure: None, synced_at: None, ..full.clone() };
    for registry in [full, bare] {
        assert_eq!(registry::decode(&registry::encode(&registry)).unwrap(), registry);
    }
}

#[test]
fn duplicate_surplus_and_oversized_steps_are_named() {
    let told = |steps: Vec<RegistryStep>| {
        let mut told = Vec::new();
        steps_of(steps, |place, message| told.push((place, message)));
        told
    };
    assert_eq!(told(vec![step("a", "1"), step("a", "2"), step("b", "1")]), []);
    let twice = told(vec![step("a", "1"), step("a", "1")]);
    assert_eq!(twice, [(1, "is a@1, which is there twice".to_owned())]);
    let many = told((0..=STEPS_MAX).map(|number| step("a", &number.to_string())).collect());
    assert!(many.len() == 1 && many[0].0 == STEPS_MAX, "{many:?}");
    let large = |version: &str| RegistryStep {
        action: Action::Run(vec![Arc::from("x".repeat(REGISTRY_BYTES_MAX / 2))]),
        ..step("a", version)
    };
    let told = told(vec![large("1"), large("2"), large("3")]);
    assert!(told.len() == 1 && told[0].0 == 1, "{told:?}");
}

#[tokio::test]
async fn an_update_with_the_same_content_is_no_change() {
    let bench = Bench::new().await;
    let made = bench.create(1, "tools", build()).await.unwrap();
    let later = Timestamp::from_millis(9_000);
    let put = |steps| {
        let new = NewRegistry { name: identifier("tools"), source: NewSource::Inline(steps) };
        async { bench.registries.update(&acme(), id(1), new, None, &ana(), &|| later).await.unwrap() }
    };
    assert_eq!(put(build()).await, made);
    let events = || Events::new(bench.store.clone()).next(&acme()).unwrap();
    assert_eq!(events(), 1, "nothing has happened");
    let changed = put(Steps::new()).await;
    assert!(changed.revision > made.revision && changed.updated_at == later);
    assert_eq!(events(), 2);
}
