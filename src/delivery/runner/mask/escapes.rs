//! Single escapes of the notations in which programs print text, and the named characters of HTML.

/// The longest escape, with some leading zeros.
pub const ESCAPE_BYTES_MAX: usize = 16;

/// The bytes with which escapes begin, and the zero byte of UTF-16.
pub const INTRODUCERS: [u8; 6] = *b"%+&\\'\0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `%2F`, `%2f`
    Percent,
    /// Like `Percent`, with `+` for a space.
    Form,
    /// `&amp;`, `&#38;`, `&#x26;`
    Html,
    /// JSON, string literals of most languages, `$'…'` and backslashes of shells: `\n`, `\/`, `\u00e4`, `\x2f`, `\057`,
    /// `\ `
    Backslash,
    /// A quote within single quotes of a shell: `'\''`, `'"'"'`
    ShellQuote,
}

/// An escape, and what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escape {
    pub length: usize,
    pub text: Text,
}

/// Why there is no escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEscape {
    /// The first byte stands for itself.
    Literal,
    /// More bytes are needed to tell.
    Incomplete,
}

pub type Decoded = Result<Escape, NoEscape>;

/// The bytes that an escape stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; 4],
    length: usize,
}

impl Text {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl From<u8> for Text {
    fn from(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }
}

impl From<char> for Text {
    fn from(character: char) -> Self {
        let mut bytes = [0; 4];
        let length = character.encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }
}

impl Notation {
    pub const ALL: [Self; 5] = [Self::Percent, Self::Form, Self::Html, Self::Backslash, Self::ShellQuote];

    pub fn introduces(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte == b'%',
            Self::Form => matches!(byte, b'%' | b'+'),
            Self::Html => byte == b'&',
            Self::Backslash => byte == b'\\',
            Self::ShellQuote => byte == b'\'',
        }
    }

    /// The escape at the beginning of `bytes`, of which the first introduces one.
    pub fn decode(self, bytes: &[u8]) -> Decoded {
        match self {
            Self::Form if bytes[0] == b'+' => escape(1, b' '),
            Self::Percent | Self::Form => byte(bytes, 1, 2, 16),
            Self::Html => html(bytes),
            Self::Backslash => backslash(bytes),
            Self::ShellQuote => shell_quote(bytes),
        }
    }
}

fn escape(length: usize, text: impl Into<Text>) -> Decoded {
    Ok(Escape { length, text: text.into() })
}

fn character(length: usize, code: u32) -> Decoded {
    escape(length, char::from_u32(code).ok_or(NoEscape::Literal)?)
}

fn backslash(bytes: &[u8]) -> Decoded {
    match *bytes.get(1).ok_or(NoEscape::Incomplete)? {
        b'u' if bytes.get(2) == Some(&b'{') => closed(bytes, 3, 16, b'}'),
        b'u' => utf16(bytes, digits(bytes, 2, 4, 16)?),
        b'U' => character(10, digits(bytes, 2, 8, 16)?),
        b'x' => byte(bytes, 2, 2, 16),
        b'0'..=b'7' => byte(bytes, 1, 3, 8),
        b'n' => escape(2, b'\n'),
        b'r' => escape(2, b'\r'),
        b't' => escape(2, b'\t'),
        b'a' => escape(2, 0x07),
        b'b' => escape(2, 0x08),
        b'v' => escape(2, 0x0b),
        b'f' => escape(2, 0x0c),
        b'e' | b'E' => escape(2, 0x1b),
        other if other.is_ascii_alphanumeric() => Err(NoEscape::Literal),
        other => escape(2, other),
    }
}

fn html(bytes: &[u8]) -> Decoded {
    match (bytes.get(1), bytes.get(2)) {
        (None, _) | (Some(b'#'), None) => return Err(NoEscape::Incomplete),
        (Some(b'#'), Some(b'x' | b'X')) => return closed(bytes, 3, 16, b';'),
        (Some(b'#'), Some(_)) => return closed(bytes, 2, 10, b';'),
        (Some(_), _) => {}
    }
    let name = bytes[1..].iter().take(NAME_BYTES_MAX + 1);
    let length = name.take_while(|byte| byte.is_ascii_alphanumeric()).count();
    match bytes.get(1 + length) {
        _ if length > NAME_BYTES_MAX => Err(NoEscape::Literal),
        None => Err(NoEscape::Incomplete),
        Some(b';') => escape(length + 2, named(&bytes[1..=length]).ok_or(NoEscape::Literal)?),
        Some(_) => Err(NoEscape::Literal),
    }
}

