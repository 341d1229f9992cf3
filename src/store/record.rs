//! The encoding of all records: a version byte, then postcard. Handles versions, but no concrete types.
//!
//! A record grows by optional fields after its form (`records::later`), which older programs skip, or by a new version:
//! then the new form is written, and [`Record::read_older`] still reads the previous one. `testkit::format_4` has bytes
//! of every readable version.

use std::fmt::Display;

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

use super::contract::StoreError;

/// A stored form. It may borrow from the bytes that it is decoded from.
pub trait Record<'a>: Sized {
    /// The record's name in error messages: "a {KIND} record".
    const KIND: &'static str;
    /// The written version.
    const VERSION: u8 = 1;
    /// The oldest readable version.
    const OLDEST: u8 = 1;

    /// Reads a version before [`Self::VERSION`].
    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let _ = form;
        Err(wrong_version::<Self>(version))
    }

    /// Reads [`Self::VERSION`]. Ignores bytes after the form, which a newer program may have written.
    fn read_newest(form: &'a [u8]) -> Result<Self, RecordError>
    where
        Self: Deserialize<'a>,
    {
        decode_form::<Self, Self>(form)
    }

    fn write_form(&self, out: &mut Vec<u8>)
    where
        Self: Serialize,
    {
        append(self, out);
    }

    /// The size of an ordinary record, reserved so that writing one need not grow the buffer.
    fn usual_bytes(&self) -> usize {
        384
    }
}

/// Why a record could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read a {kind} record: {fault}")]
pub struct RecordError {
    pub kind: &'static str,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is empty")]
    Empty,
    #[error("it has version {found} and this server reads up to {newest}: a newer version wrote it; start that one")]
    Newer { found: u8, newest: u8 },
    #[error("it has version {found} and this server reads from {oldest} on; start the version that wrote it")]
    Older { found: u8, oldest: u8 },
    #[error("its key is not that of such a record")]
    Key,
    #[error("its bytes do not match its version: {0}")]
    Form(#[from] postcard::Error),
    #[error("{0}")]
    Value(String),
}

pub fn encode<'a, R: Record<'a> + Serialize>(record: &R) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(record, &mut bytes);
    bytes
}

/// Appends the record to a buffer, such as a batch.
pub fn write<'a, R: Record<'a> + Serialize>(record: &R, out: &mut Vec<u8>) {
    out.reserve(record.usual_bytes());
    out.push(R::VERSION);
    record.write_form(out);
}

/// Appends one part of a record that consists of parts.
pub fn append(piece: &impl Serialize, out: &mut Vec<u8>) {
    postcard::serialize_with_flavor(piece, Appending(out))
        .expect("stored forms have no maps of unknown length, and memory does not fail");
}

/// postcard's output. postcard's own flavors extend a vector by an iterator over bytes, which is a slow loop unless the
/// compiler optimizes it.
struct Appending<'a>(&'a mut Vec<u8>);

impl Flavor for Appending<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // Most numbers and lengths are a single byte, for which `push` is faster than a copy.
        match bytes {
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Decodes the first part, and returns the bytes after it.
pub fn take<'a, R: Record<'a>, P: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(P, &'a [u8]), RecordError> {
    postcard::take_from_bytes(bytes).map_err(|error| of::<R>(error.into()))
}

/// A number, and the bytes after it.
pub type Numbered<'a> = (u64, &'a [u8]);

/// Reads a part that is not followed by anything.
pub fn read_piece<'a, P: Deserialize<'a>>(bytes: &'a [u8]) -> Option<P> {
    postcard::from_bytes(bytes).ok()
}

/// Splits off a number and the bytes after it, without decoding those. Avoids serde, since records of many parts do
/// this for each part.
pub fn take_numbered<'a, R: Record<'a>>(bytes: &'a [u8]) -> Result<(Numbered<'a>, &'a [u8]), RecordError> {
    let taken = take_varint(bytes).and_then(|(number, rest)| {
        let (length, rest) = take_varint(rest)?;
        let length = usize::try_from(length).map_err(|_| postcard::Error::DeserializeBadVarint)?;
        let (piece, rest) = rest.split_at_checked(length).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        Ok(((number, piece), rest))
    });
    taken.map_err(|error| of::<R>(error.into()))
}

