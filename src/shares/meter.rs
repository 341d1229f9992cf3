//! Shows an operator who is at the bound: the places of organizations that have nearly all they may, and refusals.

use std::collections::HashMap;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;

use super::capacity::Capacity;
use domain::Identifier;

/// Organizations with metrics of their own, per resource; the rest is counted together. A server has a few organizations,
/// but nothing bounds the files that declare them.
const LABELLED_MAX: usize = 100;
/// The label of the rest.
pub const OTHERS: &str = "others";

/// The metrics of one resource.
pub struct ShareMeter {
    resource: &'static str,
    /// An organization with fewer places is not shown.
    shown_from: usize,
    gauges: Mutex<HashMap<Identifier, Gauge>>,
    refusals: Mutex<HashMap<Identifier, Counter>>,
}

impl ShareMeter {
    pub fn new(resource: &'static str, capacity: Capacity) -> Self {
        // Three quarters of the bound.
        let shown_from = (capacity.most() - capacity.most() / 4).max(1);
        Self { resource, shown_from, gauges: Mutex::default(), refusals: Mutex::default() }
    }

    /// The organization has this many places now.
    pub fn used(&self, organization: &Identifier, own: usize) {
        let mut gauges = self.gauges.lock();
        match gauges.get(organization) {
            Some(gauge) => gauge.set(self.shown(own)),
            None if own < self.shown_from || gauges.len() >= LABELLED_MAX => {}
            None => {
                let gauge = metrics::gauge!(
                    "lockkeeper_share_used", "resource" => self.resource, "organization" => organization.to_string()
                );
                gauge.set(self.shown(own));
                gauges.insert(organization.clone(), gauge);
            }
        }
    }

    /// The organization was refused a place.
    pub fn refused(&self, organization: &Identifier) {
        let mut refusals = self.refusals.lock();
        if !refusals.contains_key(organization) && refusals.len() >= LABELLED_MAX {
            return self.counter(OTHERS).increment(1);
        }
        refusals.entry(organization.clone()).or_insert_with(|| self.counter(organization.as_str())).increment(1);
    }

    /// One that was shown and is no longer near the bound is shown with 0: a series cannot be taken back.
    fn shown(&self, own: usize) -> f64 {
        if own < self.shown_from { 0.0 } else { own as f64 }
    }

    fn counter(&self, organization: &str) -> Counter {
        metrics::counter!(
            "lockkeeper_share_refused_total", "resource" => self.resource, "organization" => organization.to_owned()
        )
    }
}
