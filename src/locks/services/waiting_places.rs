//! The places of claims that wait, on a connection or in a queue: with a share for each organization and each of its
//! members, and a limit for each token.

use crate::failure::Failure;
use domain::{Holder, Identifier, RequestRef, TokenId};
use shares::{Capacity, LimitReached, Limited, LimitedPlace, Place, Places};

pub struct WaitingPlaces {
    among_all: Places,
    of_tokens: Limited<TokenId>,
}

/// Given back when it is dropped.
pub struct WaitingPlace {
    _among_all: Place,
    /// None if it came without a token.
    _of_token: Option<LimitedPlace<TokenId>>,
}

impl WaitingPlaces {
    /// `total`: how many claims may wait; `per_token`: how many of one token.
    pub fn new(total: Capacity, per_token: usize) -> Self {
        Self { among_all: Places::without_queue("waiting_claims", total), of_tokens: Limited::new(per_token) }
    }

    /// Refused if the token, the member, the organization or the server has too many already.
    pub fn take(
        &self,
        organization: &Identifier,
        holder: Option<Holder>,
        via: Option<&RequestRef>,
    ) -> Result<WaitingPlace, Failure> {
        let of_token = via.map(|via| self.of_tokens.try_acquire(via.token)).transpose();
        let of_token = of_token.map_err(|LimitReached { most }| Failure::TokenCrowded { most })?;
        let among_all = self.among_all.try_acquire_for(organization, holder).map_err(Failure::Crowded)?;
        Ok(WaitingPlace { _among_all: among_all, _of_token: of_token })
    }

    #[cfg(test)]
    pub fn of_token(&self, token: TokenId) -> usize {
        self.of_tokens.used_by(token)
    }
}
