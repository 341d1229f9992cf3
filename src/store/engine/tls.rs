//! The certificates of a connection to the engine.

use zeroize::Zeroizing;

/// In PEM.
pub struct EngineTls {
    /// Must have signed the certificates of the engine's servers.
    pub authority: Vec<u8>,
    /// Our certificate and its key, if the servers ask for one.
    pub identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}
