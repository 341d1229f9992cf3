#![allow(clippy::unwrap_used)]

mod decoding;
mod encoders;
mod fuzz;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

fn secrets(values: &[&str]) -> Mask {
    Mask::new(values.iter().copied()).unwrap()
}

/// The masked text of output that arrives in these pieces.
fn shown(secrets: &Mask, pieces: &[&[u8]]) -> String {
    let mut masker = secrets.stream();
    let mut shown = Vec::new();
    for piece in pieces {
        masker.push(piece, &mut shown);
    }
    masker.finish(&mut shown);
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_secret_is_masked_wherever_the_output_is_cut() {
    let secrets = secrets(&["hunter2!"]);
    let text = b"pass=hunter2! again hunter2!hunter2!, and hunter3";
    for first in 0..text.len() {
        for second in first..text.len() {
            let pieces = [&text[..first], &text[first..second], &text[second..]];
            assert_eq!(shown(&secrets, &pieces), "pass=*** again ***, and hunter3");
        }
    }
}

#[test]
fn overlapping_secrets_are_masked_together() {
    assert_eq!(shown(&secrets(&["abcdef", "defghi"]), &[b"<abcdefghi>"]), "<***>");
    assert_eq!(shown(&secrets(&["abc", "abcdef", "cde"]), &[b"<abcdex abcdef>"]), "<***x ***>");
    assert_eq!(shown(&secrets(&["aa"]), &[b"aaaaa", b"aaab"]), "***b");
}

#[test]
fn only_a_possible_beginning_of_a_secret_is_held_back() {
    let mut masker = secrets(&["hunter2!"]).stream();
    let mut shown = Vec::new();
    masker.push(b"Password for hunt: ", &mut shown);
    assert_eq!(shown, b"Password for hunt: ");
    masker.push(b"hunt", &mut shown);
    assert_eq!(shown, b"Password for hunt: ");
    masker.push(b"s", &mut shown);
    assert_eq!(shown, b"Password for hunt: hunts");
}

#[test]
fn the_lines_and_the_url_encoding_of_a_secret_are_masked() {
    let key = secrets(&["-----BEGIN-----\nMIIEpAIBAAKCAQEA\n-----END-----\n", "a b/c", "x\n"]);
    assert_eq!(shown(&key, &[b"MIIEpAIBAAKCAQEA, a%20b%2Fc, <x>"]), "***, ***, <***>");
}

#[test]
fn encodings_of_a_secret_are_masked() {
    let secrets = secrets(&["it's \"<ä€𝄞>\" \\ & so on\n", "first \"line\"\nsecond \"line\"\n"]);
    for form in [
        r#"it's \"<ä€𝄞>\" \\ & so on"#,
        r#"it's \"<\u00e4\u20ac\ud834\udd1e>\" \\ & so on"#,
        r#"it's \"\u003cä€𝄞\u003e\" \\ \u0026 so on"#,
        r#"it'\''s "<ä€𝄞>" \ & so on"#,
        r#"it'"'"'s "<ä€𝄞>" \ & so on"#,
        "it%27s+%22%3C%C3%A4%E2%82%AC%F0%9D%84%9E%3E%22+%5C+%26+so+on",
        "6974277320223cc3a4e282acf09d849e3e22205c202620736f206f6e",
        "6974277320223CC3A4E282ACF09D849E3E22205C202620736F206F6E",
    ] {
        assert_eq!(shown(&secrets, &[b"<", form.as_bytes(), b">"]), "<***>", "{form}");
    }
    assert_eq!(shown(&secrets, &[br#"second \"line\", first \"line\"\nsecond \"line\""#]), "***, ***");
}

#[test]
fn a_secret_with_control_characters_is_masked_in_json() {
    assert_eq!(shown(&secrets(&["a\tb\u{1}\r\nc\u{8}\u{c}d"]), &[br"<a\tb\u0001\r\nc\b\fd>"]), "<***>");
}

#[test]
fn a_secret_that_the_end_cuts_off_is_masked_unless_little_of_it_is_there() {
    let secrets = secrets(&["correct horse battery staple"]);
    assert_eq!(shown(&secrets, &[b"it is correct ho"]), "it is ***");
    assert_eq!(shown(&secrets, &[b"it is correct"]), "it is correct");
    let encoded = STANDARD.encode("correct horse battery staple");
    assert_eq!(shown(&secrets, &[b"it is ", &encoded.as_bytes()[..20], b"\r\n"]), "it is ***\r\n");
}

#[test]
fn a_line_is_not_held_back_for_long_because_it_ends_like_an_encoded_secret_begins() {
    let value = "correct horse battery staple";
    let secrets = secrets(&[value]);
    let encoded = STANDARD.encode(value);
    let mut masker = secrets.stream();
    let mut shown = Vec::new();
    masker.push(format!("done {}\n", &encoded[..2]).as_bytes(), &mut shown);
    masker.idle(&mut shown);
    assert_eq!(shown, format!("done {}\n", &encoded[..2]).as_bytes());
    shown.clear();
    masker.push(format!("done {}\n", &encoded[..20]).as_bytes(), &mut shown);
    masker.idle(&mut shown);
    assert_eq!(shown, b"done ");
}

#[test]
fn nothing_is_masked_without_secrets() {
    assert_eq!(shown(&secrets(&["", ""]), &[b"*", b"plain"]), "*plain");
}

/// Breaks lines like the program `base64`.
fn wrapped(text: &str, columns: usize, line_break: &str) -> String {
    text.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(line_break)
}

fn cut<'a>(text: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, left) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = left;
    }
    pieces.push(rest);
    pieces
}

proptest! {
    #[test]
    fn no_secret_is_shown_in_whatever_pieces_it_comes(
        values in proptest::collection::vec("[ab]{1,6}", 1..4),
        text in "[abc]{0,60}",
        lengths in proptest::collection::vec(0usize..9, 0..20),
    ) {
        let values = values.iter().map(String::as_str).collect::<Vec<_>>();
        let secrets = secrets(&values);
        let whole = shown(&secrets, &[text.as_bytes()]);
        prop_assert_eq!(&shown(&secrets, &cut(text.as_bytes(), &lengths)), &whole, "cutting it changes what is shown");
        for value in &values {
            prop_assert!(!whole.contains(value));
        }
        // Exactly the characters outside all occurrences are shown.
        let mut covered = vec![false; text.len()];
        for value in &values {
            for start in 0..text.len() {
                if text[start..].starts_with(value) {
                    covered[start..start + value.len()].fill(true);
                }
            }
        }
        let mut expected = String::new();
        for (index, c) in text.chars().enumerate() {
            if !covered[index] {
                expected.push(c);
            } else if index == 0 || !covered[index - 1] {
                expected.push_str("***");
            }
        }
        prop_assert_eq!(whole, expected);
    }

    #[test]
    fn no_encoding_of_a_secret_is_shown(
        value in "[ -~]{4,120}",
        before in proptest::collection::vec(any::<u8>(), 0..60),
        after in proptest::collection::vec(any::<u8>(), 0..60),
        columns in prop_oneof![Just(usize::MAX), Just(76), Just(64)],
        line_break in prop_oneof![Just("\n"), Just("\r\n")],
        url_safe in any::<bool>(),
        padded in any::<bool>(),
        lengths in proptest::collection::vec(0usize..50, 0..12),
    ) {
        let bytes = [&before[..], value.as_bytes(), &after].concat();
        let engine = match (url_safe, padded) {
            (false, false) => &STANDARD_NO_PAD,
            (false, true) => &STANDARD,
            (true, false) => &URL_SAFE_NO_PAD,
            (true, true) => &URL_SAFE,
        };
        let encoded = engine.encode(&bytes);
        let text = wrapped(&encoded, columns, line_break);
        let shown = shown(&secrets(&[&value]), &cut(text.as_bytes(), &lengths));
        let (first, last) = ((before.len() * 8).div_ceil(6), (before.len() + value.len()) * 8 / 6);
        let left = shown.replace(['\r', '\n'], "");
        prop_assert!(left.contains("***"), "{left}");
        // Everything before the first character that the value determines may be shown, and everything after the last.
        let (head, tail) = left.split_once("***").unwrap();
        prop_assert!(head.len() <= first && encoded.starts_with(head));
        let tail = tail.rsplit("***").next().unwrap();
        prop_assert!(tail.len() <= encoded.len() - last && encoded.ends_with(tail));
    }
}
