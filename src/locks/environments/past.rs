//! Reads the histories of a period: the sessions of an environment in it, and how busy the environments were.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Environments;
use super::reading::Listed;
use domain::{Environment, EnvironmentKey, Period, PeriodIs, PipelineKey, Session, Utilisation};
use store::{StoreError, next_piece};

/// Sessions that are read at once; they lie in pages of eight.
const PIECE: u64 = 128;
/// Sessions that one report reads: about half a second of one processor. Each environment has an equal part of them, its
/// newest.
const SESSIONS_MAX: u64 = 100_000;
/// Of each environment, however many there are: more than a busy one has in a day.
const SESSIONS_EACH: u64 = 256;
/// Environments of one report: their figures are a megabyte or two.
const ENVIRONMENTS_MAX: usize = 2_500;

/// How busy environments were.
pub struct UtilisationFound {
    pub utilisation: Utilisation,
    /// There is more than a report reads: its sums are too low.
    pub truncated: bool,
}

/// How far a history was read.
#[derive(Debug, PartialEq, Eq)]
enum Extent {
    /// Everything of the period that is kept.
    Whole,
    /// As much as was allowed.
    Bounded,
    /// Some of it was dropped meanwhile.
    Trimmed,
}

impl Environments {
    /// The same as [`history`](Self::history), of the sessions that had the lock during the period.
    pub fn history_within(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        period: Period,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Listed<Session>>, StoreError> {
        let mut page = Listed::default();
        let extent = self.each_session_within(key, environment, period, u64::MAX, |session| {
            if page.counts(offset, limit) {
                page.items.push(session);
            }
        })?;
        Ok((extent != Extent::Trimmed).then_some(page))
    }

    /// How busy the environments of these pipelines were.
    pub fn utilisation(&self, pipelines: &[PipelineKey], period: Period) -> Result<UtilisationFound, StoreError> {
        let (found, mut truncated) = self.environments_of(pipelines)?;
        let mut utilisation = Utilisation::new(period);
        let each = (SESSIONS_MAX / (found.len() as u64).max(1)).max(SESSIONS_EACH);
        for (key, environment) in found {
            utilisation.begin(key.clone());
            let is_held = environment.lock.is_some() || environment.leaving.is_some();
            if is_held || environment.last_used.is_some_and(|last| last >= period.from) {
                let add = |session: Session| utilisation.add(&session);
                truncated |= self.each_session_within(&key, &environment, period, each, add)? != Extent::Whole;
            }
        }
        Ok(UtilisationFound { utilisation, truncated })
    }

    /// Up to as many as a report has, and whether there are more.
    #[expect(clippy::type_complexity, reason = "pairs of a key and a view, as lists have them")]
    fn environments_of(
        &self,
        pipelines: &[PipelineKey],
    ) -> Result<(Vec<(EnvironmentKey, Arc<Environment>)>, bool), StoreError> {
        let (mut found, mut more) = (Vec::new(), false);
        for pipeline in pipelines {
            self.each_environment(pipeline, None, |name, environment| {
                more = found.len() == ENVIRONMENTS_MAX;
                if more {
                    return ControlFlow::Break(());
                }
                found.push((EnvironmentKey { pipeline: pipeline.clone(), name }, environment));
                ControlFlow::Continue(())
            })?;
            if more {
                break;
            }
        }
        Ok((found, more))
    }

    /// Visits the sessions of a period, newest first, and reads at most so many of the history for them. An environment has
    /// one holder at a time, so all that is older than one that ended before the period did so too.
    fn each_session_within(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        period: Period,
        most: u64,
        mut visit: impl FnMut(Session),
    ) -> Result<Extent, StoreError> {
        let mut read = 0;
        while read < most {
            let piece = PIECE.min(most - read);
            let Some(history) = self.history(key, environment, read, piece)? else { return Ok(Extent::Trimmed) };
            for session in history.items {
                match period.is(&session) {
                    PeriodIs::Before => {}
                    PeriodIs::During => visit(session),
                    PeriodIs::After => return Ok(Extent::Whole),
                }
            }
            read += piece;
            if read >= history.total {
                return Ok(Extent::Whole);
            }
            next_piece()?;
        }
        Ok(Extent::Bounded)
    }
}
