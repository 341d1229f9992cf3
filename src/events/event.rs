//! A recorded event and its id.

use std::fmt;
use std::str::FromStr;

use domain::{
    DeploymentId, EventData, EventType, Id, IdSeed, IdText, Identifier, Initiator, Malformed, SessionId, Timestamp,
};
use store::journal::Hash;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    pub id: EventId,
    /// Chains it to the event before.
    pub hash: Hash,
    pub event_type: EventType,
    pub at: Timestamp,
    /// `None` for the system.
    pub by: Option<Initiator>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    pub data: EventData,
}

/// An event's number in its organization and the first bytes of its hash, so that an id of another organization, or from
/// before a loss of data, is not mistaken for one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    pub number: u64,
    pub check: [u8; 4],
}

impl EventId {
    pub const PATTERN: &str = "^evt_[0-9a-f]{24}$";
    /// For descriptions of the API.
    pub const EXAMPLE: &str = "evt_000000000000002a9d2c5a1b";

    pub fn new(number: u64, hash: &Hash) -> Self {
        let [a, b, c, d, ..] = *hash;
        Self { number, check: [a, b, c, d] }
    }
}

impl Id for EventId {
    fn text(&self) -> IdText {
        let mut seed = [0; 12];
        seed[..8].copy_from_slice(&self.number.to_be_bytes());
        seed[8..].copy_from_slice(&self.check);
        IdText::new("evt_", &IdSeed(seed))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for EventId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let seed =
            text.strip_prefix("evt_").and_then(IdSeed::parse_hex).ok_or(Malformed("must be an event id (evt_…)"))?;
        let [a, b, c, d, e, f, g, h, check @ ..] = seed.0;
        Ok(Self { number: u64::from_be_bytes([a, b, c, d, e, f, g, h]), check })
    }
}