/// A number in postcard's encoding: seven bits per byte, lowest first, with the high bit set if more follow.
fn take_varint(bytes: &[u8]) -> postcard::Result<(u64, &[u8])> {
    const BYTES_MAX: usize = 10;
    let mut number = 0;
    for (index, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // The last byte has room for only one bit.
            let fits = index + 1 < BYTES_MAX || *byte <= 1;
            return if fits { Ok((number, &bytes[index + 1..])) } else { Err(postcard::Error::DeserializeBadVarint) };
        }
    }
    let is_cut = bytes.len() < BYTES_MAX;
    Err(if is_cut { postcard::Error::DeserializeUnexpectedEnd } else { postcard::Error::DeserializeBadVarint })
}

pub fn decode<'a, R: Record<'a> + Deserialize<'a>>(bytes: &'a [u8]) -> Result<R, RecordError> {
    let (version, form) = split::<R>(bytes)?;
    if version == R::VERSION { R::read_newest(form) } else { R::read_older(version, form) }
}

/// Decodes a record and converts it to a value.
pub fn read<'a, R: Record<'a> + Deserialize<'a>, T: TryFrom<R, Error: Display>>(
    bytes: &'a [u8],
) -> Result<T, RecordError> {
    T::try_from(decode::<R>(bytes)?).map_err(invalid::<R>)
}

/// Decodes only the beginning of a record, which all its versions have in common.
pub fn decode_beginning<'a, R: Record<'a>, B: Deserialize<'a>>(bytes: &'a [u8]) -> Result<B, RecordError> {
    Ok(take::<R, B>(split::<R>(bytes)?.1)?.0)
}

/// Decodes the bytes after the version as the form of one version. For [`Record::read_older`].
pub fn decode_form<'a, R: Record<'a>, F: Deserialize<'a>>(form: &'a [u8]) -> Result<F, RecordError> {
    postcard::from_bytes(form).map_err(|error| of::<R>(error.into()))
}

/// The version of a record, after checking that it is supported, and the bytes after it.
pub fn split<'a, R: Record<'a>>(bytes: &[u8]) -> Result<(u8, &[u8]), RecordError> {
    let (version, form) = bytes.split_first().ok_or_else(|| of::<R>(Fault::Empty))?;
    let is_read = (R::OLDEST..=R::VERSION).contains(version);
    if is_read { Ok((*version, form)) } else { Err(wrong_version::<R>(*version)) }
}

/// The error for a record whose form is correct but one of whose values is not.
pub fn invalid<'a, R: Record<'a>>(reason: impl Display) -> RecordError {
    of::<R>(Fault::Value(format!("one of its values {reason}")))
}

/// The error for a record found under an invalid key.
pub fn misplaced<'a, R: Record<'a>>() -> RecordError {
    of::<R>(Fault::Key)
}

fn wrong_version<'a, R: Record<'a>>(found: u8) -> RecordError {
    let (oldest, newest) = (R::OLDEST, R::VERSION);
    of::<R>(if found > newest { Fault::Newer { found, newest } } else { Fault::Older { found, oldest } })
}

fn of<'a, R: Record<'a>>(fault: Fault) -> RecordError {
    RecordError { kind: R::KIND, fault }
}

impl RecordError {
    /// Adds the record's key, for callers that read many records.
    pub fn under(self, key: &[u8]) -> StoreError {
        StoreError::Read(format!("{self} (it lies under {})", key.escape_ascii()))
    }
}

impl From<RecordError> for StoreError {
    fn from(error: RecordError) -> Self {
        StoreError::Read(error.to_string())
    }
}

