//! Shows operators which organizations are near their limits: those with nearly all places they may have, and those
//! that were refused.

use std::collections::HashMap;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;

use super::capacity::Capacity;
use domain::Identifier;

/// The number of organizations with separate metrics, per resource; the rest are counted together. A server has a few
/// organizations, but the number of files that declare them is unlimited.
const LABELLED_MAX: usize = 100;
/// The label for all other organizations.
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
        // Three quarters of the limit.
        let shown_from = (capacity.most() - capacity.most() / 4).max(1);
        Self { resource, shown_from, gauges: Mutex::default(), refusals: Mutex::default() }
    }

    /// Records that the organization has this many places now.
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

    /// Records that the organization was refused a place.
    pub fn refused(&self, organization: &Identifier) {
        let mut refusals = self.refusals.lock();
        if !refusals.contains_key(organization) && refusals.len() >= LABELLED_MAX {
            return self.counter(OTHERS).increment(1);
        }
        refusals.entry(organization.clone()).or_insert_with(|| self.counter(organization.as_str())).increment(1);
    }

    /// The displayed number. An organization that is no longer near the limit is displayed as 0, since a series cannot
    /// be removed.
    fn shown(&self, own: usize) -> f64 {
        if own < self.shown_from { 0.0 } else { own as f64 }
    }

    fn counter(&self, organization: &str) -> Counter {
        metrics::counter!(
            "lockkeeper_share_refused_total", "resource" => self.resource, "organization" => organization.to_owned()
        )
    }
}
