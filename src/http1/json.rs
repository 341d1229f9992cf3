//! JSON of our answers, written straight into a buffer. Writes the same bytes as `serde_json`, which checks every byte
//! of every name for characters to escape: half of the cost of an answer.

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// Appends the value.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(Writer { out, plain: false })
}

/// A text without characters to escape, such as an id, a time or the name of a variant. Written without scanning it.
/// Other serializers get a string, or bytes if their format is not human-readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain<'a>(&'a [u8]);

impl<'a> Plain<'a> {
    /// `ascii` must consist of letters, digits, `-`, `_`, `.` and `:`. Other bytes would be written unescaped.
    #[inline]
    pub fn new(ascii: &'a [u8]) -> Self {
        debug_assert!(
            ascii.iter().all(|byte| matches!(byte, b'-' | b'_' | b'.' | b':') || byte.is_ascii_alphanumeric())
        );
        Self(ascii)
    }
}

impl Serialize for Plain<'_> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(PlainBytes::NAME, &PlainBytes(self.0))
    }
}

/// The content of a [`Plain`]. Only for this name our writer claims not to be human-readable, and so gets the bytes.
struct PlainBytes<'a>(&'a [u8]);

impl PlainBytes<'_> {
    const NAME: &'static str = "$json::Plain";
}

impl Serialize for PlainBytes<'_> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(str::from_utf8(self.0).map_err(ser::Error::custom)?)
        } else {
            serializer.serialize_bytes(self.0)
        }
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Whether the value is the content of a [`Plain`].
    plain: bool,
}

/// A list or an object being written.
struct Elements<'a> {
    out: &'a mut Vec<u8>,
    /// The bracket before the first element, a comma before the others.
    before: u8,
    end: &'static [u8],
}

const LIST_END: &[u8] = b"]";
const OBJECT_END: &[u8] = b"}";

impl<'a> Writer<'a> {
    fn list(self) -> Elements<'a> {
        Elements { out: self.out, before: b'[', end: LIST_END }
    }

    fn object(self) -> Elements<'a> {
        Elements { out: self.out, before: b'{', end: OBJECT_END }
    }

    fn number(self, number: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Opens an object whose only name is the variant's.
    fn variant(self, variant: &'static str) -> Writer<'a> {
        name(self.out, b'{', variant);
        self
    }
}

impl Elements<'_> {
    #[inline]
    fn next(&mut self) {
        self.out.push(std::mem::replace(&mut self.before, b','));
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.next();
        write(value, self.out)
    }

    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        name(self.out, std::mem::replace(&mut self.before, b','), key);
        write(value, self.out)
    }

    fn close(self) -> Result<(), Error> {
        // There was no element, so the opening bracket has not been written yet.
        if self.before != b',' {
            self.out.push(self.before);
        }
        self.out.extend_from_slice(self.end);
        Ok(())
    }
}

/// The name of a field or variant, after a bracket or a comma. Always inlined, so that the compiler finds that a usual
/// name has nothing to escape, and copies it as a constant.
#[inline(always)]
fn name(out: &mut Vec<u8>, before: u8, name: &'static str) {
    out.push(before);
    if name.bytes().fold(true, |all, byte| all & is_plain_byte(byte)) {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    } else {
        unusual_name(out, name);
    }
}

#[cold]
fn unusual_name(out: &mut Vec<u8>, name: &str) {
    text(out, name);
    out.push(b':');
}

#[inline]
fn text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        text.bytes().for_each(|byte| escape(out, byte));
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        0..0x20 => {
            let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Whether there is nothing to escape: no quote, backslash or control character. Checks eight bytes at a time.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    const fn all(byte: u8) -> u64 {
        ONES * byte as u64
    }
    // Sets the high bit of each byte below the limit. Bytes above the first hit may be wrong, which does not matter.
    let below = |word: u64, limit: u8| word.wrapping_sub(all(limit)) & !word & HIGH;
    let special = |word| below(word, b' ') | below(word ^ all(b'"'), 1) | below(word ^ all(b'\\'), 1);
    let (words, rest) = bytes.as_chunks();
    words.iter().all(|word| special(u64::from_ne_bytes(*word)) == 0) && rest.iter().all(|byte| is_plain_byte(*byte))
}

