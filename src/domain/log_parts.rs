//! In a cluster, the log of a deployment lies in parts: a node writes one until another node goes on.

use std::sync::Arc;

use super::{DeploymentId, Identifier};

/// How many parts of a log are known, the newest: a deployment can be retried any number of times, on any node.
const PARTS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// From 0, in the order of writing.
    pub number: u32,
    /// The node that wrote it.
    pub node: Arc<str>,
    /// Whether it is uploaded to the store of logs when a stage has ended.
    pub in_store: bool,
}

/// A deployment that is no longer kept, and may have left its log in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedLog {
    pub organization: Identifier,
    pub deployment: DeploymentId,
    pub parts: Vec<LogPart>,
}

impl LogPart {
    /// The parts when a stage begins on this node; `None` if they stay as they are. A part that its node has lost is not gone on
    /// with: what the store has of it would be replaced.
    pub fn continued(
        parts: &[Self],
        node: &str,
        in_store: bool,
        is_here: impl FnOnce(u32) -> bool,
    ) -> Option<Vec<Self>> {
        let last = parts.last();
        let mut next = parts.to_vec();
        match last.filter(|last| *last.node == *node && is_here(last.number)) {
            Some(last) if last.in_store || !in_store => return None,
            Some(_) => next.iter_mut().rev().take(1).for_each(|last| last.in_store = true),
            None => {
                let number = last.map_or(0, |last| last.number.saturating_add(1));
                next.push(Self { number, node: Arc::from(node), in_store });
                next.drain(..next.len().saturating_sub(PARTS_MAX));
            }
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn part(number: u32, node: &str, in_store: bool) -> LogPart {
        LogPart { number, node: Arc::from(node), in_store }
    }

    #[test]
    fn a_part_goes_on_until_another_node_does() {
        let first = LogPart::continued(&[], "n1", false, |_| false).unwrap();
        assert_eq!(first, [part(0, "n1", false)]);
        assert_eq!(LogPart::continued(&first, "n1", false, |number| number == 0), None);
        let second = LogPart::continued(&first, "n2", false, |_| true).unwrap();
        assert_eq!(second, [part(0, "n1", false), part(1, "n2", false)]);
        let third = LogPart::continued(&second, "n1", false, |_| true).unwrap();
        assert_eq!(third[2], part(2, "n1", false), "it does not go on with what lies before others");
    }

    #[test]
    fn a_part_that_is_gone_is_not_gone_on_with() {
        let parts = [part(3, "n1", true)];
        assert_eq!(
            LogPart::continued(&parts, "n1", true, |_| false).unwrap(),
            [part(3, "n1", true), part(4, "n1", true)]
        );
    }

    #[test]
    fn a_part_is_in_the_store_once_there_is_one_and_stays_so() {
        let parts = [part(0, "n1", false)];
        assert_eq!(LogPart::continued(&parts, "n1", true, |_| true).unwrap(), [part(0, "n1", true)]);
        assert_eq!(LogPart::continued(&[part(0, "n1", true)], "n1", false, |_| true), None);
    }

    #[test]
    fn the_newest_parts_are_known() {
        let mut parts = Vec::new();
        for number in 0..200 {
            parts = LogPart::continued(&parts, if number % 2 == 0 { "n1" } else { "n2" }, false, |_| true).unwrap();
        }
        assert_eq!((parts.len(), parts[0].number, parts[63].number), (PARTS_MAX, 136, 199));
    }
}
