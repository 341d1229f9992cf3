//! One organization as a file declares it: its members, sign-ins of members and jobs, pipelines and their environments.
//! Also a step of a registry as a file of its repository: the fields of the API in snake_case.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use super::document::{Document, element};
use super::fault::{Fault, SourceLocation};
use super::sign_ins::{IdentityForm, ProviderForm, check_rule_names, providers, trusted_issuer};
use crate::forms::{
    ConfigurationForm, EnvironmentName, Form, List, MemberForm, Name, Object, ObjectForm, PipelineForm, Reader,
    RegistryStepForm, Spelling, choices, form,
};
use accounts::auth::MEMBERS_MAX;
use accounts::identities::{ISSUERS_MAX, TrustedIssuer};
use accounts::sso::{PROVIDERS_MAX, Provider};
use domain::named::named_enum;
use domain::{Blueprint, Configuration, Email, Identifier, RegistryStep, Role};
use locks::pipelines::{Definition, PIPELINES_MAX, Repository};

/// The environments of a pipeline are listed in one response.
const ENVIRONMENTS_MAX: usize = 100_000;

named_enum! {
    /// The handling of pipelines and environments that the file declared earlier and no longer declares.
    pub enum Prune {
        /// Both are kept, and logged.
        Report = "report",
        /// Both are removed; held environments, after their release.
        Apply = "apply",
    }
}

