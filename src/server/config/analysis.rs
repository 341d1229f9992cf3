//! The settings of the analysis of failed deployments.

use std::time::Duration;

use super::kinds::{choice, kibibytes, name, seconds, secret_text, url};
use super::layers::{Layers, section};
use accounts::secrets::SecretValue;
use domain::named::named_enum;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    pub engine: AnalysisEngine,
    /// `None` if no model is configured.
    pub llm: Option<AnalysisLlm>,
}

named_enum! {
    pub enum AnalysisEngine {
        Builtin = "builtin",
        Llm = "llm",
        Off = "off",
    }
}

section! {
    pub struct AnalysisLlm {
        pub url: String = get("analysis.llm_url", url()),
        pub model: String = get("analysis.llm_model", name(256)),
        pub key: Option<SecretValue> = secret("analysis.llm_key", secret_text()),
        pub timeout: Duration = get("analysis.llm_timeout_seconds", seconds(1, 600)),
        pub max_log_bytes: usize = get("analysis.llm_max_log_kb", kibibytes(1, 4_096).map(|bytes| bytes as usize)),
    }
}

impl Analysis {
    pub(super) fn read(layers: &mut Layers<'_>) -> Self {
        let engine = layers.get("analysis.engine", choice(AnalysisEngine::ALL, AnalysisEngine::as_str));
        let llm = AnalysisLlm::read(layers);
        let missing = match (llm.url.is_empty(), llm.model.is_empty()) {
            (false, false) => return Self { engine, llm: Some(llm) },
            (true, true) if engine != AnalysisEngine::Llm => return Self { engine, llm: None },
            (true, _) => "LOCKKEEPER_ANALYSIS_LLM_URL",
            (false, true) => "LOCKKEEPER_ANALYSIS_LLM_MODEL",
        };
        layers.missing(missing, ", nor its key in a file: a model takes both analysis.llm_url and analysis.llm_model");
        Self { engine, llm: None }
    }
}
