//! Owns what a comparison is to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::compare::peer::{PREFIX, System};
use crate::wire::request::Place;
use crate::wire::token::Token;

pub struct Plan {
    /// What is compared, for the report.
    pub target: String,
    pub organization: String,
    pub pipeline: String,
    pub bare: PathBuf,
    pub systems: Vec<System>,
    /// Where the servers keep their data while this runs.
    pub directory: PathBuf,
    pub rounds: u32,
    pub length: Duration,
    pub names: u32,
    pub clients: Vec<u32>,
    pub hot_clients: Vec<u32>,
    pub read_clients: u32,
    pub workers: u32,
    /// Whether it is as long and has as many clients as by default: goals are for that.
    pub is_full: bool,
}

impl Plan {
    pub fn place(&self, authority: String, token: Token) -> Place {
        let (organization, pipeline) = (self.organization.clone(), self.pipeline.clone());
        Place { authority, organization, pipeline, prefix: PREFIX.to_owned(), token }
    }
}
