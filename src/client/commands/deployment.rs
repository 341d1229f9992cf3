//! The deployment that a command refers to: by its id, or as the newest of an environment.

use std::str::FromStr;

use crate::api::Api;
use crate::arguments::{EnvironmentName, identifier};
use crate::connection::options::variable;
use crate::failure::Failure;
use crate::output::text_of;

/// A deployment as typed by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentName {
    Id(String),
    NewestOf(EnvironmentName),
}

impl FromStr for DeploymentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("dep_") {
            return identifier(text).map(Self::Id);
        }
        text.parse().map(Self::NewestOf)
    }
}

impl DeploymentName {
    /// The given one, or else that of the environment in which a command runs.
    pub fn given(name: Option<Self>) -> Result<Self, Failure> {
        if let Some(name) = name {
            return Ok(name);
        }
        let Some(environment) = variable("LOCKKEEPER_ENVIRONMENT") else {
            return Err(Failure::Usage("name a deployment (dep_…) or an environment".to_owned()));
        };
        environment.parse().map_err(|rule| Failure::Usage(format!("LOCKKEEPER_ENVIRONMENT {rule}")))
    }

    /// Its id. For an environment, that of the running deployment, or else of the last one.
    pub async fn id(&self, api: &Api) -> Result<String, Failure> {
        let environment = match self {
            Self::Id(id) => return Ok(id.clone()),
            Self::NewestOf(environment) => environment,
        };
        let found = api.get(&api.environment_path(environment).await?).await?.data;
        let newest = [&found["currentDeployment"], &found["lastDeployment"]].into_iter().find(|it| !it.is_null());
        let Some(newest) = newest else {
            return Err(Failure::NotFound(format!("nothing was deployed to {} yet", environment.name)));
        };
        identifier(text_of(newest, "deploymentId"))
            .map_err(|_| Failure::Unreachable("the server's answer has no deployment id".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_named_by_its_id_or_its_environment() {
        assert_eq!("dep_01a1".parse(), Ok(DeploymentName::Id("dep_01a1".to_owned())));
        let review = EnvironmentName { pipeline: Some("web".to_owned()), name: "review-1".to_owned() };
        assert_eq!("web/review-1".parse(), Ok(DeploymentName::NewestOf(review)));
        for wrong in ["", "dep_../x", "a/b/c", "dep_1?x"] {
            assert!(wrong.parse::<DeploymentName>().is_err(), "{wrong}");
        }
    }
}
