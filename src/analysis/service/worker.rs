//! Runs analyses: each in a separate task, which waits for a place, asks the engine and stores the outcome.

use std::time::Duration;

use super::super::builtin::Builtin;
use super::super::llm::Llm;
use super::super::record::{Analysis, AnalysisError, Standing, Status};
use super::super::{Case, Compared, EngineName, Finding, SuggestedFix, edits};
use super::{Analyses, AnalysisFilter, case};
use ambient::backoff::{Backoff, Retries};
use domain::{AnalysisCompletedData, EventData, Identifier};
use events::Cause;
use store::{Batch, StoreError};

/// The first and the longest pause after a failure to store an outcome.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

impl Analyses {
    /// Runs the analyses that the last run of the server left unfinished; returns how many.
    pub fn resume(&self) -> Result<usize, StoreError> {
        let organizations: Vec<Identifier> =
            self.inner.index.with_newest(|index| index.organizations.keys().cloned().collect());
        let unfinished = AnalysisFilter { status: Some(Status::Running), ..AnalysisFilter::default() };
        let mut taken_up = 0;
        for organization in organizations {
            for analysis in self.list(&organization, &unfinished, 0, u64::MAX)?.analyses {
                self.run(analysis);
                taken_up += 1;
            }
        }
        Ok(taken_up)
    }

    /// Stops running analyses; the next start runs them again.
    pub fn close(&self) {
        self.inner.closed.send_replace(true);
    }