choices! {
    Prune as "Prune": "The handling of pipelines and environments that are no longer declared.";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    pub id: Identifier,
    pub name: String,
    pub prune: Prune,
    /// Includes at least one admin.
    pub members: Vec<Member>,
    /// For single sign-on.
    pub providers: Vec<Provider>,
    /// The issuers whose identity tokens jobs can exchange.
    pub identities: Vec<TrustedIssuer>,
    pub pipelines: Vec<Pipeline>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: Identifier,
    pub role: Role,
    pub email: Option<Email>,
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

form! {
    pub(super) struct OrganizationFile {
        required organization: OrganizationForm,
        optional(List::default()) members: List<MemberForm, 0, MEMBERS_MAX>,
        optional(List::default()) providers: List<ProviderForm, 0, PROVIDERS_MAX>,
        optional(List::default()) identities: List<IdentityForm, 0, ISSUERS_MAX>,
        optional(List::default()) pipelines: List<DeclaredPipelineForm, 0, PIPELINES_MAX>,
    }
    check check_organization;
}

form! {
    pub(super) struct OrganizationForm {
        required id: Identifier,
        optional name: Name,
        optional prune: Prune,
    }
}

form! {
    pub(super) struct DeclaredPipelineForm {
        required id: Identifier,
        flatten pipeline: PipelineForm,
        optional(List::default()) environments: List<EnvironmentForm, 0, ENVIRONMENTS_MAX>,
    }
    unique id;
}

form! {
    pub(super) struct EnvironmentForm {
        required name: EnvironmentName,
        flatten configuration: ConfigurationForm,
    }
    unique name;
}

fn check_organization(object: &Object<'_>, form: Option<&OrganizationFile>, reader: &mut Reader) {
    let Some(form) = form else { return };
    if !form.members.0.iter().any(|member| member.role == Role::Admin) {
        reader.field_fault(object, "members", "must have at least one with role = \"admin\"");
    }
    check_rule_names(object, &form.identities.0, &form.members.0, reader);
}

/// Any of these tables identifies an organization file, so that a missing `[organization]` is reported as such.
pub(super) fn declares_one(table: &DeTable<'_>) -> bool {
    let mut declares_one = false;
    OrganizationFile::each_name(&mut |name| declares_one |= table.contains_key(name));
    declares_one
}

/// All organizations whose files have no faults, each with its file.
pub(super) fn read_all(files: Vec<(PathBuf, SourceLocation)>, faults: &mut Vec<Fault>) -> Vec<(PathBuf, Organization)> {
    let mut first_ids = HashMap::new();
    let mut organizations = Vec::with_capacity(files.len());
    for (path, named_at) in files {
        let document = match Document::read(&path) {
            Ok(document) => document,
            Err(reason) => {
                faults.push(unreadable(&path, named_at, &reason));
                continue;
            }
        };
        let Some((organization, location)) = read(&document, faults) else {
            continue;
        };
        if let Some(first) = first_ids.get(&organization.id) {
            let message = format!("organization.id `{}` is taken: {first} has it", organization.id);
            faults.push(Fault::new(location, message));
            continue;
        }
        first_ids.insert(organization.id.clone(), location);
        organizations.push((path, organization));
    }
    organizations
}

fn unreadable(path: &Path, named_at: SourceLocation, reason: &str) -> Fault {
    let from = match named_at {
        SourceLocation::Variable(_) => "the working directory",
        SourceLocation::File(_) | SourceLocation::Line(..) | SourceLocation::Column(..) | SourceLocation::Flag(_) => {
            "the file that names it"
        }
    };
    let message = format!("organizations: cannot read `{}`: {reason}", path.display());
    Fault::new(named_at, format!("{message}; a relative path starts from {from}"))
}

/// The organization of a document, and the location of its id; `None` if it has faults.
pub(super) fn read(document: &Document, faults: &mut Vec<Fault>) -> Option<(Organization, SourceLocation)> {
    let table = document.parse().map_err(|syntax| faults.extend(syntax)).ok()?;
    let root = element(&table);
    let mut reader = Reader::new(Spelling::Snake);
    let file = OrganizationFile::read(&root, &mut reader);
    if reader.has_faults() {
        faults.append(&mut document.faults(reader));
        return None;
    }
    let root = reader.object(&root)?;
    let head = reader.object(root.get("organization")?)?;
    let mut file = file?;
    let providers = providers(std::mem::take(&mut file.providers.0), &root, document, faults)?;
    Some((organization(file, providers), document.line(head.at_of("id"))))
}

fn organization(file: OrganizationFile, providers: Vec<Provider>) -> Organization {
    let OrganizationFile { organization, members, providers: _, identities, pipelines } = file;
    let OrganizationForm { id, name, prune } = organization;
    let member = |MemberForm { name, role, email }| Member { name, role, email };
    Organization {
        name: name.map_or_else(|| id.to_string(), |name| name.0.to_string()),
        id,
        prune: prune.unwrap_or(Prune::Report),
        members: members.0.into_iter().map(member).collect(),
        providers,
        identities: identities.0.into_iter().map(trusted_issuer).collect(),
        pipelines: pipelines.0.into_iter().map(pipeline).collect(),
    }
}

fn pipeline(form: DeclaredPipelineForm) -> Pipeline {
    let DeclaredPipelineForm { id, pipeline, environments } = form;
    let Definition { name, slug, blueprint, repository } = pipeline.definition(&id);
    let environment =
        |form: EnvironmentForm| Environment { configuration: form.configuration.configuration(), name: form.name.0 };
    let environments = environments.0.into_iter().map(environment).collect();
    Pipeline { id, name, slug, blueprint, repository, environments }
}

/// The step, or all its faults with their lines.
pub fn read_step(text: &str) -> Result<RegistryStep, Vec<String>> {
    let document = Document::new(Path::new(""), text.to_owned());
    let lines = |faults: Vec<Fault>| faults.iter().map(Fault::within_file).collect::<Vec<_>>();
    let table = document.parse().map_err(lines)?;
    let mut reader = Reader::new(Spelling::Snake);
    let step = RegistryStepForm::read(&element(&table), &mut reader).and_then(|form| form.step());
    match step {
        Some(step) if !reader.has_faults() => Ok(step),
        Some(_) | None => Err(lines(document.faults(reader))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{Action, InputKind};

    #[test]
    fn a_file_is_a_step_with_its_inputs() {
        let step = read_step(
            r#"
            name = "build"
            version = "1.2.0"
            description = "Builds it"
            run = ["make", "all"]
            [inputs]
            TARGET = { type = "string", required = true }
            JOBS = { type = "number", default = 4 }
            RATIO = { type = "number", default = 0.5 }
            [inputs.QUICK]
            type = "boolean"
            default = false
            "#,
        )
        .unwrap();
        assert_eq!(
            (step.name.as_str(), step.version.as_str(), step.description.as_str()),
            ("build", "1.2.0", "Builds it")
        );
        assert!(matches!(&step.action, Action::Run(arguments) if arguments.len() == 2));
        let inputs: Vec<_> = step
            .inputs
            .iter()
            .map(|(name, input)| {
                (name.as_str(), input.kind, input.required, input.default.as_ref().map(|d| d.text().as_str()))
            })
            .collect();
        let expected = [
            ("JOBS", InputKind::Number, false, Some("4")),
            ("QUICK", InputKind::Boolean, false, Some("false")),
            ("RATIO", InputKind::Number, false, Some("0.5")),
            ("TARGET", InputKind::String, true, None),
        ];
        assert_eq!(inputs, expected);
    }

    #[test]
    fn a_request_is_a_step_too() {
        let step =
            read_step("name = \"call\"\nversion = \"1\"\nhttp = { url = \"https://x.example\", expect_status = 204 }");
        assert!(matches!(step.unwrap().action, Action::Http(call) if call.expect_status == [204]));
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_line() {
        let faults = read_step(
            "name = \"a b\"\nrun = []\nhttp = { url = \"ftp://x\" }\ncolour = 1\n[inputs]\n1A = { type = \"text\" }\n\
             B = { type = \"number\", default = \"4\" }\nC = { type = \"string\", required = true, default = \"x\" }\nD = 7\n",
        )
        .unwrap_err();
        let said = faults.join("\n");
        for part in [
            "version is required",
            "line 1: name must be 1 to 63",
            "line 2: run must have",
            "line 3: http.url must be",
            "line 4: colour is not a known key",
            "line 6: inputs.1A is not a valid name: must be",
            "line 6: inputs.1A.type must be one of string, number, boolean",
            "line 7: inputs.B.default must be a number, got a string",
            "line 8: inputs.C.default is never used",
            "line 9: inputs.D must be a table",
            "run must not be combined with `http`",
        ] {
            assert!(said.contains(part), "{part} is not in:\n{said}");
        }
        assert!(read_step("name = ").unwrap_err()[0].starts_with("line 1: not TOML"));
    }
}
