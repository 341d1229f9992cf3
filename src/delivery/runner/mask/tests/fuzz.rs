//! For any output of a step, in any pieces: no secret is shown, nothing is invented, and without secrets nothing
//! changes.

use super::encoders::ENCODERS;
use super::*;
use testkit::fuzz::fuzz_with;

/// Few, since each input takes as long as many inputs elsewhere.
const INPUTS: u64 = 400;
const SECRETS: [&str; 4] = [
    "hunter2!",
    "correct horse battery staple",
    "a\"b\\c<d>&e'f=g",
    "-----BEGIN-----\nMIIEpAIBAAKCAQEA\n-----END-----",
];

fn samples() -> Vec<Vec<u8>> {
    let mut samples = vec![b"plain output\nwithout any secret\n".to_vec()];
    for value in SECRETS {
        samples.push([b"it is ", value.as_bytes(), b"; and\n"].concat());
        samples.push(STANDARD.encode(format!("Basic ana:{value}")).into_bytes());
        samples.extend(ENCODERS.iter().map(|(_, encode)| [b"<".to_vec(), encode(value), b">\n".to_vec()].concat()));
    }
    samples
}

/// Pieces whose lengths depend only on the bytes, so that an input is always split in the same way.
fn pieces(output: &[u8], salt: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = output;
    while !rest.is_empty() {
        let length = 1 + (usize::from(rest[0]) * 7 + rest.len() * 13 + salt) % 23;
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn masked(mask: &Mask, pieces: &[&[u8]], idle: bool) -> Vec<u8> {
    let mut masker = mask.stream();
    let mut shown = Vec::new();
    for piece in pieces {
        masker.push(piece, &mut shown);
        if idle {
            masker.idle(&mut shown);
        }
    }
    masker.finish(&mut shown);
    shown
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

fn stars(shown: &[u8]) -> usize {
    String::from_utf8_lossy(shown).matches("***").count()
}

/// The number of shown bytes without the stars.
fn left(shown: &[u8]) -> usize {
    shown.len() - 3 * stars(shown)
}

#[test]
fn fuzzed_output_shows_no_secret_and_nothing_that_was_not_printed() {
    let (mask, none) = (secrets(&SECRETS), secrets(&[]));
    fuzz_with(INPUTS, samples(), &SECRETS, |output| {
        let whole = masked(&mask, &[output], false);
        for salt in [0, 11] {
            let cut = masked(&mask, &pieces(output, salt), false);
            // Characters at either end of an encoded secret that hold only a few of its bits may be shown or not.
            let secrets = stars(&cut).max(stars(&whole));
            assert!(left(&cut).abs_diff(left(&whole)) <= 2 * secrets, "cutting the output changes what is shown");
        }
        let idle = masked(&mask, &pieces(output, 5), true);
        for shown in [&whole, &idle] {
            for secret in SECRETS.iter().flat_map(|secret| secret.lines()) {
                assert!(!contains(shown, secret), "{secret} is shown");
            }
            let mut printed = output.iter();
            let left = String::from_utf8_lossy(shown).replace("***", "");
            let mut letters = left.bytes().filter(u8::is_ascii_alphanumeric);
            let invented = letters.find(|letter| !printed.any(|byte| byte == letter));
            assert_eq!(invented, None, "something is shown that was not printed");
        }
        assert!(masked(&none, &pieces(output, 3), true) == output, "output is changed without a secret");
        (whole.len().abs_diff(output.len()), stars(&whole))
    });
}
