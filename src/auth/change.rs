//! One change of members and tokens: what goes into the store and what memory makes of it, with what is told of both.

use std::sync::Arc;

use super::member::Member;
use super::stored;
use super::token::Token;
use crate::domain::{Data, Identifier, Notice, Role, UserId};
use crate::events::{self, Cause, Happening};
use crate::store::Batch;

#[derive(Default)]
pub struct Change {
    pub batch: Batch,
    pub members: Vec<MemberChange>,
    pub revoked: Vec<Arc<Token>>,
    pub made: Option<Arc<Token>>,
}

pub enum MemberChange {
    Set(Arc<Member>),
    Removed(UserId),
}

/// Why a token is revoked, where nobody asked for that in particular.
#[derive(Debug, Clone, Copy)]
pub enum Reason {
    MemberRemoved,
    /// Another bootstrap token has come, or this text has become it.
    Superseded,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Reason::MemberRemoved => "member_removed",
            Reason::Superseded => "superseded",
        }
    }
}

impl Change {
    pub fn add_member(&mut self, member: &Arc<Member>, cause: Cause<'_>) {
        self.set_member(member);
        self.tell_of_member(Notice::MemberAdded, member, None, cause);
    }

    pub fn change_role(&mut self, member: &Member, role: Role, cause: Cause<'_>) -> Arc<Member> {
        let changed = Arc::new(Member { role, ..member.clone() });
        self.set_member(&changed);
        self.tell_of_member(Notice::MemberUpdated, &changed, Some(member.role), cause);
        changed
    }

    /// Their tokens have to be revoked with it, or before.
    pub fn remove_member(&mut self, member: &Member, cause: Cause<'_>) {
        self.batch.delete(stored::member_key(&member.organization, &member.name));
        self.members.push(MemberChange::Removed(member.id));
        self.tell_of_member(Notice::MemberRemoved, member, None, cause);
    }

    pub fn make_token(&mut self, token: &Arc<Token>, cause: Cause<'_>) {
        self.batch.put(stored::token_key(&token.organization, token.id), stored::encode_token(token));
        self.made = Some(token.clone());
        self.tell_of_token(Notice::TokenCreated, token, None, cause);
    }

    pub fn revoke_token(&mut self, token: &Arc<Token>, reason: Option<Reason>, cause: Cause<'_>) {
        self.batch.delete(stored::token_key(&token.organization, token.id));
        self.revoked.push(token.clone());
        self.tell_of_token(Notice::TokenRevoked, token, reason, cause);
    }

    fn set_member(&mut self, member: &Arc<Member>) {
        self.batch.put(stored::member_key(&member.organization, &member.name), stored::encode_member(member));
        self.members.push(MemberChange::Set(member.clone()));
    }

    fn tell_of_member(&mut self, notice: Notice, member: &Member, previous: Option<Role>, cause: Cause<'_>) {
        let data = Data::default()
            .with("userId", member.id.to_string())
            .with("name", &member.name)
            .with("role", member.role.as_str())
            .with_some("previousRole", previous.map(Role::as_str));
        self.tell(&member.organization, notice, &data, cause);
    }

    fn tell_of_token(&mut self, notice: Notice, token: &Token, reason: Option<Reason>, cause: Cause<'_>) {
        let data = Data::default()
            .with("tokenId", token.id.to_string())
            .with("name", token.name.as_str())
            .with("userId", token.user.to_string())
            .with_some("reason", reason.map(Reason::as_str));
        self.tell(&token.organization, notice, &data, cause);
    }

    fn tell(&mut self, organization: &Identifier, notice: Notice, data: &Data, cause: Cause<'_>) {
        events::record(&mut self.batch, organization, &Happening::new(notice, cause.at, cause.by, data));
    }
}
