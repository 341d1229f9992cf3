//! Where a shard lies in etcd:
//!
//! ```text
//! {prefix}shard/{number}       its record
//! {prefix}s/{number}/{key}     a pair of it
//! ```
//!
//! Numbers have five digits, so that shards are listed in their order.

/// The keys of one cluster of ours in an etcd that others may use too.
pub struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.as_bytes().to_vec() }
    }

    pub fn records(&self) -> Vec<u8> {
        [&self.prefix[..], b"shard/"].concat()
    }

    pub fn record(&self, number: u16) -> Vec<u8> {
        [&self.records()[..], format!("{number:05}").as_bytes()].concat()
    }

    /// The shard whose record has this key.
    pub fn number(&self, record: &[u8]) -> Option<u16> {
        let digits = record.strip_prefix(&self.records()[..])?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// What the keys of all pairs of a shard begin with.
    pub fn pairs(&self, number: u16) -> Vec<u8> {
        [&self.prefix[..], format!("s/{number:05}/").as_bytes()].concat()
    }

    /// A key that is never written.
    pub fn unused(&self) -> Vec<u8> {
        [&self.prefix[..], b"unused"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_found_by_the_key_of_its_record_alone() {
        let keys = Keys::new("lk/");
        for number in [0, 7, 4711, u16::MAX] {
            assert_eq!(keys.number(&keys.record(number)), Some(number));
        }
        for other in [&b"lk/shard/"[..], b"lk/shard/x", b"lk/s/00001/a", b"other/shard/00001", b"lk/shard/99999"] {
            assert_eq!(keys.number(other), None);
        }
        assert_eq!(keys.pairs(3), b"lk/s/00003/");
    }
}
