//! The events that a webhook receives.

use std::fmt;

use crate::domain::{Malformed, Notice};

/// More than there are kinds of events.
pub const FILTERS_MAX: usize = 100;

/// One kind of event, or all whose name begins with the same word: `session.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    One(Notice),
    Group(&'static str),
}

impl Filter {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let known = match text.strip_suffix(".*") {
            Some(wanted) => {
                Notice::ALL.iter().map(|notice| group(*notice)).find(|known| *known == wanted).map(Filter::Group)
            }
            None => Notice::parse(text).ok().map(Filter::One),
        };
        known.ok_or(Malformed("must be an event type, such as session.claimed, or a group of them, such as session.*"))
    }

    fn matches(self, notice: Notice) -> bool {
        match self {
            Filter::One(wanted) => wanted == notice,
            Filter::Group(wanted) => wanted == group(notice),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::One(notice) => f.write_str(notice.as_str()),
            Filter::Group(name) => write!(f, "{name}.*"),
        }
    }
}

/// Whether one of them matches; no filters at all match everything.
pub fn wants(filters: &[Filter], notice: Notice) -> bool {
    filters.is_empty() || filters.iter().any(|filter| filter.matches(notice))
}

fn group(notice: Notice) -> &'static str {
    notice.as_str().split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_filter_takes_one_type_or_all_of_a_kind() {
        let filters = |texts: &[&str]| texts.iter().map(|text| Filter::parse(text).unwrap()).collect::<Vec<_>>();
        let some = filters(&["session.*", "pull_request.created"]);
        for (notice, wanted) in [
            (Notice::SessionClaimed, true),
            (Notice::SessionExpired, true),
            (Notice::PullRequestCreated, true),
            (Notice::DeploymentFailed, false),
            (Notice::WebhookDisabled, false),
        ] {
            assert_eq!(wants(&some, notice), wanted, "{notice:?}");
            assert!(wants(&[], notice), "none is all");
            assert_eq!(wants(&filters(&["session.claimed"]), notice), notice == Notice::SessionClaimed);
        }
    }

    #[test]
    fn only_known_event_types_are_accepted() {
        for notice in Notice::ALL {
            for text in [notice.as_str().to_owned(), format!("{}.*", group(notice))] {
                assert_eq!(Filter::parse(&text).unwrap().to_string(), text);
            }
        }
        for bad in ["", "*", ".*", "session", "session.", "sessions.*", "session.*.*", "SESSION.*", "session.claimed "]
        {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
    }
}
