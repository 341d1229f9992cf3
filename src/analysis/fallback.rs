//! An engine that may fail with one behind it that is asked then.

use futures_util::future::BoxFuture;
use tracing::warn;

use super::{Case, Engine, EngineError, Finding};

/// Asks the first; if that finds nothing, the second, whose name the finding then has.
pub struct WithFallback<A, B> {
    pub first: A,
    pub second: B,
}

impl<A: Engine, B: Engine> Engine for WithFallback<A, B> {
    fn name(&self) -> &'static str {
        self.first.name()
    }

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>> {
        Box::pin(async move {
            match self.first.analyse(case).await {
                Ok(finding) => Ok(finding),
                Err(error) => {
                    let (engine, instead) = (self.first.name(), self.second.name());
                    warn!(deployment = %case.deployment, engine, instead, %error, "an analysis falls back");
                    self.second.analyse(case).await
                }
            }
        })
    }
}
