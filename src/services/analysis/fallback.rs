//! An engine with a fallback for its failures.

use futures_util::future::BoxFuture;
use tracing::warn;

use super::engine::{Case, Engine, EngineError, EngineName, Finding};

/// Uses the second engine if the first one fails; the finding has the name of the engine that produced it.
pub struct WithFallback<A, B> {
    pub first: A,
    pub second: B,
}

impl<A: Engine, B: Engine> Engine for WithFallback<A, B> {
    fn name(&self) -> EngineName {
        self.first.name()
    }

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>> {
        Box::pin(async move {
            match self.first.analyse(case).await {
                Ok(finding) => Ok(finding),
                Err(error) => {
                    let (engine, instead) = (self.first.name().as_str(), self.second.name().as_str());
                    warn!(deployment = %case.deployment, engine, instead, %error, "the engine of an analysis failed; using the other one");
                    self.second.analyse(case).await
                }
            }
        })
    }
}
