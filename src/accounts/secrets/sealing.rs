//! The value of a secret while it is in memory, and its encryption: XChaCha20-Poly1305 with a random nonce. The
//! associated data names the owner of the bytes, so that they cannot be opened as anything else.

use std::fmt;
use std::sync::Arc;

use chacha20poly1305::aead::{AeadInOut, Generate, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use serde::Serialize;
use zeroize::Zeroizing;

use domain::{CharClass, Identifier, Malformed, TextRule, VariableName};
use records::stored::stored;

pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    pub fn generate() -> Self {
        Self(Zeroizing::new(chacha20poly1305::Key::generate().into()))
    }

    /// None if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    pub fn reveal(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The nonce, the encrypted bytes, the tag. Random nonces are safe: there are 2^192 of them.
    pub fn seal(&self, identity: &impl AssociatedData, plain: &[u8]) -> Vec<u8> {
        let nonce = XNonce::generate();
        // With the full capacity from the start: growing the buffer would leave a copy of the plain text behind.
        let mut sealed = Vec::with_capacity(NONCE_BYTES + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let body = &mut sealed[NONCE_BYTES..];
        let tag = self.cipher().encrypt_inout_detached(&nonce, &encode(identity), body.into());
        sealed.extend_from_slice(&tag.expect("a secret is far shorter than the cipher's limit of 256 GiB"));
        sealed
    }

    /// None if the bytes were sealed under another key or for another owner, or have changed since.
    pub fn open(&self, identity: &impl AssociatedData, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES)?;
        let (body, tag) = body.split_at_checked(body.len().checked_sub(TAG_BYTES)?)?;
        let mut plain = Zeroizing::new(body.to_vec());
        let (nonce, tag) = (XNonce::try_from(nonce).ok()?, Tag::try_from(tag).ok()?);
        self.cipher().decrypt_inout_detached(&nonce, &encode(identity), plain.as_mut_slice().into(), &tag).ok()?;
        Some(plain)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The owner of sealed bytes, as associated data.
pub trait AssociatedData: Serialize {
    /// Distinguishes the kinds.
    const KIND: &'static str;
}

/// Postcard writes lengths and the presence of options, so no two values have the same bytes.
fn encode<A: AssociatedData>(identity: &A) -> Vec<u8> {
    postcard::to_stdvec(&(A::KIND, identity)).expect("the form has no maps of unknown length")
}

/// One version of one secret.
#[derive(Serialize, Clone, Copy)]
pub struct SecretIdentity<'a> {
    organization: &'a str,
    pipeline: Option<&'a str>,
    name: &'a str,
    version: u64,
}

impl AssociatedData for SecretIdentity<'_> {
    const KIND: &'static str = "lockkeeper secret 1";
}

impl<'a> SecretIdentity<'a> {
    pub fn new(
        organization: &'a Identifier,
        pipeline: Option<&'a Identifier>,
        name: &'a VariableName,
        version: u64,
    ) -> Self {
        Self {
            organization: organization.as_str(),
            pipeline: pipeline.map(Identifier::as_str),
            name: name.as_str(),
            version,
        }
    }
}

#[derive(Serialize)]
struct DataKeyIdentity<'a> {
    organization: &'a str,
    id: u32,
}

impl AssociatedData for DataKeyIdentity<'_> {
    const KIND: &'static str = "lockkeeper data key 1";
}

/// The data keys of one organization: the one that seals, and during a rotation the previous one.
#[derive(Clone)]
pub struct Ring {
    /// The highest version of any deleted secret. New secrets begin above it, so that no version of a name is used
    /// twice.
    pub floor: u64,
    /// At least one, the newest last.
    keys: Vec<DataKey>,
}

#[derive(Clone)]
struct DataKey {
    id: u32,
    key: Key,
}

impl Ring {
    pub fn generate() -> Self {
        Self { floor: 0, keys: vec![DataKey { id: 1, key: Key::generate() }] }
    }

    pub fn with_floor(&self, floor: u64) -> Self {
        Self { floor, keys: self.keys.clone() }
    }

    /// This ring with a new key, which seals from now on.
    pub fn renewed(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.push(DataKey { id: self.current().id.wrapping_add(1), key: Key::generate() });
        Self { floor: self.floor, keys }
    }

    /// This ring with only the newest key.
    pub fn settled(&self) -> Self {
        Self { floor: self.floor, keys: vec![self.current().clone()] }
    }

    pub fn is_settled(&self) -> bool {
        self.keys.len() == 1
    }

    pub fn current_id(&self) -> u32 {
        self.current().id
    }

    pub fn seal(&self, identity: &impl AssociatedData, value: &SecretValue) -> Sealed {
        let DataKey { id, key } = self.current();
        Sealed { key: *id, bytes: key.seal(identity, value.reveal().as_bytes()).into() }
    }

    pub fn open(&self, identity: &impl AssociatedData, sealed: &Sealed) -> Option<SecretValue> {
        let known = self.keys.iter().find(|known| known.id == sealed.key)?;
        let plain = known.key.open(identity, &sealed.bytes)?;
        SecretValue::parse(std::str::from_utf8(&plain).ok()?).ok()
    }

    /// The keys under a master key.
    pub fn wrap(&self, organization: &Identifier, master: &Key) -> Vec<Sealed> {
        let wrap = |DataKey { id, key }: &DataKey| {
            let identity = DataKeyIdentity { organization: organization.as_str(), id: *id };
            Sealed { key: *id, bytes: master.seal(&identity, key.reveal()).into() }
        };
        self.keys.iter().map(wrap).collect()
    }

    /// None if there are no keys or one of them does not open.
    pub fn unwrap(organization: &Identifier, floor: u64, wrapped: &[Sealed], master: &Key) -> Option<Self> {
        let open = |wrapped: &Sealed| {
            let identity = DataKeyIdentity { organization: organization.as_str(), id: wrapped.key };
            let key = Key::from_bytes(&master.open(&identity, &wrapped.bytes)?)?;
            Some(DataKey { id: wrapped.key, key })
        };
        let keys = wrapped.iter().map(open).collect::<Option<Vec<_>>>()?;
        (!keys.is_empty()).then_some(Self { floor, keys })
    }

    fn current(&self) -> &DataKey {
        self.keys.last().expect("a ring always has at least one key")
    }
}

/// An encrypted value, or a data key under a master key.
pub struct Sealed {
    /// The id of the data key.
    pub key: u32,
    pub bytes: Arc<[u8]>,
}

stored! { struct SealedV1 of Sealed { key: u32, bytes: Arc<[u8]> } }

/// Room for a private key or a certificate chain, and far below what one batch of the store or one environment variable
/// can hold.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub const RULE: TextRule =
        TextRule::of(1..=VALUE_BYTES_MAX, CharClass::NO_NUL, "must be 1 to 16384 bytes, without NUL").in_bytes();

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text).map(|()| Self(Zeroizing::new(text.to_owned())))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}
