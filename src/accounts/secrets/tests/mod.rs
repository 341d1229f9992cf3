//! Secrets over stores that hold, refuse, die and are opened again.
#![allow(clippy::unwrap_used)]

mod audit_key;
mod changing;
mod events;
mod key_file;
mod rotating;
mod sealing;

use std::sync::Arc;

use super::*;
use ::events::Cause;
use domain::{Description, Identifier, PipelineKey, Timestamp, VariableName};
use store::{MemoryStore, Store, end_of_prefix};

const NOW: Timestamp = Timestamp::from_millis(1_000);
const LATER: Timestamp = Timestamp::from_millis(2_000);
const MADE: Cause<'static> = Cause { by: None, at: NOW };
const CHANGED: Cause<'static> = Cause { by: None, at: LATER };

fn id(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn name(text: &str) -> VariableName {
    VariableName::parse(text).unwrap()
}

fn description(text: &str) -> Description {
    Description::parse(text).unwrap()
}

fn value(text: &str) -> SecretValue {
    SecretValue::parse(text).unwrap()
}

fn pipeline(organization: &str, pipeline: &str) -> PipelineKey {
    PipelineKey { organization: id(organization), pipeline: id(pipeline) }
}

fn master(digit: char) -> MasterKey {
    MasterKey::parse(&digit.to_string().repeat(64)).unwrap()
}

fn vault(store: &Arc<MemoryStore>) -> Vault {
    Vault::open(store.clone(), master('1')).unwrap()
}

fn new(scope: Option<&str>, called: &str, text: &str) -> NewSecret {
    NewSecret { pipeline: scope.map(id), name: name(called), value: value(text), description: description("") }
}

async fn create(vault: &Vault, organization: &str, scope: Option<&str>, called: &str, text: &str) -> Secret {
    vault.create(&id(organization), new(scope, called, text), MADE, |_, _| ()).await.unwrap()
}

/// The secrets for the steps of a pipeline, as text.
fn opened(vault: &Vault, organization: &str, of: &str) -> Vec<(String, String)> {
    let opened = vault.open_for(&pipeline(organization, of)).unwrap();
    opened.into_iter().map(|(name, value)| (name.to_string(), value.reveal().to_owned())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// All keys and values of a store, concatenated.
fn bytes_of(store: &dyn Store) -> Vec<u8> {
    let everything = store.scan(b"", &end_of_prefix(&[u8::MAX]), usize::MAX).unwrap();
    everything.into_iter().flat_map(|(key, value)| [key, value].concat()).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
