//! The masks of pipelines: one for each set of secrets in use, for the stages that run with them and for what sends their
//! output elsewhere.

use std::sync::Arc;

use accounts::secrets::{PipelineSecrets, SecretError, SecretValue, SecretVersions, Vault};
use delivery::runner::{Mask, SharedMasks};
use domain::{PipelineKey, VariableName};

/// Cheap to clone.
#[derive(Clone)]
pub struct PipelineMasks {
    vault: Arc<Vault>,
    shared: Arc<SharedMasks<SecretVersions>>,
}

/// The secrets of a pipeline's steps, and the mask that hides them in the output.
pub struct StepSecrets {
    pub by_name: Vec<(VariableName, SecretValue)>,
    /// The error is one sentence.
    pub mask: Result<Mask, String>,
}

impl PipelineMasks {
    pub fn new(vault: Arc<Vault>) -> Self {
        Self { vault, shared: Arc::default() }
    }

    pub fn for_steps(&self, pipeline: &PipelineKey) -> Result<StepSecrets, SecretError> {
        let secrets = self.vault.secrets_for(pipeline)?;
        Ok(StepSecrets { by_name: secrets.by_name()?, mask: self.mask_of(&secrets) })
    }

    /// Masks all secrets that the steps of a pipeline may have seen. The error is one sentence.
    pub fn mask(&self, pipeline: &PipelineKey) -> Result<Mask, String> {
        self.mask_of(&self.vault.secrets_for(pipeline).map_err(|error| error.to_string())?)
    }

    fn mask_of(&self, secrets: &PipelineSecrets) -> Result<Mask, String> {
        self.shared.get(secrets.versions(), || {
            let values = secrets.values().map_err(|error| error.to_string())?;
            Mask::new(values.iter().map(|value| value.reveal()))
        })
    }
}
