//! The on-disk layout of a group of batches, which distinguishes an unfinished group from a damaged one.
//!
//! A group starts on a page boundary and fills whole pages, so a synced page is never rewritten. Segments initially
//! contain only zeros, and every 512-byte sector of a group ends in [`MARK`], which is never zero. So a sector that was
//! not written, or only in part, has a zero there; a flipped bit cannot produce one. The group's bytes are: `magic,
//! payload length, first sequence, count of batches, payload CRC, header CRC`, then the payload, then zeros.

use crate::batch::BatchRef;

pub const PAGE: usize = 4096;
pub const SECTOR: usize = 512;
/// Has four bits set, so that no single bit flip turns it into the zero of an unwritten sector.
const MARK: u8 = 0xA5;
const SECTOR_DATA: usize = SECTOR - 1;

const MAGIC: [u8; 4] = *b"LKG1";
const HEADER: usize = 28;
const HEADER_CRC_AT: usize = 24;

/// A group of this size accepts no more batches. A group is one write, and in a larger one the first batch would only
/// wait longer.
pub const FULL_GROUP_BYTES: usize = 1024 * 1024;
/// More than the changes of the largest command: a session with a hundred deployments ends, in a history page with
/// seven others like it, and five of its deployments have a thousand steps.
pub const MAX_BATCH_BYTES: usize = 1920 * 1024;
/// A group has room for at least one batch.
pub const MAX_GROUP_BYTES: usize = MAX_BATCH_BYTES;
const _: () = assert!(FULL_GROUP_BYTES <= MAX_GROUP_BYTES);

/// The size on disk of a group with this payload.
pub fn extent(payload: usize) -> usize {
    ((HEADER + payload).div_ceil(SECTOR_DATA) * SECTOR).next_multiple_of(PAGE)
}

/// The batches of a payload; `None` unless it contains exactly `count` batches.
pub fn decode(mut payload: &[u8], count: u32) -> Option<Vec<BatchRef<'_>>> {
    // Not preallocated, because `count` is not trusted.
    let mut batches = Vec::new();
    for _ in 0..count {
        batches.push(BatchRef::take(&mut payload)?);
    }
    payload.is_empty().then_some(batches)
}

/// Writes the on-disk form of the group to `out`, which is as long as its [`extent`].
pub fn seal(first: u64, count: u32, payload: &[u8], out: &mut [u8]) {
    let mut header = [0; HEADER];
    header[0..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&first.to_le_bytes());
    header[16..20].copy_from_slice(&count.to_le_bytes());
    header[20..24].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let header_crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
    header[HEADER_CRC_AT..].copy_from_slice(&header_crc.to_le_bytes());

    let (in_first_sector, rest) = payload.split_at(payload.len().min(SECTOR_DATA - HEADER));
    let (first, others) = out.split_at_mut(SECTOR);
    first[..HEADER].copy_from_slice(&header);
    fill_sector(&mut first[HEADER..], in_first_sector);
    let mut rest = rest.chunks(SECTOR_DATA);
    for sector in others.chunks_exact_mut(SECTOR) {
        fill_sector(sector, rest.next().unwrap_or_default());
    }
}

/// Writes the data, zeros after it, and the mark at the end.
fn fill_sector(sector: &mut [u8], data: &[u8]) {
    let (written, padding) = sector.split_at_mut(data.len());
    written.copy_from_slice(data);
    padding.fill(0);
    if let Some(mark) = padding.last_mut() {
        *mark = MARK;
    }
}

/// The last page of every segment. Distinguishes a truncated segment from one with room left.
pub const END_PAGE: [u8; PAGE] = [0xE5; PAGE];

