//! Ids and keys. The text of an id begins with its type's prefix and sorts by creation time.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use super::{Identifier, Malformed};

/// The unique part of an id: 48 bits of milliseconds, then 48 bits unique within that millisecond. Commands bring their
/// seeds, since the domain has neither a clock nor randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdSeed(pub [u8; 12]);

const SEED_DIGITS: usize = 24;

impl IdSeed {
    pub fn parse_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 12];
        (is_lower_hex(digits) && read_hex(digits, &mut bytes)).then_some(Self(bytes))
    }
}

impl fmt::Display for IdSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&IdText::new("", self))
    }
}

/// The text of an id, created without `core::fmt` and stored without an allocation: every answer has several.
#[derive(Clone, Copy)]
pub struct IdText {
    bytes: [u8; ID_TEXT_MAX],
    length: usize,
}

/// A prefix, the digits of a seed, a letter, and the digits of a number.
const ID_TEXT_MAX: usize = PREFIX_MAX + SEED_DIGITS + 1 + NUMBER_DIGITS_MAX;
const PREFIX_MAX: usize = 4;
const NUMBER_DIGITS_MAX: usize = 16;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// The two digits of each byte.
const HEX: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

impl IdText {
    pub fn new(prefix: &'static str, seed: &IdSeed) -> Self {
        let mut bytes = [0; ID_TEXT_MAX];
        let (before, rest) = bytes.split_at_mut(prefix.len());
        before.copy_from_slice(prefix.as_bytes());
        for (pair, byte) in rest.as_chunks_mut().0.iter_mut().zip(seed.0) {
            *pair = HEX[usize::from(byte)];
        }
        Self { bytes, length: prefix.len() + SEED_DIGITS }
    }

    /// Appends the digits of a number, without leading zeros.
    fn number(mut self, number: u64) -> Self {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            self.push(DIGITS[(number >> (4 * place)) as usize & 15]);
        }
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, digit: u8) {
        self.bytes[self.length] = digit;
        self.length += 1;
    }
}

impl Deref for IdText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("prefixes and digits are ASCII")
    }
}

/// An id with a text form.
pub trait Id {
    fn text(&self) -> IdText;
}

/// Fills `bytes` with the value of the digits, in either case; false if the number of digits is wrong.
pub fn read_hex(digits: &str, bytes: &mut [u8]) -> bool {
    const NONE: u8 = 0xff;
    const VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < DIGITS.len() {
            values[DIGITS[value] as usize] = value as u8;
            values[DIGITS[value].to_ascii_uppercase() as usize] = value as u8;
            value += 1;
        }
        values
    };
    let (pairs, _) = digits.as_bytes().as_chunks();
    let all = bytes.iter_mut().zip(pairs).fold(0, |all, (byte, &[high, low])| {
        let (high, low) = (VALUES[usize::from(high)], VALUES[usize::from(low)]);
        *byte = high << 4 | low;
        all | high | low
    });
    digits.len() == 2 * bytes.len() && all != NONE
}

/// Bytes as lower-case hexadecimal digits.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn is_lower_hex(digits: &str) -> bool {
    digits.bytes().fold(true, |all, byte| all & matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The order of arrival of all claims, across environments and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A session of one environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub seed: IdSeed,
    pub origin: Origin,
}

/// How a session began. This determines how its record is found: a session that never waited needs no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The session got its id with the lock, granted with this fencing token.
    Granted(u64),
    /// The session got its id in the queue, with this ticket.
    Queued(Ticket),
}

impl SessionId {
    pub const PATTERN: &'static str = "^ses_[0-9a-f]{24}(q?[1-9a-f][0-9a-f]{0,15})$";
    /// For descriptions of the API.
    pub const EXAMPLE: &'static str = "ses_0199f3c2a4b07f3e9d2c5a1b2a";
}

