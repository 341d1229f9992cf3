//! Passwords: the allowed ones, their stored form, and the member's credentials that include them. They are hashed on
//! separate threads, few concurrently: each hash occupies a processor and 19 MiB, and strangers can request any number.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use rand::RngExt;
use zeroize::Zeroizing;

use super::token::Made;
use super::token_text::TokenHash;
use domain::{Identifier, Malformed, Timestamp, UserId};
use shares::{Capacity, Permits};

/// Shorter passwords can be guessed.
const LENGTH_MIN: usize = 10;
/// Room for a sentence, but too little to make the server hash megabytes.
const LENGTH_MAX: usize = 200;
/// The OWASP recommendation for argon2id: 19 MiB, two passes, one lane. A hash takes some hundredths of a second.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The most common passwords that are long enough, in lower case.
const COMMON: [&str; 44] = [
    "0123456789",
    "0987654321",
    "1029384756",
    "1111111111",
    "1122334455",
    "123123123123",
    "1234512345",
    "12345678910",
    "1234567890",
    "12345qwert",
    "1q2w3e4r5t",
    "1q2w3e4r5t6y",
    "1qaz2wsx3edc",
    "aaaaaaaaaa",
    "abcd123456",
    "abcdefghij",
    "administrator",
    "asdfasdfasdf",
    "asdfghjkl123",
    "baseball123",
    "changeme123",
    "football123",
    "iloveyou123",
    "letmein123",
    "lockkeeper",
    "lockkeeper1",
    "lockkeeper123",
    "passw0rd123",
    "password01",
    "password1!",
    "password11",
    "password12",
    "password123",
    "password1234",
    "passwordpassword",
    "princess123",
    "q1w2e3r4t5",
    "q1w2e3r4t5y6",
    "qwerty1234",
    "qwerty12345",
    "qwerty123456",
    "qwertyuiop",
    "welcome123",
    "zaq12wsxcde3",
];

/// A new password, after validation. Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<String>);

/// The stored form of a password: its own salt and the cost of its hash, so that a later version can raise the cost.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    pub memory_kib: u32,
    pub passes: u32,
    pub lanes: u32,
    pub salt: [u8; 16],
    pub hash: [u8; 32],
}

impl Password {
    /// For schemas.
    pub const LENGTH: (usize, usize) = (LENGTH_MIN, LENGTH_MAX);

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let length = text.chars().count();
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            return Err(Malformed("must be 10 to 200 characters long"));
        }
        if COMMON.contains(&text.to_lowercase().as_str()) {
            return Err(Malformed("is one of the most common passwords; choose another"));
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// Whether the password only repeats the name of the member.
    pub fn is_made_of(&self, name: &str) -> bool {
        let (password, name) = (self.0.to_lowercase(), name.to_lowercase());
        !name.is_empty() && password.replace(&name, "").is_empty()
    }

    /// Generates a password for the first start, in groups that are easy to type, without characters that look alike.
    pub fn generate() -> Self {
        const ALPHABET: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";
        const GROUPS: usize = 3;
        const GROUP: usize = 5;
        let mut rng = rand::rng();
        let mut text = Zeroizing::new(String::with_capacity(GROUPS * (GROUP + 1)));
        for group in 0..GROUPS {
            if group > 0 {
                text.push('-');
            }
            text.extend((0..GROUP).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])));
        }
        Self(text)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl PasswordHash {
    /// Nobody's password, to make the check of an unknown member take as long as that of a known one.
    pub const NOBODY: Self =
        Self { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt: [0; 16], hash: [0; 32] };

    /// Slow on purpose: do not call it on a thread that serves requests.
    pub fn of(password: &Password) -> Self {
        let mut salt = [0; 16];
        rand::rng().fill(&mut salt);
        let blank = Self { salt, ..Self::NOBODY };
        let hash = blank.hashed(password.reveal().as_bytes()).expect("the parameters are within argon2's bounds");
        Self { hash, ..blank }
    }

    /// As slow as `of`.
    pub fn matches(&self, text: &str) -> bool {
        // Comparing the hashes in constant time would hide nothing: without the salt, nobody can choose a hash.
        self.hashed(text.as_bytes()) == Some(self.hash)
    }

    fn hashed(&self, text: &[u8]) -> Option<[u8; 32]> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(32)).ok()?;
        let mut hash = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(text, &self.salt, &mut hash)
            .ok()?;
        Some(hash)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub password: Option<PasswordHash>,
    pub invitation: Option<Invitation>,
    pub last_sign_in_at: Option<Timestamp>,
}

/// A link with which a member chooses a password, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub hash: TokenHash,
    pub expires_at: Timestamp,
    /// The credential that created the invitation; when it ends, so does the invitation.
    pub made: Made,
    /// Who made it; `None`: the operator.
    pub maker: Option<UserId>,
}