/// Does not short-circuit, so that the compiler can compute the result for a constant text.
#[inline(always)]
fn is_plain_byte(byte: u8) -> bool {
    (byte >= b' ') & (byte != b'"') & (byte != b'\\')
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Elements<'a>;
    type SerializeTupleVariant = Elements<'a>;
    type SerializeMap = Elements<'a>;
    type SerializeStruct = Elements<'a>;
    type SerializeStructVariant = Elements<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.number(value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        self.number(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.number(value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.number(value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        serde_json::to_writer(self.out, &value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        serde_json::to_writer(self.out, &value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        text(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        if !self.plain {
            return self.collect_seq(value);
        }
        self.out.reserve(value.len() + 2);
        self.out.push(b'"');
        self.out.extend_from_slice(value);
        self.out.push(b'"');
        Ok(())
    }

    fn is_human_readable(&self) -> bool {
        !self.plain
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(Writer { plain: name == PlainBytes::NAME, ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let Writer { out, .. } = self.variant(variant);
        write(value, out)?;
        out.extend_from_slice(OBJECT_END);
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a>, Error> {
        Ok(Elements { end: b"]}", ..self.variant(variant).list() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Elements<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Elements<'a>, Error> {
        Ok(Elements { end: b"}}", ..self.variant(variant).object() })
    }
}

impl SerializeMap for Elements<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        let start = self.out.len();
        write(key, self.out)?;
        match self.out.get(start) {
            Some(b'"') => {}
            Some(b'[' | b'{' | b'n') | None => return Err(ser::Error::custom("the name of a field must be a text")),
            // The key is a number or a boolean.
            Some(_) => {
                self.out.insert(start, b'"');
                self.out.push(b'"');
            }
        }
        self.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        write(value, self.out)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

macro_rules! elements {
    ($($of:ident::$method:ident;)*) => {$(
        impl $of for Elements<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

elements! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

macro_rules! fields {
    ($($of:ident)*) => {$(
        impl $of for Elements<'_> {
            type Ok = ();
            type Error = Error;

            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::*;
    use testkit::fuzz::fuzz;

    fn written<T: Serialize>(value: &T) -> String {
        let mut out = Vec::new();
        write(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~]{0,40}[\"\\\\\\x00-\\x1f\\x7fé]{0,3}[ -~]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_written_as_the_library_for_json_writes_it(value in value()) {
            prop_assert_eq!(written(&value), serde_json::to_string(&value).unwrap());
        }
    }

    #[test]
    fn fuzzed_values_are_written_as_the_library_for_json_writes_them() {
        let samples =
            [r#"{"a":[1,-2.5e3,"\u0000\\\"\n\u00e9",null,true,{}],"":[]}"#, "\u{7f}\u{0}plain text\\\"\u{2028}"];
        fuzz(samples, &["\\u001f", "\\\"", "1e308", "-0.0", "18446744073709551615", "{\"", "\":", "],["], |bytes| {
            let parsed = serde_json::from_slice::<Value>(bytes);
            let text = String::from_utf8_lossy(bytes).into_owned();
            // The text is also used as a key, so that it is read at offsets that are not multiples of eight.
            let value = parsed.as_ref().cloned().unwrap_or_else(|_| json!({ text.clone(): [text.get(1..), text] }));
            let ours = written(&value);
            assert_eq!(ours, serde_json::to_string(&value).unwrap());
            assert!(serde_json::from_str::<Value>(&ours).is_ok(), "{ours}");
            (parsed.is_ok(), ours.len().ilog2(), ours.matches('\\').count().min(9))
        });
    }

    #[derive(Serialize)]
    enum Variants {
        Unit,
        #[serde(rename = "new\\type")]
        Newtype(u8),
        Tuple(i32, char),
        Struct {
            #[serde(rename = "\"first\"\n")]
            first: Option<f32>,
            rest: (),
            tuple: (u16, bool),
        },
    }

    #[derive(Serialize)]
    struct Flattened<'a> {
        #[serde(flatten)]
        of: BTreeMap<u32, &'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u8>,
        empty: [u8; 0],
        variants: [Variants; 4],
    }

    struct Bytes(Vec<u8>);

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }

    fn is_written_the_same<T: Serialize>(value: &T) {
        assert_eq!(written(value), serde_json::to_string(value).unwrap());
    }

    proptest! {
        #[test]
        fn types_that_choose_their_form_are_written_as_the_library_for_json_writes_them(
            (address, bytes, long) in any::<(std::net::IpAddr, Vec<u8>, (i128, u128))>(),
            (narrow, wide) in any::<(f32, f64)>(),
            pause in any::<std::time::Duration>(),
        ) {
            is_written_the_same(&(address, Bytes(bytes), pause));
            is_written_the_same(&(narrow, wide, long));
            is_written_the_same(&BTreeMap::from([(long.0, address)]));
        }

        #[test]
        fn a_plain_text_is_a_string_to_every_format(plain in "[A-Za-z0-9._:-]{0,80}", bytes: Vec<u8>) {
            let ours = Plain::new(plain.as_bytes());
            prop_assert_eq!(written(&ours), serde_json::to_string(&plain).unwrap());
            prop_assert_eq!(serde_json::to_value(ours).unwrap(), Value::from(plain.as_str()));
            // A `Plain` is also used as a name, and beside other types that choose their form.
            let others = (Bytes(bytes), std::net::Ipv4Addr::LOCALHOST);
            let mixed = BTreeMap::from([(plain.as_str(), (Some(ours), others, [ours]))]);
            is_written_the_same(&mixed);
            is_written_the_same(&BTreeMap::from([(PlainKey(&plain), mixed)]));
        }
    }

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct PlainKey<'a>(&'a str);

    impl Serialize for PlainKey<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Plain::new(self.0.as_bytes()).serialize(serializer)
        }
    }

    #[test]
    fn only_texts_numbers_and_booleans_are_names() {
        fn is_the_same_as_name<K: Serialize + Ord>(key: K) {
            let map = BTreeMap::from([(key, 1)]);
            let ours = || {
                let mut out = Vec::new();
                write(&map, &mut out).map(|()| String::from_utf8(out).unwrap())
            };
            assert_eq!(ours().ok(), serde_json::to_string(&map).ok());
        }
        is_the_same_as_name("text\n");
        is_the_same_as_name('"');
        is_the_same_as_name(-7);
        is_the_same_as_name(true);
        is_the_same_as_name(Some(7_u128));
        is_the_same_as_name(None::<u8>);
        is_the_same_as_name(());
        is_the_same_as_name([1]);
        is_the_same_as_name(BTreeMap::from([(1, 2)]));
    }

    #[test]
    fn every_kind_of_type_is_written_as_the_library_for_json_writes_it() {
        let variants = [
            Variants::Unit,
            Variants::Newtype(7),
            Variants::Tuple(-1, '"'),
            Variants::Struct { first: Some(0.5), rest: (), tuple: (9, true) },
        ];
        let value = Flattened { of: BTreeMap::from([(7, "seven\n")]), left_out: None, empty: [], variants };
        assert_eq!(written(&value), serde_json::to_string(&value).unwrap());
        assert_eq!(written(&json!({})), "{}");
        assert_eq!(written(&json!([])), "[]");
    }
}
