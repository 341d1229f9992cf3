//! The rate limit per token.

use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::http::header::HeaderName;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use super::codes::Code;
use super::problem::Problem;
use domain::TokenId;

pub struct RateLimits {
    limiter: RateLimiter<TokenId, DashMapStateStore<TokenId>, DefaultClock>,
    clock: DefaultClock,
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl RateLimits {
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self { limiter: RateLimiter::dashmap(quota), clock: DefaultClock::default(), per_second, burst }
    }

    pub fn check(&self, token: TokenId) -> Result<(), Problem> {
        let Err(not_until) = self.limiter.check_key(&token) else {
            return Ok(());
        };
        let wait = not_until.wait_time_from(self.clock.now());
        // Rounded up to whole seconds: an earlier retry would be refused again.
        let seconds = wait.as_secs() + u64::from(wait > Duration::from_secs(wait.as_secs()));
        let window = u64::from(self.burst.get()).div_ceil(u64::from(self.per_second.get())).max(1);
        let detail = format!("the token may make {} requests per second; try again in {seconds} s", self.per_second);
        Err(Problem::new(Code::RateLimited, detail)
            .retry_after(seconds.max(1))
            .with_header(HeaderName::from_static("ratelimit"), &format!("\"token\";r=0;t={}", seconds.max(1)))
            .with_header(
                HeaderName::from_static("ratelimit-policy"),
                &format!("\"token\";q={};w={window}", self.burst),
            ))
    }

    /// Drops the state of tokens whose full rate is available again.
    pub fn forget_idle(&self) {
        self.limiter.retain_recent();
    }
}
