//! Where requests get their token from.

use super::secret::Secret;
use crate::failure::Failure;
use crate::identity::exchange::Exchange;

/// Asked before every request, since a token may have to be renewed.
#[derive(Debug)]
pub enum TokenSource {
    /// From a variable, a file or a profile.
    Fixed(Secret),
    /// For the identity token of this job.
    Exchanged(Box<Exchange>),
}

impl TokenSource {
    pub async fn token(&self) -> Result<Secret, Failure> {
        match self {
            TokenSource::Fixed(token) => Ok(token.clone()),
            TokenSource::Exchanged(exchange) => exchange.token().await,
        }
    }

    /// Called after the server has refused the token; whether another attempt makes sense.
    pub async fn renew(&self, refused: &Secret) -> Result<bool, Failure> {
        match self {
            TokenSource::Fixed(_) => Ok(false),
            TokenSource::Exchanged(exchange) => exchange.renew(refused).await.map(|()| true),
        }
    }
}
