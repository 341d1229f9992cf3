//! A secret is masked in every encoding that programs use.

use proptest::prelude::*;

use super::encoders::{ENCODERS, base};
use super::*;

const STANDARD_ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn shown_bytes(mask: &Mask, pieces: &[&[u8]]) -> Vec<u8> {
    let mut masker = mask.stream();
    let mut shown = Vec::new();
    for piece in pieces {
        masker.push(piece, &mut shown);
    }
    masker.finish(&mut shown);
    shown
}

/// Whether only the additions of the encoding are left of a secret: offsets, quotes, padding.
fn is_masked(name: &str, encoded: &[u8], shown: &[u8]) -> bool {
    let stars = shown.windows(3).position(|window| window == b"***");
    let Some(stars) = stars else { return false };
    let before = stars;
    let after = shown.len() - stars - 3;
    // An offset and the end of a word; the end of a dump's last line; quotes; padding.
    let (most_before, most_after) = match name {
        "xxd" | "xxd -g1" | "xxd -g4" | "hexdump -C" => (10, 2),
        "hexdump" | "od -x of four bytes" | "od -t x1z" | "od -b" | "od" => (8, 2),
        "base32" => (0, 9),
        _ => (2, 2),
    };
    assert!(encoded.starts_with(&shown[..before]), "{name} changes what is before the secret");
    before <= most_before && after <= most_after
}

#[test]
fn each_encoding_of_a_secret_is_masked() {
    for value in [
        "it's \"<ä€𝄞>\" \\ & so/on + 100%; $x",
        "first \"line\"\nsecond/line\twith more of it",
        "deadbeefdeadbeefcafe1234",
        "a+b/c==&d=e f",
        "'quoted'",
        "%41%42&lt;\\u0041\\n",
    ] {
        let mask = secrets(&[value]);
        for (name, encode) in ENCODERS {
            let encoded = encode(value);
            let text = String::from_utf8_lossy(&encoded).into_owned();
            let shown = shown_bytes(&mask, &[&encoded]);
            let left = String::from_utf8_lossy(&shown).into_owned();
            assert!(is_masked(name, &encoded, &shown), "{name}: {text:?} is shown as {left:?}");
        }
    }
}

#[test]
fn the_text_beside_a_dump_is_masked_too() {
    let mask = secrets(&["correct-horse-battery-staple"]);
    let dump = "00000000  78 3d 63 6f 72 72 65 63  74 2d 68 6f 72 73 65 2d  |x=correct-horse-|\n\
                00000010  62 61 74 74 65 72 79 2d  73 74 61 70 6c 65 0a 00  |battery-staple..|\n\
                00000020  6e 65 78 74                                       |next|\n";
    let shown = shown(&mask, &[dump.as_bytes()]);
    assert!(shown.starts_with("00000000  78 3d ***") && shown.ends_with("|next|\n"), "{shown}");
    assert!(!shown.contains("correct") && !shown.contains("battery") && !shown.contains("staple"), "{shown}");
}

#[test]
fn a_dump_that_follows_another_one_is_masked() {
    let value = "s3cret/value & <more> of it";
    let mask = secrets(&[value]);
    let dumps =
        ENCODERS.iter().filter(|(name, _)| name.starts_with("od") || name.contains("dump") || name.contains("xxd"));
    for (first, encode) in dumps.clone() {
        for (second, encode_again) in dumps.clone() {
            let text = [encode(value), b"000001b\n".to_vec(), encode_again(value)].concat();
            let left = String::from_utf8(shown_bytes(&mask, &[&text])).unwrap();
            assert!(left.matches("***").count() == 2 && left.len() <= 40, "{first}, {second}: {left}");
        }
    }
}

#[test]
fn text_that_only_looks_encoded_is_not_changed() {
    let mask = secrets(&["correct-horse-battery-staple", "hunter2!", "first line\nsecond line\n"]);
    for text in [
        "100%\n50 %2 &amp; &c \\o/ it's 'quoted' C:\\new\\table a+b=c \\",
        "00000000: 6973 2069 7420 7472 7565 2c20 7468 6174  is it true, that\n00000010: 00ff\n",
        "2026-11-16T00:06:42Z  200 404 0x1f be ad face deadbeef de:ad:be:ef 12 34 56\n",
        "dGhpcyBpcyBub3QgdGhlIHNlY3JldCwgYnV0IGl0IGlzIGxvbmcgZW5vdWdoIHRvIGJlIGRlY29k\nZWQ=\n",
        "/usr/lib/python3/dist-packages/some_module-1.2.3/__init__.py\n",
        "\0h\0e\0l\0l\0o\0\n",
        "&#104;&#117;&#110;&#116; %68%75%6e",
    ] {
        assert_eq!(shown(&mask, &[text.as_bytes()]), text);
        let pieces: Vec<_> = text.as_bytes().chunks(1).collect();
        assert_eq!(shown(&mask, &pieces), text);
    }
}

