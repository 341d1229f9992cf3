//! The text of a token: `lk_`, 30 random base62 characters, and 6 check characters, so that a typo is caught before any
//! lookup and a scanner can recognise a leaked token. Browser sign-ins and invitations have texts of the same form with
//! different prefixes, so that none is taken for another. The text that a client sends with every request is recognised
//! without hashing it each time.

use std::fmt;

use parking_lot::Mutex;
use rand::RngExt;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use domain::Malformed;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_CHARACTERS: usize = 30;
const CHECK_CHARACTERS: usize = 6;

/// The use of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Token,
    /// A browser sign-in, in a cookie.
    SignIn,
    /// An invitation, in a link.
    Invitation,
}

impl TextKind {
    const fn prefix(self) -> &'static str {
        match self {
            TextKind::Token => "lk_",
            TextKind::SignIn => "lks_",
            TextKind::Invitation => "lki_",
        }
    }
}

/// A well-formed token. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

/// The only form in which a token is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenText {
    pub fn generate() -> Self {
        Self::generate_for(TextKind::Token)
    }

    pub fn generate_for(kind: TextKind) -> Self {
        let mut rng = rand::rng();
        let random: String =
            (0..RANDOM_CHARACTERS).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect();
        let check = checksum(&random);
        Self(format!("{}{random}{check}", kind.prefix()))
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if text.starts_with(TextKind::SignIn.prefix()) {
            return Err(Malformed("is the sign-in of a browser, which is taken only from its cookie"));
        }
        Self::parse_for(TextKind::Token, text)
    }

    pub fn parse_for(kind: TextKind, text: &str) -> Result<Self, Malformed> {
        let Some(body) = text.strip_prefix(kind.prefix()) else {
            return Err(Malformed("does not begin with lk_"));
        };
        if body.len() != RANDOM_CHARACTERS + CHECK_CHARACTERS || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(Malformed("is not lk_ and 36 letters or digits: it has been cut or mistyped"));
        }
        let (random, check) = body.split_at(RANDOM_CHARACTERS);
        if checksum(random) != check {
            return Err(Malformed("has a wrong checksum: it has been mistyped"));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }

    pub fn last_four(&self) -> &str {
        &self.0[self.0.len() - 4..]
    }
}

impl TokenHash {
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// CRC-32 (IEEE) in base62, most significant first, padded to six.
fn checksum(random: &str) -> String {
    let mut rest = crc32fast::hash(random.as_bytes()) as usize;
    let mut digits = [b'0'; CHECK_CHARACTERS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[rest % ALPHABET.len()];
        rest /= ALPHABET.len();
    }
    digits.map(char::from).iter().collect()
}

/// The last well-formed token of one connection, valid or not.
#[derive(Default)]
pub struct KnownToken(Mutex<Option<(Zeroizing<String>, TokenHash)>>);

impl KnownToken {
    /// The hash of a token's text.
    pub fn hash(&self, text: &str) -> Result<TokenHash, Malformed> {
        let mut known = self.0.lock();
        if let Some((last, hash)) = &*known
            && is_same(last.as_bytes(), text.as_bytes())
        {
            return Ok(*hash);
        }
        let hash = TokenText::parse(text)?.hash();
        *known = Some((Zeroizing::new(text.to_owned()), hash));
        Ok(hash)
    }
}

/// In constant time: behind a proxy, other clients may use the same connection. Every request pays for this, and `subtle`
/// compares slices byte by byte, so it is handed eight bytes at a time.
fn is_same(known: &[u8], given: &[u8]) -> bool {
    let (known_words, known_rest) = known.as_chunks();
    let (given_words, given_rest) = given.as_chunks();
    let words = known_words.iter().zip(given_words);
    let same_words = words.map(|(known, given)| u64::from_ne_bytes(*known).ct_eq(&u64::from_ne_bytes(*given)));
    let same = same_words.fold(known.len().ct_eq(&given.len()), |same, next| same & next);
    (same & known_rest.ct_eq(given_rest)).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_token_made_elsewhere_by_the_same_rule_is_ours() {
        // The checksum of thirty zeros, computed with zlib's crc32 and a base62 conversion outside this program.
        let text = format!("lk_{}{}", "0".repeat(30), "2C8GjS");
        assert_eq!(TokenText::parse(&text).unwrap().last_four(), "8GjS");
    }

    #[test]
    fn texts_are_the_same_only_if_every_byte_is() {
        for length in 0..40 {
            let text = vec![b'x'; length];
            assert!(is_same(&text, &text));
            assert!(!is_same(&text, &vec![b'x'; length + 1]));
            assert!(!is_same(&text, &vec![b'x'; length + 8]));
            for place in 0..length {
                let mut other = text.clone();
                other[place] = b'y';
                assert!(!is_same(&text, &other), "{length} bytes that differ at {place}");
            }
        }
    }

    #[test]
    fn a_typo_anywhere_is_caught() {
        let token = TokenText::generate();
        assert_eq!(TokenText::parse(token.reveal()).unwrap(), token);
        for place in 0..token.reveal().len() {
            let mut typo = token.reveal().as_bytes().to_vec();
            typo[place] = if typo[place] == b'x' { b'y' } else { b'x' };
            assert!(TokenText::parse(std::str::from_utf8(&typo).unwrap()).is_err(), "at {place}");
        }
        for cut in 0..token.reveal().len() {
            assert!(TokenText::parse(&token.reveal()[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_text_of_one_kind_is_none_of_another() {
        let kinds = [TextKind::Token, TextKind::SignIn, TextKind::Invitation];
        for made in kinds {
            let text = TokenText::generate_for(made);
            for read in kinds {
                assert_eq!(TokenText::parse_for(read, text.reveal()).is_ok(), read == made, "{read:?} from {made:?}");
            }
        }
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        assert_eq!(format!("{:?}", TokenText::generate()), "TokenText(…)");
    }

    #[test]
    fn each_token_has_its_own_hash_whichever_was_sent_before() {
        let known = KnownToken::default();
        let texts = [TokenText::generate(), TokenText::generate()];
        for text in [&texts[0], &texts[0], &texts[1], &texts[0]] {
            assert_eq!(known.hash(text.reveal()), Ok(text.hash()));
        }
        let mut mistyped = texts[0].reveal().to_owned();
        mistyped.replace_range(10..11, if mistyped.as_bytes()[10] == b'0' { "1" } else { "0" });
        for malformed in [&mistyped, "", "lk_", &texts[0].reveal()[..38]] {
            known.hash(malformed).unwrap_err();
            assert_eq!(known.hash(texts[0].reveal()), Ok(texts[0].hash()), "the last one stays known");
        }
    }
}
