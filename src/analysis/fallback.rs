//! An engine with a fallback for its failures.

use futures_util::future::BoxFuture;
use tracing::warn;

use super::engine::{Case, Engine, EngineError, Finding};

/// Uses the second engine if the first one fails; the finding has the name of the engine that produced it.
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
                    warn!(deployment = %case.deployment, engine, instead, %error, "the engine of an analysis failed; using the other one");
                    self.second.analyse(case).await
                }
            }
        })
    }
}