/// Encoded by programs on this machine, if installed.
#[test]
fn real_programs_write_nothing_that_is_shown() {
    let value = "it's \"s3cret\" & <so/on> + 100%; $x `y`, long enough for three lines";
    let mask = secrets(&[value]);
    for command in [
        r#"printf %q "$SECRET""#,
        r#"printf %s "${SECRET@Q}""#,
        "set -x; : \"$SECRET\"",
        r#"printf %s "$SECRET" | xxd"#,
        r#"printf %s "$SECRET" | xxd -p"#,
        r#"printf %s "$SECRET" | xxd -g1 -u"#,
        r#"printf %s "$SECRET" | xxd -i"#,
        r#"printf %s "$SECRET" | hexdump"#,
        r#"printf %s "$SECRET" | hexdump -C"#,
        r#"printf %s "$SECRET" | od"#,
        r#"printf %s "$SECRET" | od -A x -t x1z"#,
        r#"printf %s "$SECRET" | od -A n -t x2"#,
        r#"printf %s "$SECRET" | base64 -w 64"#,
        r#"printf %s "$SECRET" | base32"#,
    ] {
        let script = format!("exec 2>&1; {command}");
        let ran = std::process::Command::new("bash").args(["-c", &script]).env("SECRET", value).output();
        let Ok(output) = ran.map(|output| output.stdout) else { continue };
        if output.is_empty() || String::from_utf8_lossy(&output).contains("not found") {
            continue;
        }
        let left = String::from_utf8_lossy(&shown_bytes(&mask, &[&output])).into_owned();
        let kept = left.len() - left.matches("***").count() * 3;
        assert!(left.contains("***") && kept <= 60, "{command}: {left}");
        for piece in ["s3cret", "73 33 63", "7333", "enough", "lines", "6c 69 6e 65"] {
            assert!(!left.contains(piece), "{command}: {left}");
        }
    }
}

fn any_secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{8,80}",
        "[a-zA-Z0-9+/=_-]{8,100}",
        "[a-f0-9]{8,64}",
        "[ -~\n\t]{8,60}[!-~]",
        "[äöüß€ a-z'\"&<>%\\\\/]{8,40}",
    ]
    .prop_filter("its lines and its ends are found by themselves", |value| {
        value.trim_end_matches('\n') == value && value.lines().all(|line| line.len() >= 8)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_encoder_gets_a_secret_through_however_the_output_is_cut(
        value in any_secret(),
        encoder in 0..ENCODERS.len(),
        before in "[ghjkmz;]{0,20}[;\n]",
        after in "[;\n][ghjkmz;]{0,20}",
        lengths in proptest::collection::vec(1usize..40, 0..30),
    ) {
        let (name, encode) = ENCODERS[encoder];
        let encoded = encode(&value);
        let mask = secrets(&[&value]);
        let whole = [before.as_bytes(), &encoded, after.as_bytes()].concat();
        let shown = shown_bytes(&mask, &cut(&whole, &lengths));
        // The surrounding text is shown, unless it belongs to the last line of a dump.
        prop_assert!(shown.starts_with(before.as_bytes()), "{}: {}", name, String::from_utf8_lossy(&shown));
        let tail = &after.as_bytes()[1..];
        prop_assert!(shown.ends_with(tail), "{}: {}", name, String::from_utf8_lossy(&shown));
        let inner = &shown[before.len()..shown.len() - tail.len()];
        let is_masked = is_masked(name, &encoded, inner);
        prop_assert!(is_masked, "{}: {:?} is shown as {:?}", name, String::from_utf8_lossy(&encoded), String::from_utf8_lossy(inner));
    }

    #[test]
    fn base64_of_any_alignment_is_masked_in_lines_of_any_length(
        value in any_secret(),
        before in "[ -~]{0,9}",
        after in "[ -~]{0,9}",
        columns in 20usize..80,
        lengths in proptest::collection::vec(1usize..40, 0..30),
    ) {
        let text = base(&format!("{before}{value}{after}"), STANDARD_ALPHABET, 6, columns);
        let shown = shown_bytes(&secrets(&[&value]), &cut(&text, &lengths));
        let left = String::from_utf8(shown).unwrap();
        let most = (before.len() + after.len()) * 8 / 6 + 6;
        prop_assert!(left.contains("***") && left.len() <= most + 3, "{left}");
    }

    #[test]
    fn output_without_secrets_is_shown_byte_for_byte(
        value in "[A-Z]{2}[!-~]{14,40}",
        text in proptest::collection::vec(prop_oneof![
            "[ -~\n]{0,60}", "[0-9a-f ]{0,40}\n", "(%[0-9a-f]{2}|&#[0-9]{2};|\\\\u00[0-9a-f]{2}|\\\\|'\\\\''|[a-z+]){0,20}",
            "[A-Za-z0-9+/]{0,80}=?\n", "([a-z]\0){0,10}",
        ], 0..12),
        lengths in proptest::collection::vec(1usize..80, 0..30),
    ) {
        let text = text.concat();
        prop_assume!(!text.contains(&value));
        let shown = shown_bytes(&secrets(&[&value]), &cut(text.as_bytes(), &lengths));
        prop_assert_eq!(String::from_utf8_lossy(&shown), text);
    }
}
