//! A batch: changes that become durable together or not at all. It is built in the log's encoding, so that a commit is
//! one copy, and all later readers use the same bytes.

use std::cell::Cell;
use std::collections::BTreeMap;

use smallvec::SmallVec;

/// The position of a batch in the order of all commits. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Puts, deletes and journal entries that take effect together or not at all. If a key is changed twice, the later
/// change wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Pieces,
    appends: Pieces,
    ends: bool,
}

/// A borrowed batch, from a [`Batch`] or from the payload of a group.
#[derive(Debug, Clone, Copy)]
pub struct BatchRef<'a> {
    changes: PiecesRef<'a>,
    appends: PiecesRef<'a>,
}

/// One key with its new value, or `None` if it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// An entry for a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Append<'a> {
    /// Without a slash.
    pub journal: &'a str,
    pub body: &'a [u8],
}

/// Changes with one entry per key: its last change.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A key and its value, as returned by a scan.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A key under construction; typical keys need no allocation.
pub type Key = SmallVec<[u8; KEY_BYTES]>;
const KEY_BYTES: usize = 64;

/// Concatenates the parts.
pub fn key_of(parts: &[&[u8]]) -> Key {
    let mut key = [0; KEY_BYTES];
    let mut length = 0;
    for part in parts {
        match key.get_mut(length..length + part.len()) {
            Some(place) => place.copy_from_slice(part),
            None => return parts.concat().into(),
        }
        length += part.len();
    }
    Key::from_buf_and_len(key, length)
}

/// The maximum capacity that a thread keeps for its next batch.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    static SPARE: Cell<Batch> = const { Cell::new(Batch { changes: Pieces::NONE, appends: Pieces::NONE, ends: false }) };
}

impl Batch {
    /// An empty batch that reuses the buffers of one that this thread committed before.
    pub fn with_room() -> Self {
        SPARE.take()
    }

    /// Called after the commit: keeps the buffers for this thread's next batch.
    pub(super) fn leave_room(mut self) {
        if self.changes.bytes.capacity() + self.appends.bytes.capacity() <= KEPT_BYTES {
            self.clear();
            SPARE.set(self);
        }
    }

    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_with(key, |out| out.extend_from_slice(value.as_ref()));
    }

    /// `write` appends the value.
    pub fn put_with(&mut self, key: impl AsRef<[u8]>, write: impl FnOnce(&mut Vec<u8>)) {
        self.changes.push_with(key.as_ref(), write);
    }

    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.changes.push_none(key.as_ref());
    }

    /// Appends to a journal, in the order of all batches. The name of a journal has no slash.
    pub fn append(&mut self, journal: &str, body: impl AsRef<[u8]>) {
        self.append_with(journal, |out| out.extend_from_slice(body.as_ref()));
    }

    /// `write` appends the body.
    pub fn append_with(&mut self, journal: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.appends.push_with(journal.as_bytes(), write);
    }

    pub fn as_ref(&self) -> BatchRef<'_> {
        BatchRef { changes: self.changes.as_ref(), appends: self.appends.as_ref() }
    }

    pub fn changes(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.as_ref().changes()
    }

    pub fn appends(&self) -> impl Iterator<Item = Append<'_>> {
        self.as_ref().appends()
    }

    /// Marks the batch as an end, such as a release, a cancellation or the end of a stage. A full disk still accepts
    /// it.
    pub fn mark_as_end(&mut self) {
        self.ends = true;
    }

    /// Whether a full disk still accepts the batch: an end, or only deletions.
    pub fn may_use_reserve(&self) -> bool {
        self.ends || (!self.is_empty() && self.changes().all(|change| change.value.is_none()))
    }

    pub fn is_empty(&self) -> bool {
        self.changes.count == 0 && self.appends.count == 0
    }

    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.appends.clear();
        self.ends = false;
    }

    /// The size of the batch in a payload.
    pub(super) fn encoded_len(&self) -> usize {
        2 * COUNT_BYTES + self.changes.bytes.len() + self.appends.bytes.len()
    }

    /// Appends the batch to a payload. Its size was checked before, so all lengths fit their fields.
    pub(super) fn encode(&self, payload: &mut Vec<u8>) -> BatchPosition {
        let start = payload.len();
        self.changes.encode(payload);
        let middle = payload.len();
        self.appends.encode(payload);
        BatchPosition { start, middle, end: payload.len() }
    }
}

/// The position of a batch in a payload: its changes, then its appends.
#[derive(Debug, Clone, Copy)]
pub struct BatchPosition {
    start: usize,
    middle: usize,
    end: usize,
}

impl BatchPosition {
    /// The batch at this position.
    pub fn of(self, payload: &[u8]) -> BatchRef<'_> {
        let changes = PiecesRef::encoded(&payload[self.start..self.middle]);
        BatchRef { changes, appends: PiecesRef::encoded(&payload[self.middle..self.end]) }
    }
}

impl<'a> BatchRef<'a> {
    /// Takes a batch from the front of an untrusted payload and validates all of it.
    pub(super) fn take(payload: &mut &'a [u8]) -> Option<Self> {
        let changes = PiecesRef::take(payload, |_, _| true)?;
        let is_append = |name: &[u8], body: Option<&[u8]>| body.is_some() && str::from_utf8(name).is_ok();
        Some(Self { changes, appends: PiecesRef::take(payload, is_append)? })
    }

