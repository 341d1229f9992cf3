//! Stored forms that several parts share. A form stands apart from the value it stores, so that a change of the value
//! cannot silently change the bytes on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    EnvironmentKey, IdSeed, Identifier, LabelValue, Labels, Malformed, Origin, Person, PipelineKey, RequestRef, Role,
    SessionId, Ticket, TokenId, UserId, VariableName, VariableValue,
};
use crate::store::record::stored_enum;

#[derive(Serialize, Deserialize)]
pub struct PersonV1<'a> {
    pub id: [u8; 12],
    pub name: &'a str,
}

#[derive(Serialize, Deserialize)]
pub struct ViaV1<'a> {
    pub token: [u8; 12],
    pub request: &'a str,
}

#[derive(Serialize, Deserialize)]
pub struct PipelineKeyV1<'a> {
    pub organization: &'a str,
    pub pipeline: &'a str,
}

#[derive(Serialize, Deserialize)]
pub struct EnvironmentKeyV1<'a> {
    #[serde(borrow)]
    pub pipeline: PipelineKeyV1<'a>,
    pub name: &'a str,
}

#[derive(Serialize, Deserialize)]
pub struct SessionIdV1 {
    pub seed: [u8; 12],
    pub origin: OriginV1,
}

#[derive(Serialize, Deserialize)]
pub enum OriginV1 {
    Granted(u64),
    Queued(u64),
}

stored_enum!(RoleV1, Role { Viewer, Developer, Maintainer, Admin });

/// Labels or variables.
pub type TextsV1<'a> = BTreeMap<&'a str, &'a str>;

pub fn labels_form(labels: &Labels) -> TextsV1<'_> {
    labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

pub fn labels(form: TextsV1<'_>) -> Result<Labels, Malformed> {
    form.into_iter().map(|(key, value)| Ok((Identifier::parse(key)?, LabelValue::parse(value)?))).collect()
}

pub fn variables_form(variables: &BTreeMap<VariableName, VariableValue>) -> TextsV1<'_> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub fn variables(form: TextsV1<'_>) -> Result<BTreeMap<VariableName, VariableValue>, Malformed> {
    form.into_iter().map(|(name, value)| Ok((VariableName::parse(name)?, VariableValue::parse(value)?))).collect()
}

impl<'a> From<&'a Person> for PersonV1<'a> {
    fn from(person: &'a Person) -> Self {
        Self { id: person.id.0.0, name: &person.name }
    }
}

impl From<PersonV1<'_>> for Person {
    fn from(form: PersonV1<'_>) -> Self {
        Self { id: UserId(IdSeed(form.id)), name: Arc::from(form.name) }
    }
}

impl<'a> From<&'a RequestRef> for ViaV1<'a> {
    fn from(via: &'a RequestRef) -> Self {
        Self { token: via.token.0.0, request: &via.request }
    }
}

impl From<ViaV1<'_>> for RequestRef {
    fn from(form: ViaV1<'_>) -> Self {
        Self { token: TokenId(IdSeed(form.token)), request: Arc::from(form.request) }
    }
}

impl From<SessionId> for SessionIdV1 {
    fn from(id: SessionId) -> Self {
        let origin = match id.origin {
            Origin::Granted(token) => OriginV1::Granted(token),
            Origin::Queued(Ticket(ticket)) => OriginV1::Queued(ticket),
        };
        Self { seed: id.seed.0, origin }
    }
}

impl From<SessionIdV1> for SessionId {
    fn from(form: SessionIdV1) -> Self {
        let origin = match form.origin {
            OriginV1::Granted(token) => Origin::Granted(token),
            OriginV1::Queued(ticket) => Origin::Queued(Ticket(ticket)),
        };
        Self { seed: IdSeed(form.seed), origin }
    }
}

impl<'a> From<&'a PipelineKey> for PipelineKeyV1<'a> {
    fn from(key: &'a PipelineKey) -> Self {
        Self { organization: key.organization.as_str(), pipeline: key.pipeline.as_str() }
    }
}

impl TryFrom<PipelineKeyV1<'_>> for PipelineKey {
    type Error = Malformed;

    fn try_from(form: PipelineKeyV1<'_>) -> Result<Self, Malformed> {
        Ok(Self { organization: Identifier::parse(form.organization)?, pipeline: Identifier::parse(form.pipeline)? })
    }
}

impl<'a> From<&'a EnvironmentKey> for EnvironmentKeyV1<'a> {
    fn from(key: &'a EnvironmentKey) -> Self {
        Self { pipeline: (&key.pipeline).into(), name: key.name.as_str() }
    }
}

impl TryFrom<EnvironmentKeyV1<'_>> for EnvironmentKey {
    type Error = Malformed;

    fn try_from(form: EnvironmentKeyV1<'_>) -> Result<Self, Malformed> {
        Ok(Self { pipeline: form.pipeline.try_into()?, name: Identifier::parse(form.name)? })
    }
}
