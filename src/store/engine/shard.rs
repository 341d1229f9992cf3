//! A shard's record: which version, whose, and up to which batch it has all batches. Every transaction of its owner
//! compares its version and writes it again, which both fences other owners off and keeps transactions in order.

use serde::{Deserialize, Serialize};

use crate::batch::Sequence;
use crate::record::{self, Record, RecordError};

/// When the record of a shard was last written, in the one order of all transactions of an engine. A later write has a
/// later version; 0 means that there is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

/// A process that owns shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub node: String,
    /// Where other nodes reach it.
    pub url: String,
    /// Drawn at random by each process: a node that was started again is another owner, and so is a second node that was
    /// given the same name by mistake.
    pub run: u128,
}

/// A shard as its record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    pub number: u16,
    pub version: Version,
    /// Rises by one whenever somebody takes the shard.
    pub epoch: u64,
    pub owner: Option<Owner>,
    /// The engine has all batches up to this one.
    pub sequence: Sequence,
    /// The wall clock of the owner at its last transaction, in milliseconds. Never goes back.
    pub millis: u64,
    /// The node that its last owner left it to.
    pub successor: Option<String>,
}

/// The right to write a shard, until somebody else takes it. There is one of it per owner and shard: it cannot be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Tenure {
    shard: Shard,
}

impl Shard {
    /// A shard that nobody has owned yet, and that the engine has no record of.
    pub fn vacant(number: u16) -> Shard {
        Shard { number, version: Version(0), epoch: 0, owner: None, sequence: Sequence(0), millis: 0, successor: None }
    }

    /// The record that taking the shard writes. Its version is known once it is written.
    pub fn taken_by(&self, owner: &Owner) -> Shard {
        Shard { epoch: self.epoch + 1, owner: Some(owner.clone()), successor: None, ..self.clone() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let Shard { number: _, version: _, epoch, owner, sequence, millis, successor } = self.clone();
        record::encode(&ShardV1 { epoch, owner, sequence: sequence.0, millis, successor })
    }

    pub fn decode(number: u16, version: Version, bytes: &[u8]) -> Result<Shard, RecordError> {
        let ShardV1 { epoch, owner, sequence, millis, successor } = record::decode(bytes)?;
        Ok(Shard { number, version, epoch, owner, sequence: Sequence(sequence), millis, successor })
    }
}

impl Tenure {
    /// Of a shard whose record was written by its new owner.
    pub fn of(taken: Shard, version: Version) -> Tenure {
        Tenure { shard: Shard { version, ..taken } }
    }

    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The record that a transaction writes which ends with the batch `last`. Its version is known once it is written.
    pub fn advanced_to(&self, last: Sequence, millis: u64) -> Shard {
        Shard { sequence: last, millis: millis.max(self.shard.millis), ..self.shard.clone() }
    }

    /// The record that its owner leaves behind, to this node if it names one.
    pub fn left_to(&self, successor: Option<&str>) -> Shard {
        Shard { owner: None, successor: successor.map(str::to_owned), ..self.shard.clone() }
    }

    /// The record was written, and has this version now.
    pub fn wrote(&mut self, record: Shard, version: Version) {
        self.shard = Shard { version, ..record };
    }
}

#[derive(Serialize, Deserialize)]
struct ShardV1 {
    epoch: u64,
    owner: Option<Owner>,
    sequence: u64,
    millis: u64,
    successor: Option<String>,
}

impl Record<'_> for ShardV1 {
    const KIND: &'static str = "shard";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let owner = Owner { node: "n1".to_owned(), url: "http://n1:8080".to_owned(), run: u128::MAX };
        let vacant = Shard { sequence: Sequence(7), millis: 9, version: Version(3), ..Shard::vacant(12) };
        let left = Tenure::of(vacant.taken_by(&owner), Version(3)).left_to(Some("n2"));
        for shard in [vacant.clone(), vacant.taken_by(&owner), left] {
            assert_eq!(Shard::decode(12, Version(3), &shard.encode()), Ok(shard));
        }
        assert!(Shard::decode(12, Version(3), b"\xff").is_err());
    }

    #[test]
    fn time_does_not_go_back_in_a_record() {
        let tenure = Tenure::of(Shard { millis: 100, ..Shard::vacant(0) }, Version(1));
        assert_eq!(tenure.advanced_to(Sequence(1), 99).millis, 100);
        assert_eq!(tenure.advanced_to(Sequence(1), 101).millis, 101);
    }
}
