//! What was acknowledged is seen later: whoever asks after an answer has arrived is shown its effect or something
//! later, and nothing that was shown is taken back. One file for what environments show, one for what sessions show.

use super::evidence::Evidence;
use super::findings::Findings;
use crate::report::model::Check;

mod environments;
mod sessions;
#[cfg(test)]
mod tests;

pub const NAME: &str = "what was acknowledged is seen later";

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    environments::check(evidence, &mut findings);
    sessions::check(evidence, &mut findings);
    findings.into_check()
}
