//! What a model answered, believed only as far as it can be checked.

use serde::Deserialize;

use super::NAME;
use super::prompt::SentLine;
use crate::analysis::{
    Category, EVIDENCE_MAX, EngineError, Evidence, Finding, SUMMARY_CHARACTERS_MAX, SuggestedFix, patch,
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
struct Answer {
    category: String,
    summary: String,
    evidence: Vec<Place>,
    confidence: f64,
    fix: Option<Fix>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
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

/// The body of the answer, and the lines that it may refer to.
pub(super) fn finding(body: &[u8], sent: &[SentLine<'_>]) -> Result<Finding, EngineError> {
    let completion: Completion =
        serde_json::from_slice(body).map_err(|_| EngineError::Answer("it is no chat completion"))?;
    let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
    let content = content.ok_or(EngineError::Answer("it has no text"))?;
    let answer: Answer = serde_json::from_str(&content)
        .map_err(|_| EngineError::Answer("its text is not the JSON that was asked for"))?;
    let category = Category::parse(&answer.category).ok_or(EngineError::Answer("its category is not known"))?;
    if !(0.0..=1.0).contains(&answer.confidence) {
        return Err(EngineError::Answer("its confidence is not between 0 and 1"));
    }
    Ok(Finding {
        engine: NAME,
        category,
        summary: sentence(&answer.summary)?,
        evidence: evidence(&answer.evidence, sent)?,
        confidence: answer.confidence,
        fix: answer.fix.map(suggested).transpose()?,
    })
}

/// Each has to be a line that was sent; its text is taken from there.
fn evidence(places: &[Place], sent: &[SentLine<'_>]) -> Result<Vec<Evidence>, EngineError> {
    if places.len() > EVIDENCE_MAX {
        return Err(EngineError::Answer("it names too many lines"));
    }
    if places.is_empty() && !sent.is_empty() {
        return Err(EngineError::Answer("it names no line"));
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    for place in places {
        let is_meant = |line: &&SentLine<'_>| {
            line.line.number == place.line && line.stage == place.stage && line.step == place.step
        };
        let line = sent.iter().find(is_meant).ok_or(EngineError::Answer("it names a line that does not exist"))?;
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

/// On one line and within its bounds.
fn sentence(text: &str) -> Result<String, EngineError> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sane = (1..=SUMMARY_CHARACTERS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    sane.then_some(text).ok_or(EngineError::Answer("it has a sentence that is empty, too long or not text"))
}
