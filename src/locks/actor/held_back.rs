//! Keeps note of deployments that wait for their pipeline to be resumed.
//!
//! An environment enters itself among those held back and then asks again whether the pipeline is stopped; whoever
//! resumes a pipeline does so first and signals those environments afterwards. So neither misses the other.

use super::EnvironmentActor;
use crate::services::signals::Signal;

impl EnvironmentActor {
    /// An earlier actor may have got the signal that the pipeline is resumed, and died of it.
    pub(super) fn note_held_back_after_load(&self) {
        // At the start, unfinished deployments are recovered anyway.
        if self.note_held_back(false) && self.services().pipelines.is_recovered() {
            self.resume_if_running();
        }
    }

    /// The pipeline may have been resumed since the decision asked about it, by somebody who did not find this
    /// environment among those held back.
    pub(super) fn note_held_back_after_decision(&self, was_held_back: bool) {
        if self.note_held_back(was_held_back) {
            self.resume_if_running();
        }
    }

    fn note_held_back(&self, was_held_back: bool) -> bool {
        let Ok(loaded) = &self.loaded else { return false };
        let (environment, pipelines) = (&loaded.environment, &self.services().pipelines);
        match environment.held_back.then(|| environment.waiting_deployment()).flatten() {
            Some(waiting) => pipelines.hold_back(&self.links.key, waiting),
            None if was_held_back => pipelines.let_go(&self.links.key),
            None => {}
        }
        environment.held_back
    }

    fn resume_if_running(&self) {
        if !self.services().pipelines.now(&self.links.key.pipeline).stopped {
            self.services().signal(&self.links.key, Signal::Resume);
        }
    }
}
