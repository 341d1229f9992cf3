//! Which organizations and pipelines there are, as the configuration declares them.

use std::collections::{BTreeMap, HashMap};

use crate::domain::{Identifier, PipelineKey, Plan};

#[derive(Debug, Default)]
pub struct Organizations {
    by_id: HashMap<Identifier, BTreeMap<Identifier, Pipeline>>,
}

#[derive(Debug, Clone)]
pub struct Pipeline {
    pub key: PipelineKey,
    pub name: String,
    pub slug: Identifier,
}

impl Organizations {
    pub fn add(&mut self, organization: Identifier, pipelines: impl IntoIterator<Item = Pipeline>) {
        let by_id = pipelines.into_iter().map(|pipeline| (pipeline.key.pipeline.clone(), pipeline)).collect();
        self.by_id.insert(organization, by_id);
    }

    /// The pipelines of an organization, by id.
    pub fn pipelines(&self, organization: &Identifier) -> impl Iterator<Item = &Pipeline> {
        self.by_id.get(organization).into_iter().flat_map(BTreeMap::values)
    }

    pub fn pipeline(&self, organization: &Identifier, id: &str) -> Option<&Pipeline> {
        self.by_id.get(organization)?.get(id)
    }
}

impl Pipeline {
    /// What there is to do for a deployment in this pipeline. None has stages yet.
    pub fn plan(&self) -> Plan {
        Plan::Nothing
    }
}
