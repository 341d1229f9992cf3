//! Where requests get their token from.

use super::secret::Secret;
use crate::failure::Failure;
use crate::identity::exchange::Exchange;
use crate::retrying::Retrying;

/// Asked before every request, since a token may have to be renewed.
#[derive(Debug)]
pub enum TokenSource {
    /// From a variable, a file or a profile.
    Fixed(Secret),
    /// For the identity token of this job.
    Exchanged(Box<Exchange>),
}

impl TokenSource {
    /// `retrying` says why it takes so long.
    pub async fn token(&self, retrying: &Retrying) -> Result<Secret, Failure> {
        match self {
            TokenSource::Fixed(token) => Ok(token.clone()),
            TokenSource::Exchanged(exchange) => exchange.token(retrying).await,
        }
    }

    /// Called after the server has refused the token; whether another attempt makes sense.
    pub async fn renew(&self, refused: &Secret, retrying: &Retrying) -> Result<bool, Failure> {
        match self {
            TokenSource::Fixed(_) => Ok(false),
            TokenSource::Exchanged(exchange) => exchange.renew(refused, retrying).await.map(|()| true),
        }
    }
}