    pub(super) fn run(&self, analysis: Analysis) {
        let analyses = self.clone();
        self.inner.runtime.spawn(async move {
            let mut closed = analyses.inner.closed.subscribe();
            let conclude = analyses.conclude(analysis);
            tokio::select! {
                () = conclude => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }

    async fn conclude(&self, analysis: Analysis) {
        let organization = &analysis.environment.pipeline.organization;
        let Ok(_place) = self.inner.places.acquire(organization).await else { return };
        let Some(standing) = self.look(&analysis).await else { return };
        let mut retries = Retries::new(BACKOFF);
        loop {
            let standing = standing.clone();
            let recorded = self.change(analysis.clone(), |analysis| analysis.standing = standing, record).await;
            match recorded {
                Ok(analysis) => return report_end(&analysis),
                Err(AnalysisError::NotFound | AnalysisError::Store(StoreError::Closed)) => return,
                Err(error) => {
                    let pause = retries.failed();
                    if retries.is_first() {
                        tracing::warn!(analysis = %analysis.id, %error, "cannot store the outcome of an analysis; will retry");
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// None if the server stops meanwhile.
    async fn look(&self, analysis: &Analysis) -> Option<Standing> {
        let (analyses, of, runtime) = (self.clone(), analysis.clone(), self.inner.runtime.clone());
        // On a blocking thread: an engine computes for long, and the case is read from the disk.
        let found = tokio::task::spawn_blocking(move || runtime.block_on(analyses.find(&of))).await;
        let reason = match found {
            Ok(Ok(finding)) => {
                let at = (self.inner.sources.clock)();
                return finding.map(|finding| Standing::Completed { at, report: Box::new(finding) });
            }
            Ok(Err(reason)) => reason,
            Err(error) => {
                tracing::error!(analysis = %analysis.id, %error, "an analysis panicked");
                "internal error; see the server's log".to_owned()
            }
        };
        tracing::warn!(analysis = %analysis.id, deployment = %analysis.deployment, reason, "an analysis failed");
        Some(Standing::Failed { at: (self.inner.sources.clock)(), reason: reason.into() })
    }

    async fn find(&self, analysis: &Analysis) -> Result<Option<Finding>, String> {
        let sources = &self.inner.sources;
        let (organization, id) = (&analysis.environment.pipeline.organization, analysis.deployment);
        let parts = sources.environments.log_parts(organization, id).map_err(|error| error.to_string())?;
        // Without a log, the record of the deployment is still available.
        if let Err(error) = sources.archive.bring(organization, id, &parts).await {
            tracing::warn!(analysis = %analysis.id, deployment = %id, %error, "a log is not complete for an analysis");
        }
        let gathered = case::gather(&sources.environments, &sources.logs, &analysis.environment, analysis.deployment);
        let case = gathered.map_err(|error| error.to_string())?;
        let mut closed = self.inner.closed.subscribe();
        tokio::select! {
            finding = self.find_in(&case, analysis) => Ok(Some(finding)),
            _ = closed.wait_for(|closed| *closed) => Ok(None),
        }
    }

    /// Keeps a patch only if it applies, since it is shown as a working change.
    async fn find_in(&self, case: &Case, of: &Analysis) -> Finding {
        let mut finding = match self.model(of) {
            Some(model) => model.analyse_or_fall_back(case).await,
            None => Builtin.analyse(case).await,
        };
        let compared = case.last_success.as_ref();
        finding.compared_with = compared.map(|s| Compared { deployment: s.deployment, commit: s.commit.clone() });
        let not_shown = |why: String| tracing::info!(analysis = %of.id, why, "a suggested patch is not shown");
        if let Some(fix) = &mut finding.fix
            && let Some(patch) = fix.patch.take()
        {
            let repositories = &self.inner.sources.repositories;
            match repositories.check(&of.environment.pipeline, &case.commit, &patch).await {
                Ok(()) => fix.patch = Some(patch),
                Err(why) => not_shown(why.to_string()),
            }
        } else if finding.engine == EngineName::Builtin {
            match self.written_fix(of, case, &finding).await {
                Ok(None) => {}
                Ok(fix) => finding.fix = fix,
                Err(why) => not_shown(why),
            }
        }
        finding
    }

    /// The change that the log suggests, if it fits a file of the repository.
    async fn written_fix(&self, of: &Analysis, case: &Case, finding: &Finding) -> Result<Option<SuggestedFix>, String> {
        let (sources, pipeline) = (&self.inner.sources, &of.environment.pipeline);
        let edits = edits::called_for(case, finding);
        if edits.is_empty() {
            return Ok(None);
        }
        let written = sources.repositories.write(pipeline, &case.commit, &edits).await;
        let Some(fix) = written.map_err(|error| error.to_string())? else { return Ok(None) };
        // Readers of an analysis may not have access to the repository.
        let mask = (sources.masks)(pipeline)?;
        match &fix.patch {
            Some(patch) if mask(patch) != *patch => Err("it would show a secret".to_owned()),
            _ => Ok(Some(fix)),
        }
    }

    /// The model, if it was requested and is still configured.
    fn model(&self, analysis: &Analysis) -> Option<Llm> {
        let settings = self.inner.engines.llm.clone().filter(|_| analysis.engine == EngineName::Llm)?;
        let made = (self.inner.sources.masks)(&analysis.environment.pipeline)
            .and_then(|mask| Llm::new(settings, move |text: &str| mask(text)).map_err(|error| error.to_string()));
        made.inspect_err(|error| {
            let (id, instead) = (analysis.id, EngineName::Builtin.as_str());
            tracing::warn!(analysis = %id, instead, error, "not asking the model, since its input cannot be masked");
        })
        .ok()
    }
}

/// Records the event that the analysis has ended.
fn record(analysis: &Analysis, batch: &mut Batch) {
    let Some(at) = analysis.completed_at() else { return };
    let data = EventData::AnalysisCompleted(AnalysisCompletedData {
        analysis_id: analysis.id,
        status: analysis.status().as_str(),
        engine: analysis.answered_by().as_str(),
        category: analysis.report().map(|report| report.category.as_str()),
    });
    analysis.record_event(batch, &data, Cause::by(&analysis.requested_by, at));
}

fn report_end(analysis: &Analysis) {
    metrics::counter!("lockkeeper_analyses_total", "outcome" => analysis.status().as_str()).increment(1);
    let (id, deployment, engine) = (analysis.id, analysis.deployment, analysis.answered_by().as_str());
    if let Some(report) = analysis.report() {
        let category = report.category.as_str();
        tracing::info!(analysis = %id, %deployment, engine, category, "analysed a failed deployment");
    }
}
