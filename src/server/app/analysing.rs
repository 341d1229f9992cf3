//! Opens the analyses with their sources and with the masks that keep secrets out of their requests.

use std::sync::Arc;

use super::masks::PipelineMasks;
use crate::config::{AnalysisEngine, Settings};
use crate::http::{Node, WallClock};
use analysis::fixes::Repositories;
use analysis::llm::{ApiKey, LlmSettings};
use analysis::service::{Analyses, EngineName, Engines, Masks, Sources};
use domain::PipelineKey;
use locks::Environments;
use store::{Store, StoreError};

/// Also resumes the unfinished analyses of the previous run.
pub fn open(
    (settings, node): (&Settings, &Node),
    store: Arc<dyn Store>,
    environments: &Environments,
    masks: Masks,
    repositories: Repositories,
    clock: WallClock,
) -> Result<Analyses, StoreError> {
    let sources = Sources {
        store,
        environments: environments.clone(),
        logs: node.logs.clone(),
        archive: node.archive.clone(),
        masks,
        patches: Arc::new(repositories),
        clock,
        organizations: node.organizations,
    };
    let analyses = Analyses::open(sources, engines(settings))?;
    let resumed = analyses.resume()?;
    if resumed > 0 {
        tracing::info!(analyses = resumed, "resumed unfinished analyses");
    }
    Ok(analyses)
}

fn engines(settings: &Settings) -> Engines {
    let llm = settings.analysis.llm.as_ref().map(|llm| LlmSettings {
        url: llm.url.clone(),
        model: llm.model.clone(),
        key: llm.key.as_ref().map(|key| ApiKey::new(key.reveal())),
        timeout: llm.timeout,
        max_log_bytes: llm.max_log_bytes,
    });
    let default = match settings.analysis.engine {
        AnalysisEngine::Off => None,
        AnalysisEngine::Builtin => Some(EngineName::Builtin),
        AnalysisEngine::Llm => Some(EngineName::Llm),
    };
    Engines { default, llm }
}

/// Masks all secrets that the steps of a pipeline may have seen.
pub fn masks(masks: PipelineMasks) -> Masks {
    Arc::new(move |pipeline: &PipelineKey| {
        let mask = masks.mask(pipeline)?;
        Ok(Arc::new(move |text: &str| mask.apply(text)))
    })
}