    pub fn changes(self) -> impl ExactSizeIterator<Item = Change<'a>> {
        self.changes.map(|(key, value)| Change { key, value })
    }

    /// All entries have names and bodies: they were built with them, or validated by [`Self::take`].
    pub fn appends(self) -> impl Iterator<Item = Append<'a>> {
        self.appends.filter_map(|(name, body)| Some(Append { journal: str::from_utf8(name).ok()?, body: body? }))
    }

    pub fn append_count(self) -> usize {
        self.appends.len()
    }

    pub fn to_owned(self) -> Batch {
        Batch { changes: self.changes.to_owned(), appends: self.appends.to_owned(), ends: false }
    }
}

/// More than the changed journal pages of a typical group.
const ROOM_BYTES_MAX: usize = 1024 * 1024;
const COUNT_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;
const NO_CONTENT: u32 = u32::MAX;

/// Names with contents in the log's encoding: both lengths, then the name and the content. A name without content has
/// an impossible content length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pieces {
    bytes: Vec<u8>,
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct PiecesRef<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl Pieces {
    const NONE: Self = Self { bytes: Vec::new(), count: 0 };

    fn push_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let length_at = self.begin(name);
        let content_at = self.bytes.len();
        write(&mut self.bytes);
        let length = (self.bytes.len() - content_at) as u32;
        self.bytes[length_at..][..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    }

    fn push_none(&mut self, name: &[u8]) {
        self.begin(name);
    }

    /// Appends a name without content. Returns the position of the content's length.
    fn begin(&mut self, name: &[u8]) -> usize {
        self.count += 1;
        self.bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&NO_CONTENT.to_le_bytes());
        self.bytes.extend_from_slice(name);
        length_at
    }

    fn as_ref(&self) -> PiecesRef<'_> {
        PiecesRef { bytes: &self.bytes, count: self.count }
    }

    fn encode(&self, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.count.to_le_bytes());
        payload.extend_from_slice(&self.bytes);
    }

    /// Keeps the buffer for reuse unless it is large.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(ROOM_BYTES_MAX);
        self.count = 0;
    }
}

impl<'a> PiecesRef<'a> {
    /// Reads bytes written by [`Pieces::encode`].
    fn encoded(mut bytes: &'a [u8]) -> Self {
        let count = take_u32(&mut bytes).unwrap_or_default();
        Self { bytes, count }
    }

    /// Reads untrusted bytes; `None` if they do not begin with valid pieces.
    fn take(bytes: &mut &'a [u8], is_right: impl Fn(&[u8], Option<&[u8]>) -> bool) -> Option<Self> {
        let count = take_u32(bytes)?;
        let all = *bytes;
        for _ in 0..count {
            let (name, content) = take_piece(bytes)?;
            if !is_right(name, content) {
                return None;
            }
        }
        Some(Self { bytes: &all[..all.len() - bytes.len()], count })
    }

    fn to_owned(self) -> Pieces {
        Pieces { bytes: self.bytes.to_vec(), count: self.count }
    }
}

impl<'a> Iterator for PiecesRef<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        take_piece(&mut self.bytes)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for PiecesRef<'_> {}

fn take_piece<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let (name_len, content_len) = (take_u32(bytes)?, take_u32(bytes)?);
    let name = bytes.split_off(..name_len as usize)?;
    Some(match content_len {
        NO_CONTENT => (name, None),
        length => (name, Some(bytes.split_off(..length as usize)?)),
    })
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_in_the_room_of_another_has_nothing_of_it() {
        let mut first = Batch::with_room();
        first.put("a", "1");
        first.delete("b");
        first.append("acme", "event");
        let read: Vec<_> =
            first.changes().map(|change| (change.key.to_vec(), change.value.map(<[u8]>::to_vec))).collect();
        assert_eq!(read, [(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)]);
        assert_eq!(first.appends().collect::<Vec<_>>(), [Append { journal: "acme", body: b"event" }]);
        let room = first.changes.bytes.as_ptr();
        first.leave_room();
        let second = Batch::with_room();
        assert_eq!((second.is_empty(), second.changes.bytes.as_ptr()), (true, room));
        assert_eq!(second, Batch::default());
        assert!(Batch::with_room().changes.bytes.capacity() == 0, "it is in use");
    }

    #[test]
    fn a_full_disk_takes_ends_and_deletions() {
        let mut batch = Batch::with_room();
        assert!(!batch.may_use_reserve(), "nothing needs no reserve");
        batch.delete("a");
        batch.append("acme", "event");
        assert!(batch.may_use_reserve());
        batch.put("b", "1");
        assert!(!batch.may_use_reserve());
        batch.mark_as_end();
        assert!(batch.may_use_reserve());
        batch.leave_room();
        let mut next = Batch::with_room();
        next.put("b", "1");
        assert!(!next.may_use_reserve(), "the mark was of another batch");
    }

    #[test]
    fn a_key_may_be_of_any_length() {
        for length in [0, 1, KEY_BYTES - 3, KEY_BYTES - 2, KEY_BYTES - 1, 1000] {
            let part = vec![7; length];
            assert_eq!(key_of(&[b"e/", &part]).as_slice(), [b"e/".as_slice(), &part].concat());
        }
    }

    #[test]
    fn the_room_of_a_large_batch_is_not_kept() {
        let mut large = Batch::default();
        large.put("a", vec![0; KEPT_BYTES]);
        large.leave_room();
        assert_eq!(Batch::with_room().changes.bytes.capacity(), 0);
        let mut pages = Batch::default();
        pages.put("a", vec![0; 2 * ROOM_BYTES_MAX]);
        pages.clear();
        assert!(pages.is_empty() && pages.changes.bytes.capacity() <= ROOM_BYTES_MAX);
    }
}
