//! Owns the count of all that was done to servers and clusters.

use std::ops::AddAssign;

/// How often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disturbances {
    pub kills: u64,
    pub pauses: u64,
    pub stops: u64,
    /// Nodes that ended by themselves, since others had taken over.
    pub deposed: u64,
    pub member_kills: u64,
    pub member_pauses: u64,
    pub takeovers: u64,
}

impl AddAssign for Disturbances {
    fn add_assign(&mut self, more: Self) {
        let Self { kills, pauses, stops, deposed, member_kills, member_pauses, takeovers } = more;
        self.kills += kills;
        self.pauses += pauses;
        self.stops += stops;
        self.deposed += deposed;
        self.member_kills += member_kills;
        self.member_pauses += member_pauses;
        self.takeovers += takeovers;
    }
}