fn shell_quote(bytes: &[u8]) -> Decoded {
    let forms: [&[u8]; 2] = [br"'\''", br#"'"'"'"#];
    if let Some(form) = forms.iter().find(|form| bytes.starts_with(form)) {
        return escape(form.len(), b'\'');
    }
    let may_become = forms.iter().any(|form| form.starts_with(bytes));
    Err(if may_become { NoEscape::Incomplete } else { NoEscape::Literal })
}

/// `\uXXXX`; if it is a surrogate, the second of the pair must follow immediately.
fn utf16(bytes: &[u8], unit: u32) -> Decoded {
    const LENGTH: usize = 6;
    if !(0xd800..0xdc00).contains(&unit) {
        return character(LENGTH, unit);
    }
    let rest = &bytes[LENGTH..];
    if !rest.starts_with(b"\\u") {
        let may_follow = b"\\u".starts_with(rest);
        return Err(if may_follow { NoEscape::Incomplete } else { NoEscape::Literal });
    }
    match digits(rest, 2, 4, 16)? {
        low @ 0xdc00..=0xdfff => character(2 * LENGTH, 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00)),
        _ => Err(NoEscape::Literal),
    }
}

/// Exactly `count` digits from `at` on.
fn digits(bytes: &[u8], at: usize, count: usize, radix: u32) -> Result<u32, NoEscape> {
    let mut number = 0u32;
    for index in at..at + count {
        let byte = bytes.get(index).ok_or(NoEscape::Incomplete)?;
        let digit = char::from(*byte).to_digit(radix).ok_or(NoEscape::Literal)?;
        number = number.wrapping_mul(radix).wrapping_add(digit);
    }
    Ok(number)
}

fn byte(bytes: &[u8], at: usize, count: usize, radix: u32) -> Decoded {
    let byte = u8::try_from(digits(bytes, at, count, radix)?);
    escape(at + count, byte.map_err(|_| NoEscape::Literal)?)
}

/// A number up to `end`.
fn closed(bytes: &[u8], at: usize, radix: u32, end: u8) -> Decoded {
    let mut number = 0u32;
    for index in at..ESCAPE_BYTES_MAX {
        let byte = *bytes.get(index).ok_or(NoEscape::Incomplete)?;
        if byte == end && index > at {
            return character(index + 1, number);
        }
        let digit = char::from(byte).to_digit(radix).ok_or(NoEscape::Literal)?;
        number = number.saturating_mul(radix).saturating_add(digit);
    }
    Err(NoEscape::Literal)
}

const NAME_BYTES_MAX: usize = 12;

/// The named characters of HTML that libraries write: punctuation, Latin-1, and the usual ones beyond.
fn named(name: &[u8]) -> Option<char> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some((_, character)) = PUNCTUATION.iter().find(|(known, _)| *known == name) {
        return Some(*character);
    }
    let index = LATIN_1.iter().position(|known| *known == name)?;
    char::from_u32(FIRST_LATIN_1 + u32::try_from(index).ok()?)
}

const FIRST_LATIN_1: u32 = 0xa0;

/// From U+00A0 to U+00FF.
const LATIN_1: [&str; 96] = [
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect", "uml", "copy", "ordf", "laquo", "not", "shy",
    "reg", "macr", "deg", "plusmn", "sup2", "sup3", "acute", "micro", "para", "middot", "cedil", "sup1", "ordm",
    "raquo", "frac14", "frac12", "frac34", "iquest", "Agrave", "Aacute", "Acirc", "Atilde", "Auml", "Aring", "AElig",
    "Ccedil", "Egrave", "Eacute", "Ecirc", "Euml", "Igrave", "Iacute", "Icirc", "Iuml", "ETH", "Ntilde", "Ograve",
    "Oacute", "Ocirc", "Otilde", "Ouml", "times", "Oslash", "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute", "THORN",
    "szlig", "agrave", "aacute", "acirc", "atilde", "auml", "aring", "aelig", "ccedil", "egrave", "eacute", "ecirc",
    "euml", "igrave", "iacute", "icirc", "iuml", "eth", "ntilde", "ograve", "oacute", "ocirc", "otilde", "ouml",
    "divide", "oslash", "ugrave", "uacute", "ucirc", "uuml", "yacute", "thorn", "yuml",
];

