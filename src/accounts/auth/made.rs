//! The root of what is made with a token or in a sign-in.

use super::root::Root;
use super::token::{Token, TokenKind};
use domain::TokenId;

/// What is recorded of a token that is made with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    pub root: Root,
    /// With a browser: it ends with all sign-ins of its creator, too.
    pub in_browser: bool,
}

impl Made {
    /// Without a root.
    pub const FREELY: Self = Self { root: Root::None, in_browser: false };

    /// With a token of the operator, an admin sets up an organization: what they make outlives that token.
    pub fn with(maker: &Token) -> Self {
        match (&maker.kind, maker.root) {
            (TokenKind::SignIn(_), root) => Self { root, in_browser: true },
            (TokenKind::Api, Root::Operator) if maker.expires_at.is_none() => Self::FREELY,
            (TokenKind::Api | TokenKind::Exchanged, _) => Self { root: Root::Token(maker.id), in_browser: false },
        }
    }

    /// The token that bounds what is made: its root, as far as it can expire by itself.
    pub fn bounded_by(self) -> Option<TokenId> {
        match self.root {
            Root::Token(id) => Some(id),
            Root::None | Root::Operator | Root::Password | Root::Source(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::root::{SourceId, earlier};
    use super::super::token::{NewToken, SignInOrigin};
    use super::super::token_text::TokenText;
    use super::*;
    use domain::{IdSeed, Identifier, Timestamp, UserId};

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn token(kind: TokenKind, root: Root) -> Token {
        let organization = Identifier::parse("acme").unwrap();
        let user = UserId(IdSeed([1; 12]));
        let new = NewToken { organization, user, name: "x".to_owned(), expires_at: None };
        Token { kind, root, ..Token::new(&TokenText::generate(), user, new, NOW) }
    }

    #[test]
    fn what_is_made_with_a_credential_ends_with_it_or_with_its_root() {
        let browser = || TokenKind::SignIn(SignInOrigin { client: "Firefox".to_owned() });
        let source = Root::Source(SourceId::of_rule(&[]));
        let parent = Root::Token(TokenId(IdSeed([2; 12])));
        for root in [Root::Password, source, parent, Root::None] {
            let made = Made::with(&token(browser(), root));
            assert_eq!(made, Made { root, in_browser: true }, "a sign-in hands its root on");
            for kind in [TokenKind::Api, TokenKind::Exchanged] {
                let maker = token(kind, root);
                assert_eq!(Made::with(&maker), Made { root: Root::Token(maker.id), in_browser: false });
            }
        }
        assert_eq!(Made::with(&token(TokenKind::Api, Root::Operator)), Made::FREELY);
        let passing = Token { expires_at: Some(NOW), ..token(TokenKind::Api, Root::Operator) };
        assert_eq!(Made::with(&passing).bounded_by(), Some(passing.id));
    }

    #[test]
    fn the_end_of_a_root_that_expires_bounds_what_is_made() {
        let id = TokenId(IdSeed([2; 12]));
        assert_eq!(Made { root: Root::Token(id), in_browser: true }.bounded_by(), Some(id));
        assert_eq!(Made { root: Root::Password, in_browser: true }.bounded_by(), None);
        let (soon, later) = (Some(NOW), Some(NOW.plus(1)));
        assert_eq!((earlier(soon, later), earlier(None, later), earlier(soon, None)), (soon, later, soon));
        assert_eq!(earlier(None, None), None);
    }
}
