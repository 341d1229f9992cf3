//! Reads the log at startup: replays the batches that the database lacks, truncates a torn tail, and refuses any other
//! damage.
//!
//! At most one group is unsynced, the last one. So a group may be unfinished only at the very end of the log. Any other
//! difference from the written content is damage, and skipping it could lose an acknowledged batch.

use std::io;

use super::disk::Disk;
use super::format::{self, Examined, MAX_GROUP_BYTES, Marks, PAGE};
use crate::batch::BatchRef;

/// The state of the log after recovery.
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The sequence of the last durable batch; 0 for none.
    pub last: u64,
    /// The position of the next group, or `None` if it needs a new segment.
    pub tail: Option<Tail>,
    pub segments: Vec<u64>,
    /// Bytes of an unfinished group that were cut.
    pub cut: usize,
    /// The damage that was discarded at the caller's request.
    pub discarded: Option<Damage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    pub segment: u64,
    pub offset: usize,
    /// The offset of the segment's end page.
    pub room: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub segment: u64,
    pub offset: usize,
    pub what: String,
}

#[derive(Debug)]
pub enum Fault {
    Io {
        segment: Option<u64>,
        source: io::Error,
    },
    Damage(Damage),
    /// The log is intact, but earlier batches are missing in the database: discarding the log would lose even more.
    Gap {
        applied: u64,
        first: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    Refuse,
    Discard,
}

/// Calls `replay` with every batch after `applied`, in order.
pub fn recover(
    disk: &impl Disk,
    applied: u64,
    on_damage: OnDamage,
    mut replay: impl FnMut(u64, BatchRef<'_>),
) -> Result<Recovered, Fault> {
    let segments = disk.segments().map_err(|source| Fault::Io { segment: None, source })?;
    // Segments that the database fully covers are only waiting to be deleted.
    let covered = segments.windows(2).take_while(|pair| pair[1] <= applied + 1).count();
    let mut walk = Walk { disk, applied, next: 0, tail: None, cut: 0, read: 0, replay: &mut replay };
    let damage = match walk.run(&segments[covered..]) {
        Ok(()) => None,
        Err(Fault::Damage(damage)) if on_damage == OnDamage::Discard => Some(damage),
        Err(fault) => return Err(fault),
    };
    let (next, tail, cut, read) = (walk.next, walk.tail, walk.cut, covered + walk.read);
    let last = next.saturating_sub(1).max(applied);
    let Some(damage) = damage else {
        return Ok(Recovered { last, tail, segments, cut, discarded: None });
    };
    let segments = discard(disk, &segments, read, &damage)?;
    Ok(Recovered { last, tail: None, segments, cut, discarded: Some(damage) })
}

struct Walk<'a, D> {
    disk: &'a D,
    applied: u64,
    /// The sequence that the next group must have.
    next: u64,
    tail: Option<Tail>,
    cut: usize,
    /// The number of segments that were read completely.
    read: usize,
    replay: &'a mut dyn FnMut(u64, BatchRef<'_>),
}