/// Concurrent hashes. Sign-ins are rare; the rest of the processors is for claims.
const AT_ONCE: usize = 2;
/// Waiting hashes: a few seconds' worth.
const WAITING_MAX: usize = 64;

pub struct Hashing(Permits);

impl Hashing {
    /// For this many organizations, which share the capacity.
    pub fn among(organizations: usize) -> Self {
        let [running, waiting] = [AT_ONCE, WAITING_MAX].map(|total| Capacity::turns(total).among(organizations));
        Self(Permits::new("password_hashes", running, waiting))
    }

    /// None if too many passwords are being checked.
    pub async fn hash(&self, organization: &Identifier, password: Password) -> Option<PasswordHash> {
        self.run(organization, move || PasswordHash::of(&password)).await
    }

    /// None if too many passwords are being checked.
    pub async fn matches(&self, organization: &Identifier, hash: PasswordHash, text: String) -> Option<bool> {
        self.run(organization, move || hash.matches(&text)).await
    }

    /// A hash whose caller has gone cannot be stopped, so it keeps its place until it ends.
    async fn run<T: Send + 'static>(
        &self,
        organization: &Identifier,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = self.0.acquire(organization).await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use domain::samples;

    #[test]
    fn short_long_and_common_passwords_are_refused() {
        for good in ["correct horse", &"ä".repeat(10), &"x".repeat(200), "password-of-mine"] {
            assert!(Password::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "short", &"ä".repeat(9), &"x".repeat(201), "password123", "PassWord123", "1234567890"] {
            assert!(Password::parse(bad).is_err(), "{bad}");
        }
        assert!(COMMON.iter().all(|common| common.len() >= LENGTH_MIN && *common == common.to_lowercase()));
    }

    #[test]
    fn a_name_is_no_password_however_often_it_is_repeated() {
        let is_made_of = |text: &str, name: &str| Password::parse(text).unwrap().is_made_of(name);
        assert!(is_made_of("administra", "administra") && is_made_of("anaANAanaana", "ana"));
        assert!(!is_made_of("ana and her cat", "ana"));
    }

    #[test]
    fn a_hash_costs_what_is_recommended() {
        let PasswordHash { memory_kib, passes, lanes, .. } = PasswordHash::NOBODY;
        assert_eq!((memory_kib, passes, lanes), (19_456, 2, 1));
    }

    #[test]
    fn a_hash_matches_its_password_alone_and_shows_nothing() {
        let password = Password::parse("correct horse").unwrap();
        let hash = PasswordHash::of(&password);
        assert!(hash.matches("correct horse") && !hash.matches("correct horsf") && !hash.matches(""));
        assert!(PasswordHash::of(&password) != hash, "each has its own salt");
        assert!(!PasswordHash::NOBODY.matches("correct horse"));
        assert_eq!(format!("{password:?} {hash:?}"), "Password(…) PasswordHash(…)");
    }

    #[test]
    fn the_first_password_is_long_readable_and_allowed() {
        let first = Password::generate();
        assert_eq!(first.reveal().split('-').map(str::len).collect::<Vec<_>>(), [5, 5, 5]);
        assert!(Password::parse(first.reveal()).is_ok() && Password::generate() != first);
    }

    #[tokio::test]
    async fn one_organization_cannot_keep_another_from_hashing() {
        let hashing = Hashing::among(2);
        let [acme, other] = ["acme", "other"].map(samples::identifier);
        let held: Vec<_> = (0..AT_ONCE).map(|_| hashing.0.try_acquire(&acme)).collect();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(hashing.run(&acme, || ()))).collect();
        waiting.retain_mut(|one| one.now_or_never().is_none());
        assert!((WAITING_MAX / 2..WAITING_MAX).contains(&waiting.len()), "{}", waiting.len());
        assert_eq!(pin!(hashing.run(&acme, || ())).now_or_never(), Some(None));
        // Before any hash of the first organization has ended.
        assert_eq!(hashing.run(&other, || 7).await, Some(7));
        drop(held);
        for one in waiting {
            assert_eq!(one.await, Some(()));
        }
    }

    #[tokio::test]
    async fn more_hashes_than_may_wait_are_refused() {
        let hashing = Hashing::among(1);
        let acme = samples::identifier("acme");
        let held: Vec<_> = (0..AT_ONCE).map(|_| hashing.0.try_acquire(&acme).unwrap()).collect();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(hashing.run(&acme, || ()))).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert_eq!(pin!(hashing.run(&acme, || ())).now_or_never(), Some(None));
        drop(held);
        for one in waiting {
            assert_eq!(one.await, Some(()));
        }
        assert_eq!(hashing.run(&acme, || 7).await, Some(7));
    }
}
