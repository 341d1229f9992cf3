//! The features of a text: hashes of its words, of their stems and of pairs of neighbours. What varies from run to run (numbers, hashes,
//! paths, hosts, times) is replaced by its class first. The training includes this file, so it uses nothing but `std`.

/// The end of a text, where reasons are; the rest is not examined.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Words of a text: more than fit into [`TEXT_BYTES_MAX`] in sentences.
const WORDS_MAX: usize = 1_500;
/// A longer word is data: a token, an encoded file.
const WORD_BYTES_MAX: usize = 32;
/// The begin of a longer word: `authenticate` and `authentication` have it in common.
const STEM_BYTES: usize = 5;
/// Numbers that have a meaning of their own: exit codes, and statuses of HTTP.
const TELLING_NUMBERS: [&str; 28] = [
    "124", "125", "126", "127", "128", "130", "134", "137", "139", "143", "400", "401", "402", "403", "404", "405",
    "407", "408", "409", "413", "422", "423", "429", "500", "502", "503", "504", "507",
];

/// Sorted, each once. `tool` is the program that failed, if it is known.
pub fn features(text: &str, tool: Option<&str>, exit_code: Option<i32>) -> Vec<u32> {
    let mut found = Vec::new();
    let mut words = 0;
    for line in text[text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES_MAX))..].lines() {
        let mut before = START;
        for_each_word(line, &mut |word| {
            words += 1;
            if words <= WORDS_MAX {
                if word.len() > STEM_BYTES + 1 && word.is_ascii() && !word.starts_with('<') {
                    found.push(hash(&word.as_bytes()[..STEM_BYTES], hash(b"stem", START)));
                }
                let word = hash(word.as_bytes(), START);
                found.push(word);
                found.push(paired(before, word));
                before = word;
            }
        });
    }
    if let Some(tool) = tool {
        found.push(hash(tool.to_ascii_lowercase().as_bytes(), hash(b"tool", START)));
    }
    if let Some(code) = exit_code.filter(|code| *code > 1) {
        found.push(hash(&code.to_le_bytes(), hash(b"exit", START)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

const START: u32 = 0x811c_9dc5;

/// FNV-1a.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn paired(before: u32, word: u32) -> u32 {
    hash(&word.to_le_bytes(), before.rotate_left(5) ^ 0x9e37_79b9)
}

/// Calls `take` with each word of the line, in lower case, or with its class.
fn for_each_word(line: &str, take: &mut impl FnMut(&str)) {
    let mut escaped = String::new();
    let line = if line.contains('\u{1b}') {
        escaped.extend(without_escapes(line));
        &escaped
    } else {
        line
    };
    for chunk in line.split(|c: char| c.is_whitespace() || c.is_control()) {
        let chunk = chunk.trim_matches(|c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '%' | '$'));
        if chunk.is_empty() {
            continue;
        }
        match class_of(chunk) {
            Some(class) => take(class),
            None => chunk.split(|c: char| !c.is_alphanumeric()).for_each(|part| take_word(part, take)),
        }
    }
}

/// Terminal escapes `ESC [ … letter` removed.
fn without_escapes(line: &str) -> impl Iterator<Item = char> {
    let mut characters = line.chars();
    std::iter::from_fn(move || {
        loop {
            match characters.next()? {
                '\u{1b}' => drop(characters.find(char::is_ascii_alphabetic)),
                other => return Some(other),
            }
        }
    })
}

/// The class of a chunk that names a place or a time.
fn class_of(chunk: &str) -> Option<&'static str> {
    if chunk.contains("://") {
        return Some("<url>");
    }
    if chunk.starts_with('$') {
        return Some("<variable>");
    }
    let slashes = chunk.bytes().filter(|byte| *byte == b'/').count();
    if chunk.starts_with('/') || slashes >= 2 {
        return Some("<path>");
    }
    let has_digit = chunk.bytes().any(|byte| byte.is_ascii_digit());
    let is_numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':' | '-' | ',' | '/' | '%' | 'T' | 'Z' | '+');
    if has_digit && chunk.contains(['.', ':', '-']) && chunk.chars().all(is_numeric) {
        return Some("<numbers>");
    }
    // `main.rs:41:7` and `db.internal:5432`: a name with a dot and a number after a colon.
    let (name, rest) = chunk.split_once(':').unwrap_or((chunk, ""));
    let has_name = name.split_once('.').is_some_and(|(stem, _)| stem.len() > 1) && name.bytes().all(is_name_byte);
    (has_name && rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit())).then_some("<place>")
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/')
}