const PUNCTUATION: [(&str, char); 61] = [
    ("Tab", '\t'),
    ("NewLine", '\n'),
    ("excl", '!'),
    ("quot", '"'),
    ("QUOT", '"'),
    ("num", '#'),
    ("dollar", '$'),
    ("percnt", '%'),
    ("amp", '&'),
    ("AMP", '&'),
    ("apos", '\''),
    ("lpar", '('),
    ("rpar", ')'),
    ("ast", '*'),
    ("midast", '*'),
    ("plus", '+'),
    ("comma", ','),
    ("period", '.'),
    ("sol", '/'),
    ("colon", ':'),
    ("semi", ';'),
    ("lt", '<'),
    ("LT", '<'),
    ("equals", '='),
    ("gt", '>'),
    ("GT", '>'),
    ("quest", '?'),
    ("commat", '@'),
    ("lsqb", '['),
    ("lbrack", '['),
    ("bsol", '\\'),
    ("rsqb", ']'),
    ("rbrack", ']'),
    ("Hat", '^'),
    ("lowbar", '_'),
    ("UnderBar", '_'),
    ("grave", '`'),
    ("lcub", '{'),
    ("lbrace", '{'),
    ("verbar", '|'),
    ("vert", '|'),
    ("VerticalLine", '|'),
    ("rcub", '}'),
    ("rbrace", '}'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("bull", '•'),
    ("hellip", '…'),
    ("euro", '€'),
    ("trade", '™'),
    ("OElig", 'Œ'),
    ("oelig", 'œ'),
    ("Scaron", 'Š'),
    ("scaron", 'š'),
    ("Yuml", 'Ÿ'),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(notation: Notation, text: &str) -> Option<(usize, Vec<u8>)> {
        let escape = notation.decode(text.as_bytes()).ok()?;
        Some((escape.length, escape.text.as_bytes().to_vec()))
    }

    #[test]
    fn each_escape_stands_for_its_bytes() {
        for (notation, text, meant) in [
            (Notation::Percent, "%2F", "/"),
            (Notation::Percent, "%2f", "/"),
            (Notation::Form, "+", " "),
            (Notation::Html, "&amp;", "&"),
            (Notation::Html, "&apos;", "'"),
            (Notation::Html, "&auml;", "ä"),
            (Notation::Html, "&#39;", "'"),
            (Notation::Html, "&#0039;", "'"),
            (Notation::Html, "&#x27;", "'"),
            (Notation::Html, "&#X20aC;", "€"),
            (Notation::Backslash, r"\/", "/"),
            (Notation::Backslash, r"\n", "\n"),
            (Notation::Backslash, r"\u00e4", "ä"),
            (Notation::Backslash, r"\ud834\udd1e", "𝄞"),
            (Notation::Backslash, r"\U0001d11e", "𝄞"),
            (Notation::Backslash, r"\u{1d11e}", "𝄞"),
            (Notation::Backslash, r"\x2f", "/"),
            (Notation::Backslash, r"\057", "/"),
            (Notation::Backslash, r"\ ", " "),
            (Notation::Backslash, r"\'", "'"),
            (Notation::ShellQuote, r"'\''", "'"),
            (Notation::ShellQuote, r#"'"'"'"#, "'"),
        ] {
            assert_eq!(decoded(notation, text), Some((text.len(), meant.into())), "{text}");
            let more = format!("{text}41;");
            assert_eq!(decoded(notation, &more), Some((text.len(), meant.into())), "{more}");
            for end in 1..text.len() {
                assert_eq!(notation.decode(&text.as_bytes()[..end]), Err(NoEscape::Incomplete), "{}", &text[..end]);
            }
        }
        assert_eq!(decoded(Notation::Backslash, r"\303x"), Some((4, vec![0xc3])));
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        for (notation, text) in [
            (Notation::Percent, "%2G"),
            (Notation::Percent, "% "),
            (Notation::Html, "& b"),
            (Notation::Html, "&nothing;"),
            (Notation::Html, "&#;"),
            (Notation::Html, "&#x110000;"),
            (Notation::Html, "&#00000000000000000000039;"),
            (Notation::Backslash, r"\d"),
            (Notation::Backslash, r"\u00g0"),
            (Notation::Backslash, r"\ud834x"),
            (Notation::Backslash, r"\777"),
            (Notation::ShellQuote, "'a"),
        ] {
            assert_eq!(notation.decode(text.as_bytes()), Err(NoEscape::Literal), "{text}");
        }
    }
}