/// The content of a page where a group may start.
#[derive(Debug, PartialEq, Eq)]
pub enum Examined {
    Group(Group),
    /// The page was never written.
    Blank,
    /// Sectors are missing; the group's length is known if its header was written.
    Unfinished {
        reach: Option<usize>,
    },
    /// Every sector was written, but the content is wrong.
    Damaged(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    pub first: u64,
    pub count: u32,
    pub extent: usize,
    pub payload: Vec<u8>,
}

/// Examines the group at the start of `bytes`, which extend to the end of the segment.
pub fn examine(bytes: &[u8]) -> Examined {
    if is_zero(&bytes[..PAGE.min(bytes.len())]) {
        return Examined::Blank;
    }
    if bytes.len() < PAGE {
        return Examined::Damaged("the file ends within a page");
    }
    match bytes[SECTOR_DATA] {
        0 => return Examined::Unfinished { reach: None },
        MARK => {}
        _ => return Examined::Damaged("the mark of a sector is wrong"),
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes[..4] != MAGIC || word(HEADER_CRC_AT) != crc32c::crc32c(&bytes[..HEADER_CRC_AT]) {
        return Examined::Damaged("the checksum of a header is wrong");
    }
    let (payload_len, count, payload_crc) = (word(4) as usize, word(16), word(20));
    let first = u64::from(word(8)) | u64::from(word(12)) << 32;
    let extent = extent(payload_len);
    if payload_len > MAX_GROUP_BYTES || extent > bytes.len() {
        return Examined::Damaged("a record reaches beyond the end of the file");
    }
    match marks(&bytes[..extent]) {
        Marks::All => {}
        Marks::Missing => return Examined::Unfinished { reach: Some(extent) },
        Marks::Wrong => return Examined::Damaged("the mark of a sector is wrong"),
    }
    let mut payload = Vec::with_capacity(extent);
    for sector in bytes[..extent].chunks_exact(SECTOR) {
        payload.extend_from_slice(&sector[..SECTOR_DATA]);
    }
    payload.drain(..HEADER);
    if !is_zero(&payload[payload_len..]) {
        return Examined::Damaged("the padding of a record is not empty");
    }
    payload.truncate(payload_len);
    if crc32c::crc32c(&payload) != payload_crc {
        return Examined::Damaged("the checksum of a record is wrong");
    }
    Examined::Group(Group { first, count, extent, payload })
}

/// The marks of a range of sectors.
#[derive(Debug, PartialEq, Eq)]
pub enum Marks {
    All,
    Missing,
    Wrong,
}

pub fn marks(bytes: &[u8]) -> Marks {
    let mut found = Marks::All;
    for mark in bytes.iter().skip(SECTOR_DATA).step_by(SECTOR) {
        match *mark {
            MARK => {}
            0 => found = Marks::Missing,
            _ => return Marks::Wrong,
        }
    }
    found
}

pub fn is_zero(bytes: &[u8]) -> bool {
    // Compares whole pages: a segment is mostly zeros, and comparing slices is far faster than a loop over bytes.
    static ZEROS: [u8; PAGE] = [0; PAGE];
    bytes.chunks(PAGE).all(|page| *page == ZEROS[..page.len()])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::batch::Batch;
    use proptest::prelude::*;

    fn batch() -> impl Strategy<Value = Batch> {
        let change = (
            prop::collection::vec(any::<u8>(), 0..40),
            prop::option::of(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..600),
                (0usize..3000).prop_map(|len| vec![0; len])
            ]),
        );
        let append = ("[a-z]{0,9}", prop::collection::vec(any::<u8>(), 0..300));
        let changes = prop::collection::vec(change, 0..6);
        (changes, prop::collection::vec(append, 0..3)).prop_map(|(changes, appends)| {
            let mut batch = Batch::default();
            for (key, value) in changes {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                }
            }
            appends.iter().for_each(|(name, body)| batch.append(name, body));
            batch
        })
    }

    proptest! {
        #[test]
        fn a_group_reads_back_as_it_was_written(batches in prop::collection::vec(batch(), 1..8), first in 1u64..) {
            let mut payload = Vec::new();
            for batch in &batches {
                let before = payload.len();
                let place = batch.encode(&mut payload);
                prop_assert_eq!(payload.len() - before, batch.encoded_len());
                prop_assert_eq!(&place.of(&payload).to_owned(), batch);
            }
            let mut pages = vec![1; extent(payload.len())];
            seal(first, batches.len() as u32, &payload, &mut pages);
            prop_assert_eq!(pages.len(), extent(payload.len()));
            prop_assert_eq!(pages.len() % PAGE, 0);
            let Examined::Group(group) = examine(&pages) else { panic!("not a group") };
            prop_assert_eq!(group.first, first);
            let read = decode(&group.payload, group.count).unwrap();
            prop_assert_eq!(read.into_iter().map(BatchRef::to_owned).collect::<Vec<_>>(), batches);
        }

        #[test]
        fn decoding_never_panics(payload in prop::collection::vec(any::<u8>(), 0..200), count in any::<u32>()) {
            let _ = decode(&payload, count);
        }
    }
}