/// A word of letters and digits: as it is, and also its parts if it is written in camel case.
fn take_word(word: &str, take: &mut impl FnMut(&str)) {
    if word.is_empty() {
        return;
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return take(match TELLING_NUMBERS.iter().find(|known| **known == word) {
            Some(known) => known,
            None if word.bytes().all(|byte| byte == b'0') => "<zero>",
            None => "<number>",
        });
    }
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = word.len() >= 7 && digits > 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex || digits > 4 || word.len() > WORD_BYTES_MAX {
        return take("<data>");
    }
    if word.as_bytes()[0].is_ascii_digit() {
        // `10s`, `512MiB`: a number with a unit.
        return take("<amount>");
    }
    let lower = word.to_lowercase();
    take(&lower);
    let is_camel = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    if word.is_ascii() && word.as_bytes().windows(2).any(is_camel) {
        let mut start = 0;
        for at in 1..=word.len() {
            if at == word.len() || is_camel(&word.as_bytes()[at - 1..=at]) {
                take(&lower[start..at]);
                start = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(line, &mut |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn what_varies_is_replaced_by_its_class() {
        for (line, expected) in [
            ("cp: cannot stat '/srv/app/x.conf': No such file", "cp cannot stat <path> no such file"),
            ("dial tcp 10.1.2.3:5432: connect: connection refused", "dial tcp <numbers> connect connection refused"),
            ("src/main.rs:41:7: error[E0308]: mismatched", "<place> error e0308 mismatched"),
            ("GET https://x.example/a?b=1 -> 403", "get <url> 403"),
            ("at commit 9f3c1d7aa after 12 s, 0 left", "at commit <data> after <number> s <zero> left"),
            ("ModuleNotFoundError", "modulenotfounderror module not found error"),
            ("\u{1b}[31mfailed\u{1b}[0m in 10s", "failed in <amount>"),
            ("DATABASE_URL is not set: $HOME", "database url is not set <variable>"),
        ] {
            assert_eq!(words(line).join(" "), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_differ_only_in_what_varies_have_the_same_features() {
        let one = features("dial tcp 10.0.0.1:5432: connection refused after 3 tries", Some("psql"), Some(2));
        let other = features("dial tcp 192.168.7.1:80: connection refused after 17 tries", Some("PSQL"), Some(2));
        assert_eq!(one, other);
        assert_ne!(one, features("dial tcp 10.0.0.1:5432: connection reset after 3 tries", Some("psql"), Some(2)));
        assert_ne!(one, features("dial tcp 10.0.0.1:5432: connection refused after 3 tries", None, Some(2)));
    }

    #[test]
    fn any_text_is_taken_and_only_so_much_of_it() {
        assert!(features("", None, None).is_empty());
        for text in ["\u{1b}", "\u{1b}[", "ä\u{1b}[é", "\0\0", "::::", "%$/", "İstanbul dİr", "aB"] {
            let _ = features(text, None, Some(i32::MIN));
        }
        let long = "wörd ".repeat(1_000_000);
        assert!(features(&long, None, None).len() < 10);
        let distinct: String = (0..100_000u32).map(|n| format!("w{} ", char::from(b'a' + (n % 26) as u8))).collect();
        assert!(features(&distinct, None, None).len() <= 3 * WORDS_MAX);
    }
}