impl<D: Disk> Walk<'_, D> {
    fn run(&mut self, segments: &[u64]) -> Result<(), Fault> {
        let Some(first) = segments.first().copied() else {
            return match self.applied {
                0 => Ok(()),
                _ => Err(damage(self.applied + 1, 0, "the log has no segments and the database is not empty")),
            };
        };
        if first > self.applied + 1 {
            return Err(Fault::Gap { applied: self.applied, first });
        }
        self.next = first;
        for (index, segment) in segments.iter().copied().enumerate() {
            if segment != self.next {
                let what =
                    format!("the segment begins at batch {segment} and the one before it ends before {}", self.next);
                return Err(damage(segment, 0, what));
            }
            self.segment(segment, index + 1 == segments.len())?;
            self.read += 1;
        }
        if self.next <= self.applied {
            let (at, offset) = self.tail.map_or((first, 0), |tail| (tail.segment, tail.offset));
            let what = format!("the log ends at batch {} and the database has {}", self.next - 1, self.applied);
            return Err(damage(at, offset, what));
        }
        Ok(())
    }

    fn segment(&mut self, segment: u64, is_last: bool) -> Result<(), Fault> {
        let bytes = self.disk.read(segment).map_err(|source| Fault::Io { segment: Some(segment), source })?;
        let is_whole = bytes.ends_with(&format::END_PAGE) && bytes.len() % PAGE == 0;
        let room = if is_whole { &bytes[..bytes.len() - PAGE] } else { &bytes[..bytes.len() / PAGE * PAGE] };
        let (mut offset, mut last_group) = (0, 0..0);
        while offset < room.len() {
            let group = match format::examine(&room[offset..]) {
                Examined::Group(group) => group,
                Examined::Blank | Examined::Unfinished { .. } | Examined::Damaged(_) => break,
            };
            if group.first != self.next {
                let what = format!("the record begins at batch {} in place of {}", group.first, self.next);
                return Err(damage(segment, offset, what));
            }
            let batches = format::decode(&group.payload, group.count)
                .ok_or_else(|| damage(segment, offset, "a record does not hold the batches it says it holds"))?;
            for batch in batches {
                if self.next > self.applied {
                    (self.replay)(self.next, batch);
                }
                self.next += 1;
            }
            last_group = offset..offset + group.extent;
            offset += group.extent;
        }
        if !is_whole {
            return Err(damage(segment, offset, "the file has lost its end"));
        }
        self.tail = Some(Tail { segment, offset, room: room.len() });
        let write = |offset, bytes: &[u8]| {
            self.disk.write(segment, offset, bytes).map_err(|source| Fault::Io { segment: Some(segment), source })
        };
        let rest = &room[offset..];
        if !format::is_zero(rest) {
            let reach = torn_reach(rest, is_last).map_err(|what| damage(segment, offset, what))?;
            write(offset, &vec![0; reach])?;
            self.cut = reach;
        }
        // A server that was killed, or that ended because a sync failed, may have left its last group only in the page
        // cache, where a later sync no longer considers it dirty. It is rewritten to ensure that it is on disk before
        // it counts.
        if is_last && !last_group.is_empty() {
            write(last_group.start, &room[last_group])?;
        }
        Ok(())
    }
}

/// The number of bytes of `rest` that an unfinished group may have written. The error says why this is not an
/// unfinished group.
fn torn_reach(rest: &[u8], is_last: bool) -> Result<usize, &'static str> {
    let reach = match format::examine(rest) {
        Examined::Group(_) => return Err("a record is out of place"),
        Examined::Damaged(what) => return Err(what),
        Examined::Blank | Examined::Unfinished { reach: None } => format::extent(MAX_GROUP_BYTES).min(rest.len()),
        Examined::Unfinished { reach: Some(reach) } => reach,
    };
    if !is_last {
        return Err("a record is unfinished and the log goes on after it");
    }
    if !format::is_zero(&rest[reach..]) {
        return Err("a record is unfinished and there is more after it");
    }
    if format::marks(&rest[..reach]) == Marks::Wrong {
        return Err("the mark of a sector is wrong");
    }
    let later = (PAGE..reach).step_by(PAGE).any(|at| matches!(format::examine(&rest[at..]), Examined::Group(_)));
    if later {
        return Err("a record is unfinished and a whole one comes after it");
    }
    Ok(reach)
}

/// Removes the damage, and everything after it, from the log. The `read` segments before it are intact. The log
/// continues in a new segment.
fn discard(disk: &impl Disk, segments: &[u64], read: usize, damage: &Damage) -> Result<Vec<u64>, Fault> {
    let io = |source| Fault::Io { segment: Some(damage.segment), source };
    let (sound, rest) = segments.split_at(read);
    let mut kept = sound.to_vec();
    for segment in rest.iter().copied() {
        if segment != damage.segment || damage.offset == 0 {
            disk.set_aside_whole(segment).map_err(io)?;
            continue;
        }
        let bytes = disk.read(segment).map_err(io)?;
        disk.set_aside(segment, damage.offset, &bytes[damage.offset..]).map_err(io)?;
        disk.end_at(segment, damage.offset).map_err(io)?;
        kept.push(segment);
    }
    Ok(kept)
}

fn damage(segment: u64, offset: usize, what: impl Into<String>) -> Fault {
    Fault::Damage(Damage { segment, offset, what: what.into() })
}
