//! Exchanges checked identity tokens for tokens of CI jobs. A job acts as a member that the organization's rule names:
//! the first exchange creates it, without a password, with the role of the rule.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::accounts::{Accounts, AccountsError};
use super::change::Change;
use super::member::{MEMBERS_MAX, Member, NewMember};
use super::sign_ins::initiator_of;
use super::token::{
    EXCHANGED_MAX, EXCHANGES_MAX, IdentityKey, IdentityUse, NewToken, OpenToken, Root, SourceId, Token, TokenKind,
};
use super::token_text::TokenText;
use super::tokens_by_hash::Counted;
use domain::{Identifier, MemberShare, Role, Timestamp};
use events::Cause;
use store::StoreError;

/// A member may have this many times as many tokens as are still free, so three quarters of all; a subject may have as
/// many as are free, so half. Most organizations have a single rule, and its jobs must get more than half.
const SUBJECTS_OF_MEMBER: usize = 3;

/// A job that an issuer vouches for, and what the organization's rule assigns to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedJob {
    pub organization: Identifier,
    /// The member as whom it acts.
    pub name: Identifier,
    pub role: Role,
    pub issuer: String,
    /// The job, as its CI names it.
    pub subject: String,
    /// SHA-256 of the signed part of its identity token, without the signature, which has several encodings.
    pub hash: [u8; 32],
    /// When its identity token ends, plus the allowed clock skew.
    pub until: Timestamp,
    /// The lifetime of its token.
    pub token_seconds: i64,
    /// The rule in the organization file.
    pub source: SourceId,
}

impl Accounts {
    /// The member, the count of exchanges, the token and its event are in one batch.
    pub async fn exchange(
        &self,
        job: TrustedJob,
        request: &Arc<str>,
        now: Timestamp,
    ) -> Result<OpenToken, AccountsError> {
        let text = TokenText::generate();
        let made = self.changes.change(|(), committer| {
            // The file may have changed since the identity token was checked.
            let role = self.check_trusted(&job.organization, job.source)?.role_max;
            let job = TrustedJob { role, ..job };
            let key = IdentityKey { organization: job.organization.clone(), hash: job.hash };
            let used = self.next_use(&key, &job)?;
            let mut change = Change::default();
            let member = self.member_for(&mut change, &job, now)?;
            let token = Arc::new(new_token(&text, &member, &job, now));
            let initiator = initiator_of(&member, &token, request);
            change.count_exchange(key, used);
            change.exchange_token(&member, &token, &job.issuer, Cause::by(&initiator, now));
            self.hand_in(committer, change)?;
            Ok(token)
        });
        made.await.map(|token| OpenToken { token, text })
    }

    /// Bounded per organization, per subject and per member: a job in a loop leaves room for other jobs of the same
    /// member, and the jobs of one rule leave room for those of other rules, however many subjects they have.
    fn next_use(&self, key: &IdentityKey, job: &TrustedJob) -> Result<IdentityUse, AccountsError> {
        let share = |used| MemberShare { total: EXCHANGED_MAX, used, is_admin: job.role == Role::Admin };
        let organization = key.organization.clone();
        let tokens = self.tokens.count(&Counted::Exchanged(organization.clone()));
        let own = || self.tokens.count(&Counted::ExchangedBy(organization, job.subject.clone()));
        share(tokens).check(own).map_err(AccountsError::TooManyExchanged)?;
        let member = self.member_named(&job.organization, job.name.as_str());
        let of_member = || member.map_or(0, |member| self.tokens.count(&Counted::ExchangedOf(member.id)));
        share(tokens).check(|| of_member() / SUBJECTS_OF_MEMBER).map_err(AccountsError::TooManyExchanged)?;
        let subject = Sha256::digest(&job.subject).into();
        let identities = self.identities.read();
        let Some(used) = identities.get(key) else {
            let counted = || identities.iter().filter(|(other, _)| other.organization == key.organization);
            let own = || counted().filter(|(_, used)| used.subject == subject).count();
            share(counted().count()).check(own).map_err(AccountsError::TooManyExchanged)?;
            return Ok(IdentityUse { count: 1, subject, until: job.until });
        };
        if used.count >= EXCHANGES_MAX {
            return Err(AccountsError::ExchangedTooOften);
        }
        Ok(IdentityUse { count: used.count + 1, subject, until: job.until })
    }

    fn member_for(&self, change: &mut Change, job: &TrustedJob, now: Timestamp) -> Result<Arc<Member>, AccountsError> {
        let cause = Cause::system(now);
        let Some(before) = self.member_named(&job.organization, job.name.as_str()) else {
            if self.members_of(&job.organization).len() >= MEMBERS_MAX {
                return Err(AccountsError::TooManyMembers);
            }
            let new = NewMember {
                organization: job.organization.clone(),
                name: job.name.clone(),
                role: job.role,
                email: None,
            };
            let member = Arc::new(Member { for_jobs: true, ..Member::new(new, now) });
            change.add_member(&member, cause);
            return Ok(member);
        };
        if !before.for_jobs {
            return Err(AccountsError::NotForJobs);
        }
        if before.disabled {
            return Err(AccountsError::MemberDisabled);
        }
        if before.role == job.role {
            return Ok(before);
        }
        let after = Arc::new(Member { role: job.role, ..(*before).clone() });
        change.update_member(&before, &after, cause);
        Ok(after)
    }

    /// Drops expired tokens of jobs and counts of ended identity tokens. Returns how many.
    pub async fn sweep_exchanged(&self, now: Timestamp) -> Result<usize, StoreError> {
        let ended = self.drop_tokens(|token| token.is_exchanged() && token.has_ended(now, self.limits)).await?;
        let over: Vec<_> =
            self.identities.read().iter().filter(|(_, used)| used.until <= now).map(|(key, _)| key.clone()).collect();
        Ok(ended + self.change_each(&over, |change, key| change.forget_identity(key.clone())).await?)
    }
}

fn new_token(text: &TokenText, member: &Member, job: &TrustedJob, now: Timestamp) -> Token {
    let new = NewToken {
        organization: job.organization.clone(),
        user: member.id,
        name: job.subject.clone(),
        expires_at: Some(now.plus(job.token_seconds.saturating_mul(1_000))),
    };
    Token { kind: TokenKind::Exchanged, root: Root::Source(job.source), ..Token::new(text, member.id, new, now) }
}
