//! All tokens in memory, indexed by hash and by id, and counted for the limits on creating them. A client at a limit
//! keeps asking, so a refusal must not scan all tokens.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use parking_lot::RwLock;

use super::token::{Token, TokenKind};
use super::token_text::TokenHash;
use domain::{Identifier, TokenId, UserId};

#[derive(Default)]
pub struct TokensByHash {
    map: DashMap<TokenHash, Arc<Token>, RandomState>,
    index: RwLock<Index>,
}

#[derive(Default)]
struct Index {
    ids: HashMap<TokenId, TokenHash, RandomState>,
    counts: HashMap<Counted, usize, RandomState>,
}

/// A group of tokens that a limit applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    Api(Identifier),
    ApiOf(UserId),
    Exchanged(Identifier),
    ExchangedOf(UserId),
    /// The jobs of one subject.
    ExchangedBy(Identifier, String),
}

impl TokensByHash {
    pub fn get(&self, hash: &TokenHash) -> Option<Arc<Token>> {
        self.map.get(hash).map(|token| token.clone())
    }

    pub fn with_id(&self, id: TokenId) -> Option<Arc<Token>> {
        let hash = self.index.read().ids.get(&id).copied();
        hash.and_then(|hash| self.get(&hash))
    }

    pub fn iter(&self) -> impl Iterator<Item = impl Deref<Target = Arc<Token>>> {
        self.map.iter()
    }

    pub fn count(&self, of: &Counted) -> usize {
        self.index.read().counts.get(of).copied().unwrap_or_default()
    }

    /// Replaces a token with the same hash.
    pub fn insert(&self, token: Arc<Token>) {
        let mut index = self.index.write();
        if let Some(before) = self.map.insert(token.hash, token.clone()) {
            index.forget(&before);
        }
        index.ids.insert(token.id, token.hash);
        counted(&token).into_iter().for_each(|of| *index.counts.entry(of).or_default() += 1);
    }

    pub fn remove(&self, hash: &TokenHash) {
        let mut index = self.index.write();
        if let Some((_, token)) = self.map.remove(hash) {
            index.forget(&token);
        }
    }
}

impl Index {
    fn forget(&mut self, token: &Token) {
        self.ids.remove(&token.id);
        for of in counted(token) {
            if let Some(count) = self.counts.get_mut(&of) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&of);
                }
            }
        }
    }
}

fn counted(token: &Token) -> Vec<Counted> {
    let organization = token.organization.clone();
    match token.kind {
        TokenKind::Api => vec![Counted::Api(organization), Counted::ApiOf(token.user)],
        TokenKind::Exchanged => {
            let by = Counted::ExchangedBy(organization.clone(), token.name.clone());
            vec![Counted::Exchanged(organization), Counted::ExchangedOf(token.user), by]
        }
        TokenKind::SignIn { .. } => Vec::new(),
    }
}

impl FromIterator<Token> for TokensByHash {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Self {
        let all = Self::default();
        tokens.into_iter().for_each(|token| all.insert(Arc::new(token)));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::token::NewToken;
    use super::super::token_text::TokenText;
    use super::*;
    use domain::{IdSeed, Timestamp};

    const NELL: UserId = UserId(IdSeed([7; 12]));

    fn token(kind: TokenKind, name: &str) -> Token {
        let organization = Identifier::parse("acme").unwrap();
        let new = NewToken { organization, user: NELL, name: name.to_owned(), expires_at: None };
        Token { kind, ..Token::new(&TokenText::generate(), NELL, new, Timestamp::from_millis(0)) }
    }

    #[test]
    fn each_token_counts_once_for_each_of_its_bounds_while_it_is_there() {
        let acme = Identifier::parse("acme").unwrap();
        let job = |number| token(TokenKind::Exchanged, &format!("job {number}"));
        let all: TokensByHash = [job(1), job(1), job(2), token(TokenKind::Api, "load")].into_iter().collect();
        let by_first = Counted::ExchangedBy(acme.clone(), "job 1".to_owned());
        let bounds = [Counted::Exchanged(acme.clone()), Counted::ExchangedOf(NELL), by_first, Counted::Api(acme)];
        assert_eq!(bounds.each_ref().map(|of| all.count(of)), [3, 3, 2, 1]);
        let first = all.iter().find(|token| token.name == "job 1").map(|token| token.clone()).unwrap();
        all.insert(Arc::new(Token { name: "job 2".to_owned(), ..(*first).clone() }));
        assert_eq!(bounds.each_ref().map(|of| all.count(of)), [3, 3, 1, 1], "the same one with another name");
        let hashes: Vec<_> = all.iter().map(|token| token.hash).collect();
        hashes.iter().chain(&hashes).for_each(|hash| all.remove(hash));
        assert_eq!(bounds.each_ref().map(|of| all.count(of)), [0; 4], "twice removed is removed once");
        assert!(all.with_id(first.id).is_none() && all.index.read().counts.is_empty());
    }
}
