//! Whether this server certainly still owns the environment of a stage, as its host says.

use std::sync::Arc;
use std::time::Duration;

use super::host::Host;
use super::step_lease::Moment;
use ambient::backoff::{Backoff, Retries};
use domain::EnvironmentKey;

/// The pauses between two questions while a step waits. The answer comes from memory.
const ASK_AGAIN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

pub(super) struct Ownership {
    host: Arc<dyn Host>,
    environment: EnvironmentKey,
}

impl Ownership {
    pub fn new(host: Arc<dyn Host>, environment: EnvironmentKey) -> Self {
        Self { host, environment }
    }

    /// A moment at which it was certain, if it still is. Read before asking: if the server is frozen in between, the moment
    /// is an old one, and a lease that counts from it may be over.
    pub fn confirmed(&self) -> Option<Moment> {
        let asked = Moment::now();
        self.host.may_act(&self.environment).then_some(asked)
    }

    /// Resolves once it is certain. Unbounded here: whoever waits stops when its stage is cancelled or given up.
    pub async fn until_confirmed(&self) -> Moment {
        let mut retries = Retries::new(ASK_AGAIN);
        loop {
            if let Some(moment) = self.confirmed() {
                return moment;
            }
            tokio::time::sleep(retries.failed()).await;
        }
    }
}
