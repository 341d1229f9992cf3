//! `lockkeeper analyze`: why a deployment failed, and a fix as a pull request.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::deployments::DeploymentName;
use crate::api::{ANSWER_WITHIN, Api, new_key};
use crate::failure::Failure;
use crate::output::text::{Style, harmless, harmless_lines, shown_of};
use crate::output::{Out, fields, items_of, text_of};
use crate::retry::Attempts;
use crate::steady::Moment;

/// How long the server waits for the end of an analysis before it answers without it.
const WAIT_SECONDS: u64 = 50;
/// A model may take minutes, and so may a push; beyond this, check the server's log.
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);

#[derive(clap::Args)]
pub struct Args {
    /// The deployment (dep_…), or an environment: its newest deployment [default: LOCKKEEPER_ENVIRONMENT]
    #[arg(value_name = "DEPLOYMENT|ENV")]
    deployment: Option<DeploymentName>,
    /// Propose the suggested fix as a pull request
    #[arg(long)]
    fix: bool,
    /// The engine: builtin, or llm if the server has a model [default: the server's]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// The branch of the pull request
    #[arg(long, value_name = "BRANCH", requires = "fix")]
    branch: Option<String>,
    /// The title of the pull request
    #[arg(long, value_name = "TEXT", requires = "fix")]
    title: Option<String>,
    /// Make the pull request a draft
    #[arg(long, requires = "fix")]
    draft: bool,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let deployment = DeploymentName::given(args.deployment)?.id(api).await?;
    let began = Moment::now();
    let body = json!({ "engine": args.engine, "waitSeconds": WAIT_SECONDS });
    let made = ask(api, Method::POST, &format!("/deployments/{deployment}/analyses"), Some(body)).await?;
    let path = format!("/analyses/{}", text_of(&made, "analysisId"));
    let mut analysis = if text_of(&made, "status") == "running" { ended(api, &path, began).await? } else { made };
    if text_of(&analysis, "status") == "failed" {
        return Err(Failure::Failed(format!("the analysis failed: {}", shown_of(&analysis, "error"))));
    }
    if args.fix {
        let wish = json!({ "branch": args.branch, "title": args.title, "draft": args.draft });
        ask(api, Method::POST, &format!("{path}/fix-pull-request"), Some(wish)).await?;
        // A push may continue after the answer. This is no failure, but many may wait for one forge, so the pauses
        // grow.
        let mut attempts = Attempts::new(WAIT_MAX);
        loop {
            analysis = ask(api, Method::GET, &path, None).await?;
            if !analysis["pullRequest"].is_null() {
                break;
            }
            check_time(began, &path)?;
            attempts.wait().await;
        }
    }
    out.record(&analysis, |analysis| lines(analysis, out))
}

/// The analysis, once it has ended.
async fn ended(api: &Api, path: &str, began: Moment) -> Result<Value, Failure> {
    let mut etag = None::<String>;
    loop {
        let answer = api.poll(path, etag.as_deref(), WAIT_SECONDS, api.patience).await?;
        if !matches!(text_of(&answer.data, "status"), "" | "running") {
            return Ok(answer.data);
        }
        etag = answer.etag.or(etag);
        check_time(began, path)?;
    }
}

/// A request that may take longer than usual to answer.
async fn ask(api: &Api, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
    let mut call = api.call(method, path);
    call.timeout = ANSWER_WITHIN + Duration::from_secs(WAIT_SECONDS);
    call.key = body.is_some().then(new_key);
    call.body = body;
    Ok(api.send(call).await?.data)
}

fn check_time(began: Moment, path: &str) -> Result<(), Failure> {
    if Moment::now().since(began) < WAIT_MAX {
        return Ok(());
    }
    let minutes = WAIT_MAX.as_secs() / 60;
    Err(Failure::NotGrantedInTime(format!("no result after {minutes} minutes; look at {} later", harmless(path))))
}

