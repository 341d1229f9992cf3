//! Owns the environments that the load needs.

use std::sync::Arc;

use super::asking::Asker;
use super::field::{Field, ORGANIZATIONS};
use crate::engine::load_test::Fault;
use crate::engine::tally::Operation;

/// Makes all of them, in the first pipeline of each organization for locks, in the second for steps.
pub async fn prepare(field: Field) -> Result<(), Fault> {
    let field = Arc::new(field);
    let mut asker = Asker::new(field.clone(), 0);
    let steps = ORGANIZATIONS.map(|id| format!("/organizations/{id}/pipelines/steps/ephemeral-environments/steps-1"));
    let of_load = (0..field.count()).map(|number| field.path(number));
    for path in of_load.chain(steps) {
        let request = field.request("PUT", &path, "", "{}");
        if !matches!(asker.until_answered(Operation::Put, &request).await, Some((200 | 201, _))) {
            return Err(Fault::Cluster(format!("cannot make an environment: {:?}", field.told().errors)));
        }
    }
    Ok(())
}
