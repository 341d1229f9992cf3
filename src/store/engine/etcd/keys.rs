//! The keys in etcd:
//!
//! ```text
//! {prefix}cluster              the cluster's record
//! {prefix}node/{name}          the record of a node
//! {prefix}shard/{number}       the record of a shard
//! {prefix}s/{number}/{key}     a pair of that shard
//! ```
//!
//! Numbers have five digits, so that shards are listed in order.

/// The keys of one of our clusters, in an etcd that others may use too.
pub struct Keys {
    prefix: Vec<u8>,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.as_bytes().to_vec() }
    }

    pub fn cluster(&self) -> Vec<u8> {
        [&self.prefix[..], b"cluster"].concat()
    }

    pub fn nodes(&self) -> Vec<u8> {
        [&self.prefix[..], b"node/"].concat()
    }

    pub fn node(&self, name: &str) -> Vec<u8> {
        [&self.nodes()[..], name.as_bytes()].concat()
    }

    /// The node whose record has this key.
    pub fn name<'a>(&self, record: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(record.strip_prefix(&self.nodes()[..])?).ok()
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

    /// The prefix of the keys of all pairs, in all shards.
    pub fn all_pairs(&self) -> Vec<u8> {
        [&self.prefix[..], b"s/"].concat()
    }

    /// The prefix of the keys of all pairs of a shard.
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
        assert_eq!(keys.name(&keys.node("n1")), Some("n1"));
        assert_eq!(keys.name(&keys.cluster()), None);
    }
}
