//! Enums whose variants have names that clients see. Each name is written once, next to its variant.

/// Declares the enum with `ALL`, `as_str`, `parse` and `Display`.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(#[$first_doc:meta])* $first:ident = $first_text:literal,
            $($(#[$doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[$first_doc])* $first,
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            pub const ALL: [Self; [$first_text, $($text),*].len()] = [Self::$first, $(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_text,
                    $(Self::$variant => $text,)*
                }
            }

            // Some enums are never parsed.
            #[allow(dead_code)]
            pub fn parse(text: &str) -> Result<Self, $crate::Malformed> {
                match text {
                    $first_text => Ok(Self::$first),
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::Malformed(concat!("must be one of ", $first_text, $(", ", $text),*))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub use named_enum;

#[cfg(test)]
mod tests {
    use crate::{ApprovalRule, Malformed, Role};

    #[test]
    fn every_name_is_parsed_back_and_the_error_lists_all() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Ok(role));
            assert_eq!(role.to_string(), role.as_str());
        }
        assert_eq!(Role::parse("Admin"), Err(Malformed("must be one of viewer, developer, maintainer, admin")));
        assert_eq!(ApprovalRule::parse(""), Err(Malformed("must be one of never, always")));
    }
}