impl Id for SessionId {
    fn text(&self) -> IdText {
        let mut text = IdText::new("ses_", &self.seed);
        match self.origin {
            Origin::Granted(token) => text.number(token),
            Origin::Queued(Ticket(ticket)) => {
                text.push(b'q');
                text.number(ticket)
            }
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for SessionId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        parse_session_id(text).ok_or(Malformed("must be a session id (ses_…)"))
    }
}

fn parse_session_id(text: &str) -> Option<SessionId> {
    let digits = text.strip_prefix("ses_")?;
    let (seed, rest) = digits.split_at_checked(SEED_DIGITS)?;
    let seed = IdSeed::parse_hex(seed)?;
    let origin = match rest.strip_prefix('q') {
        Some(ticket) => Origin::Queued(Ticket(parse_canonical_hex(ticket)?)),
        None => Origin::Granted(parse_canonical_hex(rest)?),
    };
    Some(SessionId { seed, origin })
}

fn parse_canonical_hex(digits: &str) -> Option<u64> {
    let canonical = is_lower_hex(digits) && !digits.starts_with('0');
    canonical.then(|| u64::from_str_radix(digits, 16).ok())?
}

macro_rules! seeded_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $noun:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub IdSeed);

        impl $name {
            pub const PATTERN: &'static str = concat!("^", $prefix, "[0-9a-f]{24}$");
            /// For descriptions of the API.
            pub const EXAMPLE: &'static str = concat!($prefix, "0199f3c2a4b07f3e9d2c5a1b");
        }

        impl Id for $name {
            fn text(&self) -> IdText {
                IdText::new($prefix, &self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text())
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                let seed = text.strip_prefix($prefix).and_then(IdSeed::parse_hex);
                seed.map(Self).ok_or(Malformed(concat!("must be ", $noun, " (", $prefix, "…)")))
            }
        }
    };
}

seeded_id! { DeploymentId, "dep_", "a deployment id" }
seeded_id! {
    /// The approval of a stage, requested or given.
    ApprovalId, "apr_", "an approval id"
}
seeded_id! {
    /// An analysis of a failed deployment.
    AnalysisId, "anl_", "an analysis id"
}
seeded_id! {
    RegistryId, "reg_", "a registry id"
}
seeded_id! {
    /// A member of an organization.
    UserId, "usr_", "a user id"
}

seeded_id! {
    /// An API token. The id does not reveal the token's text.
    TokenId, "tok_", "a token id"
}

seeded_id! {
    WebhookId, "whk_", "a webhook id"
}

seeded_id! {
    /// The delivery of one event to one webhook.
    DeliveryId, "dlv_", "a delivery id"
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineKey {
    pub organization: Identifier,
    pub pipeline: Identifier,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvironmentKey {
    pub pipeline: PipelineKey,
    pub name: Identifier,
}

impl fmt::Display for EnvironmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pipeline.organization, self.pipeline.pipeline, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::patterns::assert_pattern_fits;

    #[test]
    fn a_session_id_reads_back_and_sorts_by_time() {
        let early = SessionId { seed: IdSeed([1; 12]), origin: Origin::Granted(0x2a) };
        let late = SessionId { seed: IdSeed([2; 12]), origin: Origin::Queued(Ticket(0x10)) };
        assert_eq!(early.to_string(), "ses_0101010101010101010101012a");
        assert_eq!(late.to_string(), "ses_020202020202020202020202q10");
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(late.to_string().parse(), Ok(late));
        assert!(early.to_string() < late.to_string());
        for number in [0, 1, 15, 16, 255, 256, u64::MAX] {
            let id = SessionId { seed: IdSeed([0xa5; 12]), origin: Origin::Granted(number) };
            assert_eq!(*id.text(), format!("ses_{}{number:x}", "a5".repeat(12)));
        }
    }

    #[test]
    fn only_the_canonical_text_of_an_id_is_read() {
        let good = [
            "ses_0101010101010101010101012a",
            "ses_020202020202020202020202q10",
            "ses_010101010101010101010101ffffffffffffffff",
        ];
        let bad = [
            "",
            "ses_",
            "ses_010101010101010101010101",
            "ses_010101010101010101010101002a",
            "ses_0101010101010101010101010",
            "ses_0101010101010101010101012A",
            "ses_0101010101010101010101012g",
            "ses_0101010101010101010101011ffffffffffffffff",
            "dep_0101010101010101010101012a",
            "ses_010101010101010101010101q",
            "ses_010101010101010101010101q0",
            "ses_010101010101010101010101qq1",
            "ses_é101010101010101010101012a",
        ];
        assert_pattern_fits(SessionId::PATTERN, |text| text.parse::<SessionId>().is_ok(), &good, &bad);
        let deployment = |text: &str| text.parse::<DeploymentId>().is_ok();
        let (good, bad) = (["dep_010101010101010101010101"], ["dep_0101010101010101010101012a", "dep_0", "ses_0", ""]);
        assert_pattern_fits(DeploymentId::PATTERN, deployment, &good, &bad);
    }
}
