//! Determines why a deployment failed: engines examine its log and status and name a root cause with evidence.
//!
//! Engines turn a [`Case`] into a [`Finding`]; they read no store and know neither running deployments nor HTTP.
//! `builtin` needs only the case and is deterministic, based on `catalogue`; `llm` asks a model on another server, so
//! everything it sends is masked and everything it receives is checked.

pub mod builtin;
mod catalogue;
mod category;
pub mod edits;
mod engine;
pub mod fixes;
pub mod llm;
pub mod patch;
mod plain;
mod record;
pub mod service;

pub use category::Category;
pub use engine::{
    ALTERNATIVES_MAX, Alternative, Case, CaseLine, CaseStage, CaseStep, Compared, EVIDENCE_CHARACTERS_MAX,
    EVIDENCE_MAX, EngineError, EngineName, Evidence, Finding, PATCH_BYTES_MAX, SUMMARY_CHARACTERS_MAX, Success,
    SuggestedFix,
};

use engine::clipped;
