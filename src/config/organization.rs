//! One organization as a file declares it: its members, its pipelines and their environments.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::domain::{
    Blueprint, CONFIGURATION_BYTES_MAX, CommitId, Configuration, Description, Identifier, LABELS_MAX, LabelValue,
    Malformed, QUEUE_LENGTH_MAX, Role, SECONDS_MAX, VARIABLES_MAX, VariableName, VariableValue,
};

use crate::auth::MEMBERS_MAX;
use crate::pipelines::{PIPELINES_MAX, Repository, parse_name};

use super::blueprint;
use super::document::{Document, Section};
use super::fault::{Fault, Place, nearest};

/// The list of a pipeline's environments is one answer.
const ENVIRONMENTS_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    pub id: Identifier,
    pub name: String,
    /// One of them at least is an admin.
    pub members: Vec<Member>,
    pub pipelines: Vec<Pipeline>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: Identifier,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    pub id: Identifier,
    pub name: String,
    pub slug: Identifier,
    pub blueprint: Arc<Blueprint>,
    pub repository: Option<Repository>,
    pub environments: Vec<Environment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub name: Identifier,
    pub configuration: Configuration,
}

/// The top-level keys of an organization file, by which it is also told from a settings file.
pub(super) const TOP_LEVEL: [&str; 3] = ["organization", "members", "pipelines"];

/// What a document declares, and where its id stands; `None` where that left faults.
pub(super) fn read(document: &Document, faults: &mut Vec<Fault>) -> Option<(Organization, Place)> {
    let table = document.parse().map_err(|syntax| faults.extend(syntax)).ok()?;
    let mut found = Vec::new();
    let organization = read_organization(Section::root(document, &table), &mut found);
    let clean = found.is_empty();
    // Tables come in alphabetical order; the operator reads from the top.
    found.sort_by_key(|fault| fault.place.line());
    faults.append(&mut found);
    organization.filter(|_| clean)
}

fn read_organization(root: Section<'_>, faults: &mut Vec<Fault>) -> Option<(Organization, Place)> {
    root.refuse_keys_other_than(&TOP_LEVEL, faults);
    let head = root.section("organization", faults);
    let (mut id, mut name) = (None, None);
    if let Some(head) = head {
        head.refuse_keys_other_than(&["id", "name"], faults);
        id = head.required("id", Identifier::parse, faults);
        name = head.optional("name", parse_name, faults);
    }
    let members = read_members(root, head, faults);
    let pipelines = read_pipelines(root, faults);
    let id = id?;
    let organization = Organization { name: name.unwrap_or_else(|| id.to_string()), id, members, pipelines };
    Some((organization, head?.place_of("id")))
}

fn read_members(root: Section<'_>, head: Option<Section<'_>>, faults: &mut Vec<Fault>) -> Vec<Member> {
    let found_before = faults.len();
    let sections = root.sections("members", "members", faults);
    refuse_more_than(MEMBERS_MAX, "members", &sections, faults);
    let mut seen = Seen::default();
    let mut members = Vec::with_capacity(sections.len());
    for section in sections {
        section.refuse_keys_other_than(&["name", "role"], faults);
        let name = section.required("name", Identifier::parse, faults);
        let role = section.required("role", parse_role, faults);
        seen.refuse_again(&name, "members.name", section.place_of("name"), faults);
        members.extend(name.zip(role).map(|(name, role)| Member { name, role }));
    }
    // Where there are faults, one of them may be the admin.
    if faults.len() == found_before && !members.iter().any(|member| member.role == Role::Admin) {
        let place = head.unwrap_or(root).place();
        let message = "no member is an admin; at least one [[members]] must have role = \"admin\"";
        faults.push(Fault::new(place, message.to_owned()));
    }
    members
}

/// The keys of a pipeline, named as in the API but for the underscores.
pub(super) const PIPELINE_KEYS: [&str; 8] =
    ["id", "name", "slug", "stages", "variables", "self_approval", "repository", "environments"];

fn read_pipelines(root: Section<'_>, faults: &mut Vec<Fault>) -> Vec<Pipeline> {
    let sections = root.sections("pipelines", "pipelines", faults);
    refuse_more_than(PIPELINES_MAX, "pipelines", &sections, faults);
    let mut seen = Seen::default();
    let mut pipelines = Vec::with_capacity(sections.len());
    for section in sections {
        section.refuse_keys_other_than(&PIPELINE_KEYS, faults);
        let id = section.required("id", Identifier::parse, faults);
        let name = section.optional("name", parse_name, faults);
        let slug = section.optional("slug", Identifier::parse, faults);
        seen.refuse_again(&id, "pipelines.id", section.place_of("id"), faults);
        let blueprint = Arc::new(blueprint::read(section, faults));
        let repository = blueprint::read_repository(section, faults);
        let environments = read_environments(section, faults);
        pipelines.extend(id.map(|id| Pipeline {
            name: name.unwrap_or_else(|| id.to_string()),
            slug: slug.unwrap_or_else(|| id.clone()),
            id,
            blueprint,
            repository,
            environments,
        }));
    }
    pipelines
}

fn read_environments(pipeline: Section<'_>, faults: &mut Vec<Fault>) -> Vec<Environment> {
    let sections = pipeline.sections("environments", "pipelines.environments", faults);
    refuse_more_than(ENVIRONMENTS_MAX, "environments in this pipeline", &sections, faults);
    let mut seen = Seen::default();
    let mut environments = Vec::with_capacity(sections.len());
    for section in sections {
        let name = section.required("name", environment_name, faults);
        seen.refuse_again(&name, "pipelines.environments.name", section.place_of("name"), faults);
        let configuration = read_configuration(section, faults);
        environments.extend(name.map(|name| Environment { name, configuration }));
    }
    environments
}

