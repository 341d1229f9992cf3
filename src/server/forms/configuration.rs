//! Forms for the configuration of an environment and for a member of an organization.

use super::element::Object;
use super::form;
use super::reader::Reader;
use super::session::{Labels, Seconds};
use super::types::{Integer, Map, example_of, rule_schema, texts};
use domain::{
    CONFIGURATION_BYTES_MAX, CommitId, Configuration, Description, Email, Identifier, Malformed, QUEUE_LENGTH_MAX,
    Role, VARIABLES_MAX, VariableName, VariableValue,
};

pub type Variables = Map<VariableName, VariableValue, VARIABLES_MAX>;
type QueueLength = Integer<0, { QUEUE_LENGTH_MAX as i64 }>;

form! {
    /// The whole configuration: fields that are left out get their defaults. May also be sent as the field
    /// `configuration` of an object without other fields, as in the response for an environment.
    #[schema("examples": [{ "description": "For trying the API", "labels": { "size": "small" }, "defaultTtlSeconds": 900 }])]
    pub struct ConfigurationForm as "ConfigurationRequest" {
        /// A description for people.
        optional description: Description,
        /// Labels for listing environments and for claiming any of them.
        #[schema("examples": [{ "size": "large" }])]
        optional labels: Labels,
        /// Whether a claim that names a commit also deploys it.
        optional(true) deploy_on_claim: bool,
        /// The TTL of a session whose claim gives none; without a default, such a session does not expire.
        #[schema("examples": [900])]
        nullable default_ttl_seconds: Seconds,
        /// The longest TTL that a session may have.
        #[schema("examples": [86400])]
        optional(Seconds::new(Configuration::MAX_TTL_SECONDS as i64)) max_ttl_seconds: Seconds,
        /// How long a session may hold the lock in total; without it, as long as it is active.
        #[schema("examples": [14400])]
        nullable max_hold_seconds: Seconds,
        /// How many sessions may wait for the lock.
        #[schema("examples": [50])]
        optional(QueueLength::new(Configuration::MAX_QUEUE_LENGTH as i64)) max_queue_length: QueueLength,
        /// The lowest role that may take the lock from its holder.
        optional(Role::Developer) force_claim_role: Role,
        /// What is deployed after a release or an expiry, before the next session gets the environment; if that fails,
        /// the environment is disabled.
        nullable on_release: OnReleaseForm,
        /// A disabled environment is not handed out; its holder may finish.
        optional(false) disabled: bool,
        /// Variables for the steps of deployments.
        #[schema("examples": [{ "TIER": "review" }])]
        optional variables: Variables,
    }
    check check_configuration;
}

form! {
    /// How an environment is reset after a release.
    pub struct OnReleaseForm as "OnReleaseRequest" {
        /// The commit, which is deployed like any other.
        #[schema("examples": ["main"])]
        required commit_id: CommitId,
    }
}

fn check_configuration(object: &Object<'_>, form: Option<&ConfigurationForm>, reader: &mut Reader) {
    let Some(form) = form else { return };
    let max = form.max_ttl_seconds.get();
    if let Some(ttl) = form.default_ttl_seconds.filter(|ttl| ttl.get() > max) {
        let message = format!("must be at most {} ({max}), got {}", reader.spell("max_ttl_seconds"), ttl.get());
        reader.field_fault(object, "default_ttl_seconds", message);
    }
    let bytes = form.configuration().bytes();
    if bytes > CONFIGURATION_BYTES_MAX {
        let message = format!(
            "must have at most {CONFIGURATION_BYTES_MAX} bytes together with description and labels, got {bytes}"
        );
        reader.field_fault(object, "variables", message);
    }
}

impl ConfigurationForm {
    pub fn configuration(&self) -> Configuration {
        Configuration {
            description: self.description.clone().unwrap_or_default(),
            labels: self.labels.clone().unwrap_or_default().0,
            deploy_on_claim: self.deploy_on_claim,
            default_ttl_seconds: self.default_ttl_seconds.map(Seconds::u32),
            max_ttl_seconds: self.max_ttl_seconds.u32(),
            max_hold_seconds: self.max_hold_seconds.map(Seconds::u32),
            max_queue_length: self.max_queue_length.u32(),
            on_release: self.on_release.as_ref().map(|reset| reset.commit_id.clone()),
            force_claim_role: self.force_claim_role,
            disabled: self.disabled,
            variables: self.variables.clone().unwrap_or_default().0,
        }
    }
}

/// The name of an environment. In the API's paths, `sessions` is reserved: it stands for any environment.
pub struct EnvironmentName(pub Identifier);

texts! {
    EnvironmentName: parse_environment_name, example_of(rule_schema(&Identifier::RULE), "review-1");
}

fn parse_environment_name(text: &str) -> Result<EnvironmentName, Malformed> {
    match text {
        "sessions" => {
            Err(Malformed("must not be `sessions`, which stands for any environment in the paths of the API"))
        }
        _ => Identifier::parse(text).map(EnvironmentName),
    }
}

form! {
    /// A new member.
    #[schema("examples": [{ "name": "example", "role": "viewer", "email": "example@acme.example" }])]
    pub struct MemberForm as "MemberRequest" {
        /// The member's name, unique in the organization.
        #[schema("examples": ["ana"])]
        required name: Identifier,
        /// What the member may do.
        required role: Role,
        /// The member's address, for people; the server sends nothing to it.
        nullable email: Email,
    }
    unique name;
}
