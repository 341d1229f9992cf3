//! The token that a client sends with every request, recognised without hashing it each time.

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::token_text::{TokenHash, TokenText};
use domain::Malformed;

/// The last well-formed token of one connection. It says nothing of whether the token is valid.
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

/// Takes the same time wherever they differ: behind a proxy, others may send on the same connection.
fn is_same(known: &[u8], sent: &[u8]) -> bool {
    known.len() == sent.len() && known.iter().zip(sent).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
