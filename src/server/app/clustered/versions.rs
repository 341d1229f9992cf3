//! When old versions of the engine are forgotten.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use store::engine::Version;

/// Longer than loading a shard takes. A node that is slower starts again with a newer version.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// Versions that were the newest when they were seen.
#[derive(Default)]
pub struct SeenVersions {
    seen: VecDeque<(Instant, Version)>,
    forgotten: Version,
}

impl SeenVersions {
    pub fn saw(&mut self, newest: Version, now: Instant) {
        if self.seen.back().is_none_or(|(_, last)| *last < newest) {
            self.seen.push_back((now, newest));
        }
    }

    /// Everything before this version may be forgotten now, if there is something.
    pub fn next_to_forget(&mut self, now: Instant) -> Option<Version> {
        let mut found = None;
        while self.seen.front().is_some_and(|(seen, _)| now - *seen >= REMEMBERED_FOR) {
            found = self.seen.pop_front().map(|(_, version)| version);
        }
        let found = found.filter(|version| *version > self.forgotten)?;
        self.forgotten = found;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_forgotten_when_nobody_can_be_loading_them() {
        let (mut versions, start) = (SeenVersions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, version) in [(0, 5), (20, 5), (30, 9), (70, 12)] {
            versions.saw(Version(version), at(second));
        }
        assert_eq!(versions.next_to_forget(at(59)), None);
        assert_eq!(versions.next_to_forget(at(60)), Some(Version(5)));
        assert_eq!(versions.next_to_forget(at(80)), None);
        assert_eq!(versions.next_to_forget(at(200)), Some(Version(12)));
        assert_eq!(versions.next_to_forget(at(300)), None);
    }
}