fn lines(analysis: &Value, out: &Out) -> Vec<String> {
    let (cause, fix, made) = (&analysis["rootCause"], &analysis["suggestedFix"], &analysis["pullRequest"]);
    let confidence = |of: &Value| of["confidence"].as_f64().map(|confidence| format!("{:.0} %", confidence * 100.0));
    let category = |of: &Value| shown_of(of, "category").replace('_', " ");
    let mut lines = vec![out.paint(&shown_of(cause, "summary"), Style::Strong), String::new()];
    lines.extend(fields(&[
        ("category", category(cause)),
        ("confidence", confidence(analysis).unwrap_or_default()),
        ("engine", shown_of(analysis, "engine")),
        ("last success", shown_of(&analysis["comparedWith"], "commitId")),
        ("analysis", shown_of(analysis, "analysisId")),
    ]));
    let evidence = items_of(&cause["evidence"]);
    if !evidence.is_empty() {
        lines.extend([String::new(), "Evidence:".to_owned()]);
        lines.extend(evidence.iter().map(|line| {
            let place = format!("{}/{} line {}", text_of(line, "stage"), text_of(line, "step"), line["line"]);
            format!("  {}  {}", out.paint(&harmless(&place), Style::Dim), shown_of(line, "text"))
        }));
    }
    let others = items_of(&analysis["alternatives"]);
    if !others.is_empty() {
        lines.extend([String::new(), "Other possible causes:".to_owned()]);
        lines.extend(others.iter().map(|other| {
            let share = confidence(other).unwrap_or_else(|| "0 %".to_owned());
            let shown = out.paint(&format!("{}, {share}", category(other)), Style::Dim);
            format!("  {shown}  {}", shown_of(other, "summary"))
        }));
    }
    if !fix.is_null() {
        lines.extend([String::new(), format!("Suggested fix: {}", shown_of(fix, "summary"))]);
        lines.extend(patch(text_of(fix, "patch"), out));
    }
    if !made.is_null() {
        let (url, branch) = (shown_of(made, "url"), shown_of(made, "branch"));
        lines.extend([String::new(), format!("Pull request: {url} (branch {branch})")]);
    }
    lines
}

/// A unified diff with colours.
fn patch(text: &str, out: &Out) -> Vec<String> {
    let text = harmless_lines(text);
    let coloured = text.lines().map(|line| match line.as_bytes().first() {
        Some(b'+') => out.paint(line, Style::Good),
        Some(b'-') => out.paint(line, Style::Bad),
        Some(_) | None => line.to_owned(),
    });
    (!text.is_empty()).then(String::new).into_iter().chain(coloured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_analysis_shows_cause_evidence_and_fix() {
        let analysis = json!({
            "analysisId": "anl_1", "engine": "builtin", "confidence": 0.97,
            "rootCause": { "category": "missing_command", "summary": "`jq` is not installed",
                "evidence": [{ "stage": "build", "step": "step-1", "line": 4, "text": "sh: \u{1b}[2Jjq: not found" }] },
            "alternatives": [{ "category": "missing_file", "summary": "`a` does not exist", "confidence": 0.2, "evidence": [] }],
            "suggestedFix": { "summary": "install jq", "patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" },
            "pullRequest": { "url": "https://git.example/7", "branch": "fix/jq", "number": 7 },
        });
        let out = Out { json: false, colour: false, terminal: false };
        let text = lines(&analysis, &out).join("\n");
        assert_eq!(
            text,
            "`jq` is not installed\n\ncategory:     missing command\nconfidence:   97 %\nengine:       builtin\nanalysis:     anl_1\n\n\
             Evidence:\n  build/step-1 line 4  sh: \u{fffd}[2Jjq: not found\n\nOther possible causes:\n  missing file, 20 %  `a` does not exist\n\nSuggested fix: install jq\n\n--- a/x\n+++ b/x\n\
             @@ -1 +1 @@\n-a\n+b\n\nPull request: https://git.example/7 (branch fix/jq)"
        );
    }
}