/// Declares kinds of records with one readable version: 1, unless another one is named.
#[macro_export]
macro_rules! records {
    ($($form:ty = $kind:literal $(version $version:literal)?),* $(,)?) => {
        $(impl<'a> $crate::record::Record<'a> for $form {
            const KIND: &'static str = $kind;
            $(const VERSION: u8 = $version;
            const OLDEST: u8 = $version;)?
        })*
    };
}
pub use records;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The first version of a record.
    #[derive(Serialize, Deserialize)]
    struct NoteV1<'a> {
        text: &'a str,
    }

    /// The second version, with an added field and a new type for the number.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct NoteV2<'a> {
        text: &'a str,
        stars: u8,
    }

    impl<'a> Record<'a> for NoteV1<'a> {
        const KIND: &'static str = "note";
    }

    impl<'a> Record<'a> for NoteV2<'a> {
        const KIND: &'static str = "note";
        const VERSION: u8 = 2;

        fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
            let NoteV1 { text } = decode_form::<Self, _>(form)?;
            Ok(Self { text, stars: 0 })
        }
    }

    /// A version that cannot read its predecessors.
    #[derive(Debug, Deserialize)]
    struct NoteV3;

    impl Record<'_> for NoteV3 {
        const KIND: &'static str = "note";
        const VERSION: u8 = 3;
        const OLDEST: u8 = 3;
    }

    #[test]
    fn a_record_that_has_grown_is_read_in_both_versions() {
        let (old, new) = (encode(&NoteV1 { text: "hi" }), encode(&NoteV2 { text: "hi", stars: 5 }));
        assert_eq!((old[0], new[0]), (1, 2));
        assert_eq!(decode::<NoteV2<'_>>(&old).unwrap(), NoteV2 { text: "hi", stars: 0 });
        assert_eq!(decode::<NoteV2<'_>>(&new).unwrap(), NoteV2 { text: "hi", stars: 5 });
        for bytes in [&old, &new] {
            assert_eq!(decode_beginning::<NoteV2<'_>, &str>(bytes).unwrap(), "hi");
        }
    }

    #[test]
    fn a_record_of_another_version_is_refused_and_names_the_versions() {
        let new = encode(&NoteV2 { text: "hi", stars: 5 });
        let refused = |fault: &RecordError| fault.to_string();
        let newer = decode::<NoteV1<'_>>(&new).err().unwrap();
        assert_eq!(newer.fault, Fault::Newer { found: 2, newest: 1 });
        assert!(refused(&newer).contains("note record: it has version 2 and this server reads up to 1"), "{newer}");
        let older = decode::<NoteV3>(&new).unwrap_err();
        assert_eq!(older.fault, Fault::Older { found: 2, oldest: 3 });
        assert!(refused(&older).contains("version 2") && refused(&older).contains("from 3 on"), "{older}");
    }

    #[test]
    fn a_numbered_piece_is_taken_as_serde_takes_it() {
        let same = |bytes: &[u8]| {
            let quick = take_numbered::<NoteV1<'_>>(bytes);
            assert_eq!(quick, take::<NoteV1<'_>, (u64, &[u8])>(bytes), "{bytes:?}");
            quick.is_ok()
        };
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            for length in [0, 1, 127, 128, 300] {
                let mut bytes = Vec::new();
                append(&(number, vec![7_u8; length]), &mut bytes);
                assert!(same(&[&bytes[..], &[9]].concat()), "something comes after it");
                assert!((0..bytes.len()).all(|cut| !same(&bytes[..cut])), "some of it is missing");
            }
        }
        for (last, fits) in [(0, true), (1, true), (2, false), (0x7f, false), (0x80, false)] {
            assert_eq!(same(&[&[0xff; 9][..], &[last, 0, 0]].concat()), fits, "a number of more than 64 bits");
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = encode(&NoteV2 { text: "hi", stars: 5 });
        assert_eq!(decode::<NoteV2<'_>>(&[]).unwrap_err().fault, Fault::Empty);
        for length in 1..bytes.len() {
            assert!(matches!(decode::<NoteV2<'_>>(&bytes[..length]).unwrap_err().fault, Fault::Form(_)), "{length}");
        }
    }
}
