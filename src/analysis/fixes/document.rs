//! An analysis as a document for people, and as a commit message. Text from a log or a model is fenced and cannot
//! escape from its fence: Markdown, HTML, mentions and closing keywords in it have no effect.

use std::fmt::Write;

use crate::service::Analysis;

pub struct Document<'a> {
    pub analysis: &'a Analysis,
    /// Masks secrets. Logs are masked when written; everything that leaves the server is masked again.
    pub mask: &'a (dyn Fn(&str) -> String + Send + Sync),
}

/// Neither the title nor the message contains text from a log.
pub fn title(analysis: &Analysis) -> String {
    let category = analysis.report().map_or("unknown", |report| report.category.as_str());
    format!("Fix the failed deployment of {} ({category})", analysis.environment)
}

pub fn message(analysis: &Analysis, title: &str) -> String {
    let (deployment, id) = (analysis.deployment, analysis.id);
    format!("{title}\n\nLockkeeper-Deployment: {deployment}\nLockkeeper-Analysis: {id}\n")
}

impl Document<'_> {
    /// `not_applied`: why the attached patch is not applied.
    pub fn text(&self, not_applied: Option<&str>) -> String {
        let analysis = self.analysis;
        let mut text = format!("# Why {} failed\n\n", analysis.deployment);
        text += &format!("- Environment: `{}`\n- Analysis: `{}`\n", analysis.environment, analysis.id);
        let Some(report) = analysis.report() else { return text };
        text += &format!("- Category: `{}`\n- Engine: `{}`\n", report.category, report.engine.as_str());
        text += &format!("- Confidence: {:.0}%\n", report.confidence * 100.0);
        if let Some(compared) = &report.compared_with {
            text += &format!("- Compared with: `{}`, which succeeded\n", compared.deployment);
        }
        text += "\n## Root cause\n\n";
        self.fence(&report.summary, &mut text);
        if !report.evidence.is_empty() {
            text += "\n## Evidence\n";
        }
        for line in &report.evidence {
            text += &format!("\nStage `{}`, step `{}`, line {}:\n\n", line.stage, line.step, line.line);
            self.fence(&line.text, &mut text);
        }
        if let Some(fix) = &report.fix {
            text += "\n## Suggested fix\n\n";
            self.fence(&fix.summary, &mut text);
        }
        if !report.alternatives.is_empty() {
            text += "\n## Other possible causes\n";
        }
        for other in &report.alternatives {
            text += &format!("\n`{}`, confidence {:.0}%:\n\n", other.category, other.confidence * 100.0);
            self.fence(&other.summary, &mut text);
        }
        if let Some(why) = not_applied {
            let patch = format!("{}.patch", analysis.id);
            text += &format!("\nThe patch is attached as `{patch}`. It was not applied:\n\n");
            self.fence(why, &mut text);
        }
        text
    }

    fn fence(&self, content: &str, text: &mut String) {
        let content: String = (self.mask)(content).chars().map(shown).collect();
        let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        // Writing to a string does not fail.
        writeln!(text, "{fence}text\n{}\n{fence}", content.trim_end()).ok();
    }
}

/// Replaces characters that move the cursor or reverse the direction of text.
fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::service::{EngineName, Standing};
    use crate::{Alternative, Category, Evidence, Finding, SuggestedFix};
    use domain::{
        AnalysisId, DeploymentId, EnvironmentKey, IdSeed, Identifier, Initiator, Person, PipelineKey, Timestamp, UserId,
    };

    fn analysis(hostile: &str) -> Analysis {
        let id = |text: &str| Identifier::parse(text).unwrap();
        let report = Finding {
            engine: EngineName::Builtin,
            category: Category::MissingCommand,
            summary: hostile.to_owned(),
            evidence: vec![Evidence { stage: id("build"), step: id("step-1"), line: 7, text: hostile.to_owned() }],
            confidence: 0.934,
            fix: Some(SuggestedFix { summary: hostile.to_owned(), patch: None }),
            compared_with: None,
            alternatives: vec![Alternative {
                category: Category::Timeout,
                summary: hostile.to_owned(),
                evidence: Vec::new(),
                confidence: 0.2,
            }],
        };
        Analysis {
            id: AnalysisId(IdSeed([1; 12])),
            environment: EnvironmentKey {
                pipeline: PipelineKey { organization: id("acme"), pipeline: id("web") },
                name: id("review-1"),
            },
            deployment: DeploymentId(IdSeed([2; 12])),
            engine: EngineName::Builtin,
            requested_by: Initiator { person: Person { id: UserId(IdSeed([3; 12])), name: "ana".into() }, via: None },
            created_at: Timestamp::from_millis(1),
            standing: Standing::Completed { at: Timestamp::from_millis(1), report: Box::new(report) },
            pushing: None,
            pull_request: None,
            revision: 2,
        }
    }

    /// The lines outside every fence.
    fn outside(text: &str) -> Vec<&str> {
        let (mut open, mut outside) = (None, Vec::new());
        for line in text.lines() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            match open {
                None if ticks >= 3 => open = Some(ticks),
                None => outside.push(line),
                Some(length) if ticks >= length && line.trim_start_matches('`').is_empty() => open = None,
                Some(_) => {}
            }
        }
        assert_eq!(open, None, "a fence is left open:\n{text}");
        outside
    }

    #[test]
    fn text_from_a_log_stays_within_its_fence() {
        let hostile = "<script>x</script> @everyone closes #1\n```\n# no head\n````\n![x](https://evil.example)\u{1b}[31m\u{202e}";
        let analysis = analysis(hostile);
        let document = Document { analysis: &analysis, mask: &|text: &str| text.to_owned() };
        let text = document.text(Some(hostile));
        assert_eq!(text.matches("@everyone").count(), 5, "{text}");
        for line in outside(&text) {
            for sign in ["script", "@everyone", "no head", "evil", "#1"] {
                assert!(!line.contains(sign), "{line}");
            }
        }
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
        assert!(!message(&analysis, &title(&analysis)).contains("everyone"));
    }

    #[test]
    fn a_document_names_the_cause_its_evidence_and_the_confidence() {
        let analysis = analysis("sh: jq: not found");
        let document = Document { analysis: &analysis, mask: &|text: &str| text.replace("jq", "***") };
        let text = document.text(None);
        for part in [
            "# Why dep_020202020202020202020202 failed",
            "- Category: `missing_command`",
            "- Confidence: 93%",
            "`timeout`, confidence 20%:",
            "Stage `build`, step `step-1`, line 7:",
            "```text\nsh: ***: not found\n```",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("patch") && !text.contains("jq"));
    }
}
