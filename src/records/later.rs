//! Optional fields added to a form later. They follow the form, each after its number, so neither the form nor the
//! forms that contain it need a new version: a program skips fields that it does not know.
//!
//! A number is never reused. A program that skips a field must still behave correctly.

use serde::{Deserialize, Serialize};

use domain::Malformed;
use store::record::{self, Record, RecordError};

/// A form with its later fields. Inside another form, their list is always written, even if empty (one zero byte); at
/// the end of a record, only if it is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growing<F> {
    pub form: F,
    pub later: Later,
}

impl<F> From<F> for Growing<F> {
    fn from(form: F) -> Self {
        Self { form, later: Later::default() }
    }
}

impl<'a, F: Record<'a> + Serialize + Deserialize<'a>> Record<'a> for Growing<F> {
    const KIND: &'static str = F::KIND;
    const VERSION: u8 = F::VERSION;
    const OLDEST: u8 = F::OLDEST;

    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(F::read_older(version, form)?.into())
    }

    fn read_newest(form: &'a [u8]) -> Result<Self, RecordError> {
        let (form, rest) = record::take::<F, F>(form)?;
        let later = if rest.is_empty() { Later::default() } else { record::decode_form::<F, _>(rest)? };
        Ok(Self { form, later })
    }

    fn write_form(&self, out: &mut Vec<u8>) {
        self.form.write_form(out);
        if !self.later.0.is_empty() {
            record::append(&self.later, out);
        }
    }

    fn usual_bytes(&self) -> usize {
        self.form.usual_bytes()
    }
}

impl<F> Growing<F> {
    /// Adds a field, if it has a value.
    pub fn with(mut self, number: u64, field: Option<impl Serialize>) -> Self {
        if let Some(field) = field {
            let mut bytes = Vec::new();
            record::append(&field, &mut bytes);
            self.later.0.push((number, bytes));
        }
        self
    }
}

/// The fields that have a value, each as its number and its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later(Vec<(u64, Vec<u8>)>);

impl Later {
    pub fn get<'a, T: Deserialize<'a>>(&'a self, number: u64) -> Result<Option<T>, Malformed> {
        let Some((_, bytes)) = self.0.iter().find(|(known, _)| *known == number) else { return Ok(None) };
        record::read_piece(bytes).map(Some).ok_or(Malformed("has a later field that cannot be read"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::stored::{self, Stored, stored};
    use store::record::records;

    records! { LeafV1<'a> = "leaf", GrownLeafV1<'a> = "leaf" }

    #[derive(Debug, Clone, PartialEq)]
    struct Leaf {
        name: String,
    }

    stored! { struct LeafV1 of Leaf { name: String } later {} }

    /// The leaf form with two later fields.
    #[derive(Debug, Clone, PartialEq)]
    struct GrownLeaf {
        name: String,
        note: Option<String>,
        size: Option<u32>,
    }

    stored! {
        struct GrownLeafV1 of GrownLeaf { name: String }
        later { note: Option<String> = 1, size: Option<u32> = 7 }
    }

    /// A form with leaves in the middle.
    #[derive(Debug, PartialEq)]
    struct Tree<L> {
        leaves: Vec<L>,
        height: u64,
    }

    fn leaf() -> Leaf {
        Leaf { name: "oak".to_owned() }
    }

    fn grown(note: Option<&str>, size: Option<u32>) -> GrownLeaf {
        GrownLeaf { name: "oak".to_owned(), note: note.map(str::to_owned), size }
    }

    fn within<'a, L: Stored<Form<'a>: Serialize>>(leaf: &'a L) -> Vec<u8> {
        let mut bytes = Vec::new();
        record::append(&(vec![leaf.to_form(), leaf.to_form()], 7_u64), &mut bytes);
        bytes
    }

    fn read_within<'a, L: Stored<Form<'a>: Deserialize<'a>>>(bytes: &'a [u8]) -> Tree<L> {
        let (leaves, height): (Vec<L::Form<'a>>, u64) = record::read_piece(bytes).unwrap();
        Tree { leaves: leaves.into_iter().map(|form| L::from_form(form).unwrap()).collect(), height }
    }

    #[test]
    fn a_record_without_later_fields_is_as_before() {
        assert_eq!(record::encode(&leaf().to_form()), b"\x01\x03oak");
        assert_eq!(record::encode(&grown(None, None).to_form()), b"\x01\x03oak");
        assert_eq!(stored::read::<GrownLeaf>(b"\x01\x03oak").unwrap(), grown(None, None));
    }

    #[test]
    fn later_fields_are_read_by_those_who_know_them_and_passed_over_by_others() {
        for new in [grown(Some("old"), None), grown(None, Some(300)), grown(Some(""), Some(0))] {
            let bytes = record::encode(&new.to_form());
            assert_eq!(stored::read::<GrownLeaf>(&bytes).unwrap(), new);
            assert_eq!(stored::read::<Leaf>(&bytes).unwrap(), leaf());
            let bytes = within(&new);
            assert_eq!(read_within(&bytes), Tree { leaves: vec![new.clone(), new], height: 7 });
            assert_eq!(read_within(&bytes), Tree { leaves: vec![leaf(), leaf()], height: 7 });
        }
        assert_eq!(within(&leaf()), b"\x02\x03oak\0\x03oak\0\x07", "one byte each");
        assert_eq!(
            read_within(&within(&leaf())),
            Tree { leaves: vec![grown(None, None), grown(None, None)], height: 7 }
        );
    }

    #[test]
    fn damaged_later_fields_are_refused() {
        let bytes = record::encode(&grown(Some("old"), Some(300)).to_form());
        for length in 6..bytes.len() {
            assert!(stored::read::<GrownLeaf>(&bytes[..length]).is_err(), "{length}");
        }
        // A number of five bytes is found where a text is expected.
        assert!(stored::read::<GrownLeaf>(b"\x01\x03oak\x01\x01\x01\x05").is_err());
    }
}
