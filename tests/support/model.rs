//! A minimal server of a model.

use serde_json::{Value, json};

use super::Setup;
use super::recorded::{Recorded, Response};

/// An answer in the form of OpenAI's chat completions API.
pub fn says(answer: &Value) -> Response {
    let message = json!({ "role": "assistant", "content": answer.to_string() });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    Response::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [choice] }))
}

pub fn finding(patch: Option<&str>) -> Value {
    json!({
        "category": "missing_variable",
        "summary": "the answer of a model",
        "evidence": [{ "stage": "build", "step": "step-1", "line": 1 }],
        "confidence": 0.5,
        "fix": { "summary": "set it", "patch": patch },
    })
}

pub fn setup(model: &Recorded) -> Setup {
    Setup::default()
        .variable("LOCKKEEPER_ANALYSIS_ENGINE", "llm")
        .variable("LOCKKEEPER_ANALYSIS_LLM_URL", &format!("{}/v1", model.address))
        .variable("LOCKKEEPER_ANALYSIS_LLM_MODEL", "small")
        .variable("LOCKKEEPER_ANALYSIS_LLM_KEY", "sk-of-the-operator")
}