fn environment_name(text: &str) -> Result<Identifier, Malformed> {
    match text {
        // Nobody could get at it.
        "sessions" => Err(Malformed("is another name than `sessions`, which in the paths of the API stands for any")),
        _ => Identifier::parse(text),
    }
}

/// The keys of an environment: its name, and what the API has of its configuration, under the same names.
pub(super) const ENVIRONMENT_KEYS: [&str; 12] = [
    "name",
    "description",
    "labels",
    "deploy_on_claim",
    "default_ttl_seconds",
    "max_ttl_seconds",
    "max_hold_seconds",
    "max_queue_length",
    "on_release",
    "force_claim_role",
    "disabled",
    "variables",
];

/// What the file leaves out is as the domain has it by default.
fn read_configuration(section: Section<'_>, faults: &mut Vec<Fault>) -> Configuration {
    section.refuse_keys_other_than(&ENVIRONMENT_KEYS, faults);
    let mut configuration = Configuration::default();
    if let Some(description) = section.optional("description", Description::parse, faults) {
        configuration.description = description;
    }
    if let Some(deploy_on_claim) = section.boolean("deploy_on_claim", faults) {
        configuration.deploy_on_claim = deploy_on_claim;
    }
    read_leases(section, &mut configuration, faults);
    if let Some(length) = section.number("max_queue_length", 0..=QUEUE_LENGTH_MAX, faults) {
        configuration.max_queue_length = length;
    }
    configuration.on_release = read_reset(section, faults);
    if let Some(role) = section.optional("force_claim_role", parse_role, faults) {
        configuration.force_claim_role = role;
    }
    if let Some(disabled) = section.boolean("disabled", faults) {
        configuration.disabled = disabled;
    }
    let labels = section.entries("labels", Identifier::parse, LabelValue::parse, LABELS_MAX, faults);
    configuration.labels = labels.into_iter().collect();
    let variables = section.entries("variables", VariableName::parse, VariableValue::parse, VARIABLES_MAX, faults);
    configuration.variables = variables.into_iter().collect();
    let bytes = configuration.bytes();
    if bytes > CONFIGURATION_BYTES_MAX {
        let message = format!("the texts of an environment have {CONFIGURATION_BYTES_MAX} bytes at most, not {bytes}");
        faults.push(Fault::new(section.place(), message));
    }
    configuration
}

fn read_leases(section: Section<'_>, configuration: &mut Configuration, faults: &mut Vec<Fault>) {
    const SECONDS: RangeInclusive<u32> = 1..=SECONDS_MAX;
    configuration.default_ttl_seconds = section.number("default_ttl_seconds", SECONDS, faults);
    configuration.max_hold_seconds = section.number("max_hold_seconds", SECONDS, faults);
    let found_before = faults.len();
    if let Some(max) = section.number("max_ttl_seconds", SECONDS, faults) {
        configuration.max_ttl_seconds = max;
    }
    let max = configuration.max_ttl_seconds;
    // Where the longest TTL is itself wrong, nobody knows what it was meant to allow.
    if let Some(ttl) = configuration.default_ttl_seconds.filter(|ttl| *ttl > max && faults.len() == found_before) {
        let key = "pipelines.environments.default_ttl_seconds";
        let allowed = format!("at most max_ttl_seconds ({max})");
        faults.push(Fault::must_be(section.place_of("default_ttl_seconds"), key, &allowed, Some(&ttl.to_string())));
    }
}

/// A table, as in the API, so that a reset can have more than a commit one day.
fn read_reset(section: Section<'_>, faults: &mut Vec<Fault>) -> Option<CommitId> {
    let form = "{ commit_id = \"…\" }";
    let reset = section.optional_section("on_release", "pipelines.environments.on_release", form, faults)?;
    reset.refuse_keys_other_than(&["commit_id"], faults);
    reset.required("commit_id", CommitId::parse, faults)
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).map_err(|rule| {
        let meant = nearest(text, Role::ALL.map(Role::as_str));
        let advice = meant.map(|meant| format!("; did you mean `{meant}`?"));
        format!("{rule}{}", advice.unwrap_or_default())
    })
}

/// The names that came before, and where.
#[derive(Default)]
pub(super) struct Seen(HashMap<Identifier, Place>);

impl Seen {
    pub(super) fn refuse_again(&mut self, name: &Option<Identifier>, key: &str, place: Place, faults: &mut Vec<Fault>) {
        let Some(name) = name else { return };
        match self.0.get(name).map(Place::line) {
            Some(line) => {
                let first = line.map(|line| format!("; the first is on line {line}")).unwrap_or_default();
                faults.push(Fault::new(place, format!("{key} `{name}` is there twice{first}")));
            }
            None => _ = self.0.insert(name.clone(), place),
        }
    }
}

pub(super) fn refuse_more_than(max: usize, what: &str, sections: &[Section<'_>], faults: &mut Vec<Fault>) {
    if let Some(first_too_many) = sections.get(max) {
        let message = format!("there are {} {what}; at most {max} are allowed", sections.len());
        faults.push(Fault::new(first_too_many.place(), message));
    }
}
