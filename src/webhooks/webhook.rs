//! A webhook: the events it receives, their destination, and its progress through the journal; and the requests and
//! errors of webhooks.

use std::fmt;

use url::Url;

use super::delivery::DeliveryStatus;
use super::signature::WebhookSecret;
use accounts::secrets::SecretError;
use domain::{DeliveryId, Description, EventType, Identifier, Malformed, Timestamp, WebhookId};
use outbound::PolicyError;
use store::StoreError;

/// The limit per organization; each webhook has its own copy of its deliveries.
pub const WEBHOOKS_MAX: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub organization: Identifier,
    pub id: WebhookId,
    pub target: Target,
    /// If empty, all events.
    pub filters: Vec<Filter>,
    pub description: Description,
    /// None while the webhook is enabled.
    pub disabled: Option<Disabled>,
    /// The number of the signing secret, which is sealed in the vault.
    pub secret: u32,
    /// The previous secret, which also signs for a while.
    pub previous: Option<PreviousSecret>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disabled {
    pub at: Timestamp,
    pub why: DisabledWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledWhy {
    /// A member disabled it.
    Asked,
    /// The receiver answered 410.
    Gone,
    /// The deliveries had failed for too long.
    Failing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousSecret {
    pub number: u32,
    pub until: Timestamp,
}

/// The progress of a webhook through the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The number of the next event to capture.
    pub cursor: u64,
    /// The number of events that were dropped before they were captured.
    pub missed: u64,
    /// Since when every attempt has failed.
    pub failing_since: Option<Timestamp>,
    /// The number of deliveries that have neither arrived nor been given up.
    pub pending: u32,
    pub last: Option<LastDelivery>,
}

/// The last attempt of any delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDelivery {
    pub delivery: DeliveryId,
    pub event_type: EventType,
    pub at: Timestamp,
    pub status: DeliveryStatus,
    pub code: Option<u16>,
}

/// A webhook and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookState {
    pub webhook: Webhook,
    pub progress: Progress,
}

#[derive(Debug, Clone)]
pub struct NewWebhook {
    pub target: Target,
    pub filters: Vec<Filter>,
    pub description: Description,
    pub enabled: bool,
    pub secret: WebhookSecret,
}

/// A change of a webhook. `None` leaves a field unchanged.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    pub target: Option<Target>,
    pub filters: Option<Vec<Filter>>,
    pub description: Option<Description>,
    pub enabled: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the organization has the maximum of {WEBHOOKS_MAX} webhooks; delete one first")]
    TooMany,
    #[error("the webhook does not exist")]
    NotFound,
    #[error("the delivery does not exist or is no longer kept")]
    DeliveryNotFound,
    #[error("the webhook is disabled; enable it first")]
    Disabled,
    #[error(transparent)]
    NotPublic(#[from] PolicyError),
    #[error("too many concurrent test calls")]
    Busy,
}

impl Webhook {
    pub fn is_enabled(&self) -> bool {
        self.disabled.is_none()
    }

    /// The numbers of the secrets that sign at this time.
    pub(super) fn signing(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let previous = self.previous.filter(|previous| now < previous.until);
        std::iter::once(self.secret).chain(previous.map(|previous| previous.number))
    }

    /// The vault's name for one of the webhook's secrets.
    pub(super) fn secret_name(&self, number: u32) -> String {
        format!("webhook/{}/{number}", self.id)
    }
}

impl Progress {
    pub(super) fn from(cursor: u64) -> Self {
        Self { cursor, missed: 0, failing_since: None, pending: 0, last: None }
    }
}

impl DisabledWhy {
    /// The reason as shown to people.
    pub const fn reason(self) -> &'static str {
        match self {
            DisabledWhy::Asked => "a member disabled it",
            DisabledWhy::Gone => "its receiver answered 410 Gone",
            DisabledWhy::Failing => "no delivery had arrived for too long",
        }
    }
}

/// More than the number of event types.
pub const FILTERS_MAX: usize = 100;

/// One event type, or all types whose names begin with the same word: `session.*`.
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

/// Whether a filter matches. Without filters, everything matches.
pub fn wants(filters: &[Filter], event_type: EventType) -> bool {
    filters.is_empty() || filters.iter().any(|filter| filter.matches(event_type))
}

fn group(event_type: EventType) -> &'static str {
    event_type.as_str().split('.').next().unwrap_or_default()
}

/// The practical maximum length of URLs.
pub const URL_MAX: usize = 2_048;
const FORM: Malformed =
    Malformed("must be an http or https URL of at most 2048 characters, without credentials and fragment");

/// A URL in canonical spelling, so that an IP address in it is recognised in any spelling. The path and query may
/// contain a secret of the receiver, so `Debug` and logs show only the host.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Url);

impl Target {
    /// Allows everything that [`Self::parse`] does, and more.
    pub const PATTERN: &str = "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s#@]+$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if text.len() > URL_MAX || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(FORM);
        }
        let url = Url::parse(text).map_err(|_| FORM)?;
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let sane = matches!(url.scheme(), "http" | "https") && plain && url.port() != Some(0);
        // A canonical spelling can be longer than the given one.
        let sane = sane && url.as_str().len() <= URL_MAX;
        sane.then_some(Self(url)).ok_or(FORM)
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The host, with its port unless that is the default one.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({}…)", self.host())
    }
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

    #[test]
    fn a_target_is_a_plain_url_of_the_web() {
        for good in [
            "https://example.com",
            "http://example.com:8080/a?b=c",
            "https://münchen.example/hook",
            "http://[2a00::1]/",
        ] {
            assert!(Target::parse(good).is_ok(), "{good}");
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_MAX));
        for bad in [
            "",
            "example.com",
            "/hook",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://",
            "https://u@example.com",
            "https://u:p@example.com",
            "https://:p@example.com",
            "https://example.com/#x",
            "https://example.com:0/",
            "https://example.com/a b",
            " https://example.com",
            "https://exa\nmple.com",
            "https://[::1",
            &long,
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_shows_neither_path_nor_query() {
        let target = Target::parse("https://hooks.example:8443/T0KEN?key=s3cret").unwrap();
        assert_eq!(format!("{target:?}"), "Target(hooks.example:8443…)");
    }
}
