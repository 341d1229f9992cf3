//! What a model answered, believed only as far as it can be checked.

use serde::Deserialize;

use super::prompt::SentLine;
use crate::{
    Category, EVIDENCE_MAX, EngineError, EngineName, Evidence, Finding, SUMMARY_CHARACTERS_MAX, SuggestedFix, patch,
};

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelAnswer {
    category: String,
    summary: String,
    evidence: Vec<LineReference>,
    confidence: f64,
    fix: Option<Fix>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineReference {
    stage: String,
    step: String,
    line: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fix {
    summary: String,
    patch: Option<String>,
}

/// Reads a finding from the body of a response; `sent` are the lines it may refer to.
pub(super) fn finding(body: &[u8], sent: &[SentLine<'_>]) -> Result<Finding, EngineError> {
    let completion: Completion =
        serde_json::from_slice(body).map_err(|_| EngineError::Answer("it is not a chat completion"))?;
    let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
    let content = content.ok_or(EngineError::Answer("it has no text"))?;
    let answer: ModelAnswer =
        serde_json::from_str(&content).map_err(|_| EngineError::Answer("its text is not the requested JSON"))?;
    let category = Category::parse(&answer.category).map_err(|_| EngineError::Answer("its category is unknown"))?;
    if !(0.0..=1.0).contains(&answer.confidence) {
        return Err(EngineError::Answer("its confidence is not between 0 and 1"));
    }
    Ok(Finding {
        engine: EngineName::Llm,
        category,
        summary: sentence(&answer.summary)?,
        evidence: evidence(&answer.evidence, sent)?,
        confidence: answer.confidence,
        fix: answer.fix.map(suggested).transpose()?,
        alternatives: Vec::new(),
    })
}

/// Each must be a line that was sent; its text is taken from there.
fn evidence(references: &[LineReference], sent: &[SentLine<'_>]) -> Result<Vec<Evidence>, EngineError> {
    if references.len() > EVIDENCE_MAX {
        return Err(EngineError::Answer("it names too many lines"));
    }
    if references.is_empty() && !sent.is_empty() {
        return Err(EngineError::Answer("it names no line"));
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    for reference in references {
        let is_referenced = |line: &&SentLine<'_>| {
            line.line.number == reference.line && line.stage == reference.stage && line.step == reference.step
        };
        let line = sent.iter().find(is_referenced).ok_or(EngineError::Answer("it names a line that does not exist"))?;
        let named = Evidence::from(line.line);
        if !evidence.contains(&named) {
            evidence.push(named);
        }
    }
    Ok(evidence)
}

fn suggested(fix: Fix) -> Result<SuggestedFix, EngineError> {
    if let Some(patch) = &fix.patch {
        patch::check(patch).map_err(EngineError::Answer)?;
    }
    Ok(SuggestedFix { summary: sentence(&fix.summary)?, patch: fix.patch })
}

/// One line within the size limit.
fn sentence(text: &str) -> Result<String, EngineError> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_valid = (1..=SUMMARY_CHARACTERS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_valid.then_some(text).ok_or(EngineError::Answer("it has a sentence that is empty, too long or not text"))
}
