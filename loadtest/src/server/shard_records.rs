//! Owns the reading of the records that the nodes of a cluster keep of their shards in etcd: who owns which, since how many
//! take-overs. Read there, it needs no trust in the nodes.

use std::collections::BTreeMap;

use crate::server::etcd_client::{EtcdClient, EtcdError};

const PREFIX: &[u8] = b"lk/shard/";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    pub epoch: u64,
    /// The name of the node; none if its last owner has left it.
    pub owner: Option<String>,
}

/// Where the record of a shard lies.
pub fn key_of(shard: u16) -> Vec<u8> {
    [PREFIX, format!("{shard:05}").as_bytes()].concat()
}

/// All that there are, by their numbers.
pub async fn read(etcd: &mut EtcdClient) -> Result<BTreeMap<u16, ShardRecord>, EtcdError> {
    let pairs = etcd.range(PREFIX).await?;
    let number = |key: &[u8]| std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()?.parse().ok();
    Ok(pairs.iter().filter_map(|pair| Some((number(&pair.key)?, decode(&pair.value)?))).collect())
}

/// A record begins with its version, the epoch, and the owner with its name first; in postcard's form.
pub fn decode(record: &[u8]) -> Option<ShardRecord> {
    let (1, rest) = record.split_first().map(|(version, rest)| (*version, rest))? else { return None };
    let (epoch, rest) = number(rest)?;
    let (has_owner, rest) = rest.split_first()?;
    if *has_owner == 0 {
        return Some(ShardRecord { epoch, owner: None });
    }
    let (length, rest) = number(rest)?;
    let name = rest.get(..usize::try_from(length).ok()?)?;
    Some(ShardRecord { epoch, owner: Some(String::from_utf8(name.to_vec()).ok()?) })
}

/// Seven bits in each byte, the lowest first.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let number = bytes[..=last].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, &bytes[last + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_and_owner_are_read_from_a_record() {
        let owned = ShardRecord { epoch: 300, owner: Some("n1".to_owned()) };
        assert_eq!(decode(&[1, 0xac, 0x02, 1, 2, b'n', b'1', 9, 9]), Some(owned));
        assert_eq!(decode(&[1, 7, 0, 9]), Some(ShardRecord { epoch: 7, owner: None }));
        assert_eq!(decode(&[2, 7, 0]), None);
        assert_eq!(decode(&[1, 7, 1, 9, b'n']), None);
        assert_eq!(decode(b""), None);
    }
}
