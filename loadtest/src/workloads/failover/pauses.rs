//! Owns how long nobody was granted anything.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Answer, Moment, Record};

/// For each shard, the longest time between two grants of which the second was told after the fault began. What no grant
/// follows is not seen: whoever never gets one is an error of its own.
pub fn longest_pauses(
    records: &[Record],
    began: Moment,
    shard_of: impl Fn(u32) -> Option<u16>,
) -> Vec<(u16, Duration)> {
    let mut told: BTreeMap<u16, Vec<Moment>> = BTreeMap::new();
    for record in records.iter().filter(|record| matches!(record.answer, Answer::Granted { .. })) {
        if let Some(shard) = record.environment.and_then(&shard_of) {
            told.entry(shard).or_default().push(record.ended);
        }
    }
    let longest = |mut grants: Vec<Moment>| {
        grants.sort_unstable();
        let pairs = grants.windows(2).filter(|pair| pair[1] >= began);
        pairs.map(|pair| Duration::from_nanos(pair[1].0 - pair[0].0)).max()
    };
    told.into_iter().filter_map(|(shard, grants)| Some((shard, longest(grants)?))).collect()
}

pub fn sentence(pauses: &[(u16, Duration)]) -> String {
    let one = |(shard, pause): &(u16, Duration)| format!("shard {shard} none for {:.2} s", pause.as_secs_f64());
    pauses.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Request, SessionName};

    fn granted(environment: u32, second: u64) -> Record {
        Record {
            client: 0,
            environment: Some(environment),
            request: Request::Claim { any: false, in_line_at: None, ttl: None },
            sent: Moment(0),
            ended: Moment(second * 1_000_000_000),
            answer: Answer::Granted { session: SessionName("a".into()), fencing: 1 },
        }
    }

    #[test]
    fn the_pause_of_each_shard_is_from_its_last_grant_before_to_the_next_after() {
        let refused = Record { answer: Answer::Unknown, ..granted(1, 14) };
        let records =
            [granted(1, 0), granted(1, 9), refused, granted(2, 18), granted(1, 10), granted(20, 12), granted(20, 13)];
        let pauses = longest_pauses(&records, Moment(11_000_000_000), |environment| Some((environment / 10) as u16));
        let seconds: Vec<_> = pauses.iter().map(|(shard, pause)| (*shard, pause.as_secs())).collect();
        assert_eq!(seconds, [(0, 8), (2, 1)], "the nine seconds at the beginning were before the fault");
        assert_eq!(sentence(&pauses), "shard 0 none for 8.00 s, shard 2 none for 1.00 s");
    }
}
