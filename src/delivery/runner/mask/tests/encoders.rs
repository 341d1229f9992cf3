//! How programs write text, each implemented by its own rules and independently of the decoders.

use std::fmt::Write as _;

pub type Encoder = (&'static str, fn(&str) -> Vec<u8>);

/// For text without NUL; the encodings by character leave the rest of the output unchanged.
pub const ENCODERS: [Encoder; 43] = [
    ("encodeURIComponent", |text| percent(text, "-_.!~*'()", true)),
    ("encodeURI", |text| percent(text, ";,/?:@&=+$-_.!~*'()#", true)),
    ("percent-encoding in lower case", |text| percent(text, "-_.~", false)),
    ("percent-encoding of a path", |text| percent(text, "-_.~!$&'()*+,;=:@/", true)),
    ("percent-encoding of every byte", |text| percent(text, "", false).into_iter().collect()),
    ("a form", |text| form(text, "-_.*", true)),
    ("a form in lower case", |text| form(text, "-_.~", false)),
    ("html.escape of Python", |text| html(text, "&amp;", "&lt;", "&gt;", "&quot;", "&#x27;")),
    ("htmlspecialchars of PHP", |text| html(text, "&amp;", "&lt;", "&gt;", "&quot;", "&#039;")),
    ("html/template of Go", |text| html(text, "&amp;", "&lt;", "&gt;", "&#34;", "&#39;")),
    ("named characters", |text| html(text, "&amp;", "&lt;", "&gt;", "&quot;", "&apos;")),
    ("decimal character references", |text| references(text, |code| format!("&#{code};"))),
    ("hexadecimal character references", |text| references(text, |code| format!("&#x{code:X};"))),
    ("JSON", |text| serde_like_json(text, false, false)),
    ("JSON in ASCII with escaped slashes", |text| serde_like_json(text, true, true)),
    ("JSON with escaped slashes", |text| serde_like_json(text, false, true)),
    ("JSON in ASCII", |text| serde_like_json(text, true, false)),
    ("JSON with every character escaped", |text| utf16_units(text, |unit| format!("\\u{unit:04X}"))),
    ("a literal of Rust", |text| format!("{text:?}").into_bytes()),
    ("bytes of Python", python_bytes),
    ("%q of bash", bash_q),
    ("@Q of bash", |text| format!("'{}'", text.replace('\'', r"'\''")).into_bytes()),
    ("shlex.quote of Python", |text| format!("'{}'", text.replace('\'', r#"'"'"'"#)).into_bytes()),
    ("hex", |text| hex(text, "", "", false)),
    ("hex in upper case", |text| hex(text, "", "", true)),
    ("hex with colons", |text| hex(text, "", ":", false)),
    ("hex with spaces", |text| hex(text, "", " ", true)),
    ("hex with dashes", |text| hex(text, "", "-", true)),
    ("an array of C", |text| hex(text, "0x", ", ", false)),
    ("escapes of hex", |text| hex(text, "\\x", "", false)),
    ("xxd", |text| xxd(text, 2)),
    ("xxd -g1", |text| xxd(text, 1)),
    ("xxd -g4", |text| xxd(text, 4)),
    ("xxd -p", |text| lines(&hex(text, "", "", false), 60)),
    ("hexdump -C", hexdump_c),
    ("hexdump", |text| od(text, 2, 16, "")),
    ("od -x of four bytes", |text| od(text, 4, 16, "")),
    ("od -t x1z", |text| od(text, 1, 16, ">")),
    ("od -b", |text| od(text, 1, 8, "")),
    ("od", |text| od(text, 2, 8, "")),
    ("base32", |text| base(text, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, 76)),
    ("UTF-16, little-endian", |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ("UTF-16, big-endian", |text| text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
];

/// Encodes `bits` bits per character of the alphabet, in lines of `columns` characters.
pub fn base(text: &str, alphabet: &[u8], bits: usize, columns: usize) -> Vec<u8> {
    let all: Vec<u8> = text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let value = |group: &[u8]| (0..bits).fold(0, |value, index| value << 1 | group.get(index).copied().unwrap_or(0));
    let mut encoded: Vec<u8> = all.chunks(bits).map(|group| alphabet[usize::from(value(group))]).collect();
    while !(encoded.len() * bits).is_multiple_of(8) {
        encoded.push(b'=');
    }
    lines(&encoded, columns)
}

fn lines(text: &[u8], columns: usize) -> Vec<u8> {
    text.chunks(columns).collect::<Vec<_>>().join(&b'\n')
}

fn percent(text: &str, unescaped: &str, upper: bool) -> Vec<u8> {
    let mut encoded = String::new();
    for byte in text.bytes() {
        let is_plain = !unescaped.is_empty() && byte.is_ascii_alphanumeric() || unescaped.as_bytes().contains(&byte);
        match (is_plain, upper) {
            (true, _) => encoded.push(char::from(byte)),
            (false, true) => write!(encoded, "%{byte:02X}").unwrap(),
            (false, false) => write!(encoded, "%{byte:02x}").unwrap(),
        }
    }
    encoded.into_bytes()
}

fn form(text: &str, unescaped: &str, upper: bool) -> Vec<u8> {
    let encoded = String::from_utf8(percent(text, unescaped, upper)).unwrap();
    encoded.replace("%20", "+").into_bytes()
}

fn html(text: &str, amp: &str, lt: &str, gt: &str, quot: &str, apos: &str) -> Vec<u8> {
    let text = text.replace('&', amp).replace('<', lt).replace('>', gt);
    // The references contain none of these characters themselves.
    text.replace('"', quot).replace('\'', apos).into_bytes()
}

fn references(text: &str, reference: fn(u32) -> String) -> Vec<u8> {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { reference(c.into()) })
        .collect::<String>()
        .into()
}

fn utf16_units(text: &str, written: impl Fn(u16) -> String) -> Vec<u8> {
    text.encode_utf16().map(written).collect::<String>().into_bytes()
}

fn serde_like_json(text: &str, ascii: bool, slashes: bool) -> Vec<u8> {
    let mut json = String::new();
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '/' if slashes => json.push_str("\\/"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            control if control < ' ' => write!(json, "\\u{:04x}", u32::from(control)).unwrap(),
            other if ascii && !other.is_ascii() => {
                other.encode_utf16(&mut [0; 2]).iter().for_each(|unit| write!(json, "\\u{unit:04x}").unwrap());
            }
            other => json.push(other),
        }
    }
    json.into_bytes()
}

fn python_bytes(text: &str) -> Vec<u8> {
    let mut written = String::from("b'");
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' => written.extend(['\\', char::from(byte)]),
            b'\n' => written.push_str("\\n"),
            b'\r' => written.push_str("\\r"),
            b'\t' => written.push_str("\\t"),
            b' '..=b'~' => written.push(char::from(byte)),
            other => write!(written, "\\x{other:02x}").unwrap(),
        }
    }
    written.push('\'');
    written.into_bytes()
}

/// Backslashes, or `$'…'` if there are control characters; other characters in octal, as without a locale.
fn bash_q(text: &str) -> Vec<u8> {
    let mut written = String::new();
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        for character in text.chars() {
            if !character.is_ascii_alphanumeric() && !"-_./:=@%+".contains(character) {
                written.push('\\');
            }
            written.push(character);
        }
        return written.into_bytes();
    }
    written.push_str("$'");
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' => written.extend(['\\', char::from(byte)]),
            b'\n' => written.push_str("\\n"),
            b'\t' => written.push_str("\\t"),
            b'\r' => written.push_str("\\r"),
            0x1b => written.push_str("\\E"),
            b' '..=b'~' => written.push(char::from(byte)),
            other => write!(written, "\\{other:03o}").unwrap(),
        }
    }
    written.push('\'');
    written.into_bytes()
}

