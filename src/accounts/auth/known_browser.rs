//! Browsers in which a member has signed in with the password: a cookie tells them from strangers, whose failures do not count
//! for them. It lets nobody in.
//!
//! Signed with the stored hash of the password, which nobody outside knows: so nothing is stored, it is bound to the account, and
//! a new password ends it.

use hmac::{Hmac, KeyInit, Mac};
use rand::RngExt;
use sha2::{Digest, Sha256};

use super::accounts::Accounts;
use super::attempts::{Account, BrowserId};
use super::member::Member;
use super::password::PasswordHash;
use domain::{Timestamp, UserId, read_hex};

/// Longer than a sign-in lasts, so that somebody who comes back after a holiday is known.
pub const KNOWN_SECONDS: i64 = 90 * 24 * 60 * 60;
const KIND: &[u8] = b"lockkeeper known browser 1";

impl Accounts {
    /// What a browser is known by from now on; `None` if the member has no password.
    pub fn know_browser(&self, member: &Member, now: Timestamp) -> Option<String> {
        let password = self.credentials_of(member.id).password.clone()?;
        let mut id = BrowserId::default();
        rand::rng().fill(&mut id);
        let until = now.plus(KNOWN_SECONDS * 1_000);
        let tag = signature(&password, member.id, id, until).finalize().into_bytes();
        Some(format!("{}.{}.{}", hex(&id), until.as_millis(), hex(&tag)))
    }

    /// The browser with this text, if it is known by this account.
    pub fn known_browser(&self, account: &Account, text: &str, now: Timestamp) -> Option<BrowserId> {
        let (organization, name) = account;
        let member = self.member_named(organization, name.as_str())?;
        let password = self.credentials_of(member.id).password.clone()?;
        let mut parts = text.split('.');
        let (id, until, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let (id, until) = (bytes::<12>(id)?, Timestamp::from_millis(until.parse().ok()?));
        signature(&password, member.id, id, until).verify_slice(&bytes::<32>(tag)?).ok()?;
        (until > now && parts.next().is_none()).then_some(id)
    }
}

/// Tells the cookies of several accounts in one browser apart, without naming them.
pub fn known_browser_label(organization: &str, name: &str) -> String {
    hex(&Sha256::digest(format!("{organization}/{name}"))[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_hex(digits, &mut bytes).then_some(bytes)
}

fn signature(password: &PasswordHash, member: UserId, id: BrowserId, until: Timestamp) -> Hmac<Sha256> {
    let key = [&password.hash[..], &password.salt].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length will do");
    for part in [KIND, &member.0.0, &id, &until.as_millis().to_be_bytes()] {
        mac.update(part);
    }
    mac
}
