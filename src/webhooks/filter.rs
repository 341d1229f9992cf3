//! The events that a webhook receives.

use std::fmt;

use domain::{EventType, Malformed};

/// More than there are kinds of events.
pub const FILTERS_MAX: usize = 100;

/// One kind of event, or all whose name begins with the same word: `session.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    One(EventType),
    Group(&'static str),
}

impl Filter {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let known = match text.strip_suffix(".*") {
            Some(wanted) => EventType::ALL
                .iter()
                .map(|event_type| group(*event_type))
                .find(|known| *known == wanted)
                .map(Filter::Group),
            None => EventType::parse(text).ok().map(Filter::One),
        };
        known.ok_or(Malformed("must be an event type, such as session.claimed, or a group of them, such as session.*"))
    }

    fn matches(self, event_type: EventType) -> bool {
        match self {
            Filter::One(wanted) => wanted == event_type,
            Filter::Group(wanted) => wanted == group(event_type),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::One(event_type) => f.write_str(event_type.as_str()),
            Filter::Group(name) => write!(f, "{name}.*"),
        }
    }
}

/// Whether one of them matches; no filters at all match everything.
pub fn wants(filters: &[Filter], event_type: EventType) -> bool {
    filters.is_empty() || filters.iter().any(|filter| filter.matches(event_type))
}

fn group(event_type: EventType) -> &'static str {
    event_type.as_str().split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_filter_takes_one_type_or_all_of_a_kind() {
        let filters = |texts: &[&str]| texts.iter().map(|text| Filter::parse(text).unwrap()).collect::<Vec<_>>();
        let some = filters(&["session.*", "pull_request.created"]);
        for (event_type, wanted) in [
            (EventType::SessionClaimed, true),
            (EventType::SessionExpired, true),
            (EventType::PullRequestCreated, true),
            (EventType::DeploymentFailed, false),
            (EventType::WebhookDisabled, false),
        ] {
            assert_eq!(wants(&some, event_type), wanted, "{event_type:?}");
            assert!(wants(&[], event_type), "none is all");
            assert_eq!(wants(&filters(&["session.claimed"]), event_type), event_type == EventType::SessionClaimed);
        }
    }

    #[test]
    fn only_known_event_types_are_accepted() {
        for event_type in EventType::ALL {
            for text in [event_type.as_str().to_owned(), format!("{}.*", group(event_type))] {
                assert_eq!(Filter::parse(&text).unwrap().to_string(), text);
            }
        }
        for bad in ["", "*", ".*", "session", "session.", "sessions.*", "session.*.*", "SESSION.*", "session.claimed "]
        {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
    }
}