fn hex(text: &str, prefix: &str, separator: &str, upper: bool) -> Vec<u8> {
    let byte = |byte: u8| if upper { format!("{prefix}{byte:02X}") } else { format!("{prefix}{byte:02x}") };
    text.bytes().map(byte).collect::<Vec<_>>().join(separator).into_bytes()
}

fn printable(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' }).collect()
}

fn xxd(text: &str, group: usize) -> Vec<u8> {
    let mut dump = String::new();
    for (index, line) in text.as_bytes().chunks(16).enumerate() {
        let words: Vec<_> =
            line.chunks(group).map(|word| word.iter().map(|b| format!("{b:02x}")).collect::<String>()).collect();
        let width = 32 + 16 / group - 1;
        writeln!(dump, "{:08x}: {:width$}  {}", index * 16, words.join(" "), printable(line)).unwrap();
    }
    dump.into_bytes()
}

fn hexdump_c(text: &str) -> Vec<u8> {
    let mut dump = String::new();
    for (index, line) in text.as_bytes().chunks(16).enumerate() {
        let halves: Vec<_> =
            line.chunks(8).map(|half| half.iter().map(|b| format!("{b:02x} ")).collect::<String>()).collect();
        writeln!(dump, "{:08x}  {:49} |{}|", index * 16, halves.join(" "), printable(line)).unwrap();
    }
    dump.into_bytes()
}

/// Little-endian words, padded with zero bytes at the end; with offsets of seven digits, and with text if requested.
fn od(text: &str, size: usize, radix: u32, text_mark: &str) -> Vec<u8> {
    let mut dump = String::new();
    for (index, line) in text.as_bytes().chunks(16).enumerate() {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let written = |bytes: &[u8]| match (radix, size) {
            (16, size) => format!(" {:0width$x}", word(bytes), width = size * 2),
            (_, 1) => format!(" {:03o}", word(bytes)),
            (_, _) => format!(" {:06o}", word(bytes)),
        };
        write!(dump, "{:07o}{}", index * 16, line.chunks(size).map(written).collect::<String>()).unwrap();
        if !text_mark.is_empty() {
            write!(dump, "{:pad$}  >{}<", "", printable(line), pad = (16 - line.len()) * 3).unwrap();
        }
        dump.push('\n');
    }
    dump.into_bytes()
}
