//! The kinds of settings: the allowed values of each, in words and as a parser.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::value::{RawValue, ValueError};
use accounts::secrets::SecretValue;
use domain::Malformed;
use domain::nearest::nearest;
use domain::pipeline::check_url;

/// Far longer than any URL of a server.
const URL_BYTES_MAX: usize = 2_048;

type Parse<T> = Box<dyn Fn(&RawValue<'_>) -> Result<T, ValueError>>;

/// The allowed values of a setting.
pub(super) struct Kind<T> {
    /// Completes "must be".
    pub(super) allowed: String,
    pub(super) parse: Parse<T>,
}

impl<T: 'static> Kind<T> {
    pub(super) fn new(
        allowed: impl Into<String>,
        parse: impl Fn(&RawValue<'_>) -> Result<T, ValueError> + 'static,
    ) -> Self {
        Self { allowed: allowed.into(), parse: Box::new(parse) }
    }

    /// A text; `None` from `parse` refuses it.
    pub(super) fn text(allowed: impl Into<String>, parse: impl Fn(&str) -> Option<T> + 'static) -> Self {
        Self::new(allowed, move |value| parse(value.text()?).ok_or(ValueError::Mismatch))
    }

    pub(super) fn map<U: 'static>(self, convert: impl Fn(T) -> U + 'static) -> Kind<U> {
        let Self { allowed, parse } = self;
        Kind::new(allowed, move |value| parse(value).map(&convert))
    }

    /// The same values, or "off".
    pub(super) fn or_off(self) -> Kind<Option<T>> {
        let Self { allowed, parse } = self;
        Kind::new(format!("{allowed}, or \"off\""), move |value| {
            let Ok(text) = value.text() else {
                return parse(value).map(Some);
            };
            if text == "off" {
                return Ok(None);
            }
            parse(value).map(Some).map_err(|error| match error {
                _ if nearest(text, ["off"]).is_some() => ValueError::Suggestion("off"),
                _ if value.is_in_file() => ValueError::got("another string"),
                error => error,
            })
        })
    }
}

pub(super) fn number(min: u32, max: u32) -> Kind<u32> {
    Kind::new(format!("an integer from {min} to {max}"), move |value| value.number(min, max))
}

/// A number of objects in memory.
pub(super) fn count(min: u32, max: u32) -> Kind<usize> {
    number(min, max).map(|number| number as usize)
}

pub(super) fn seconds(min: u32, max: u32) -> Kind<Duration> {
    number(min, max).map(|seconds| Duration::from_secs(seconds.into()))
}

pub(super) fn hours(min: u32, max: u32) -> Kind<Duration> {
    number(min, max).map(|hours| Duration::from_hours(hours.into()))
}

pub(super) fn days(min: u32, max: u32) -> Kind<Duration> {
    number(min, max).map(|days| Duration::from_hours(u64::from(days) * 24))
}

pub(super) fn kibibytes(min: u32, max: u32) -> Kind<u64> {
    number(min, max).map(|kibibytes| u64::from(kibibytes) << 10)
}

pub(super) fn mebibytes(min: u32, max: u32) -> Kind<u64> {
    number(min, max).map(|mebibytes| u64::from(mebibytes) << 20)
}

/// A list of delays in seconds, separated by commas in a variable.
pub(super) fn delays(count: usize, min: u32, max: u32) -> Kind<Vec<Duration>> {
    let allowed = format!("a list of at most {count} integers from {min} to {max}");
    Kind::new(allowed, move |value| {
        value.list(b',', count, |entry| Ok(Duration::from_secs(entry.number(min, max)?.into())))
    })
}

pub(super) fn flag() -> Kind<bool> {
    Kind::new("true or false", |value| value.flag())
}

/// One of these names.
pub(super) fn choice<T: Copy + 'static, const N: usize>(all: [T; N], name: fn(T) -> &'static str) -> Kind<T> {
    let quoted = all.map(|choice| format!("{:?}", name(choice)));
    let (last, others) = quoted.split_last().expect("a choice has names");
    Kind::new(format!("{} or {last}", others.join(", ")), move |value| {
        let text = value.text()?;
        let chosen = all.into_iter().find(|choice| name(*choice) == text);
        chosen.ok_or_else(|| nearest(text, all.map(name)).map_or(ValueError::Mismatch, ValueError::Suggestion))
    })
}

/// A name of at most `max` bytes; may be empty.
pub(super) fn name(max: usize) -> Kind<String> {
    Kind::text(format!("at most {max} visible ASCII characters without spaces"), move |text| {
        (text.len() <= max && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
    })
}

pub(super) fn address() -> Kind<SocketAddr> {
    let allowed = "an IP address or localhost, and a port, such as 127.0.0.1:8080 or [::]:8080, or only a port, such \
                   as :8080, for all IPv4 addresses";
    Kind::text(allowed, parse_address)
}

/// As in other programs, `localhost` is this machine, and a missing host means all addresses.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = match text.rsplit_once(':') {
        Some(("", port)) => (Ipv4Addr::UNSPECIFIED, port),
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => (Ipv4Addr::LOCALHOST, port),
        Some(_) | None => return text.parse().ok(),
    };
    format!("{host}:{port}").parse().ok()
}

/// An address that only this machine can reach.
pub(super) fn loopback_or_off() -> Kind<Option<SocketAddr>> {
    let allowed = "an address of this machine alone, such as 127.0.0.1:8081, or \"off\", since everybody on the way \
                   could read what is sent without TLS";
    Kind::new(allowed, |value| {
        let text = value.text()?;
        if text == "off" {
            return Ok(None);
        }
        let address = parse_address(text).ok_or(ValueError::Mismatch)?;
        if !address.ip().is_loopback() {
            return Err(ValueError::got("an address that others may reach"));
        }
        Ok(Some(address))
    })
}

pub(super) fn directory() -> Kind<PathBuf> {
    Kind::new("the path of a directory", |value| value.path())
}

pub(super) fn file() -> Kind<Option<PathBuf>> {
    Kind::new(
        "the path of a file, or \"\"",
        |value| {
            if value.is_empty()? { Ok(None) } else { value.located_path().map(Some) }
        },
    )
}

/// A list of absolute paths, separated by colons in a variable.
pub(super) fn absolute_paths(max: usize) -> Kind<Vec<PathBuf>> {
    Kind::new(format!("a list of at most {max} absolute paths other than \"/\""), move |value| {
        value.list(b':', max, |entry| {
            let path = entry.path()?;
            if path.is_absolute() && path.parent().is_some() { Ok(path) } else { Err(ValueError::Mismatch) }
        })
    })
}

pub(super) fn program() -> Kind<PathBuf> {
    Kind::new("the absolute path of a program, or its name in the PATH", |value| {
        let path = value.path()?;
        // A relative path would depend on the working directory.
        let sane = path.is_absolute() || path.components().count() == 1;
        sane.then_some(path).ok_or(ValueError::Mismatch)
    })
}

/// Refuses URLs with parts that may contain a password, which could get into a log.
pub(super) fn is_plain_url(text: &str) -> bool {
    text.len() <= URL_BYTES_MAX && !text.contains(['?', '#', '@']) && check_url(text).is_ok()
}

pub(super) fn url() -> Kind<String> {
    Kind::text("an http or https URL without credentials, query and fragment, or \"\"", |text| {
        (text.is_empty() || is_plain_url(text)).then(|| text.to_owned())
    })
}

/// A list of URLs, separated by commas in a variable.
pub(super) fn urls(max: usize) -> Kind<Vec<String>> {
    let allowed = format!("a list of at most {max} http or https URLs, with commas between them in a variable");
    Kind::new(allowed, move |value| {
        value.list(b',', max, |entry| {
            let text = entry.text()?;
            is_plain_url(text).then(|| text.to_owned()).ok_or(ValueError::Mismatch)
        })
    })
}

/// A setting that is only taken from the environment.
pub(super) fn secret<T: 'static>(allowed: &str, parse: fn(&str) -> Result<T, Malformed>) -> Kind<T> {
    Kind::new(allowed, move |value| match value.text()? {
        "" => Err(ValueError::got("empty")),
        text => parse(text).map_err(|malformed| ValueError::got(format!("a text that {malformed}"))),
    })
}

pub(super) fn secret_text() -> Kind<SecretValue> {
    secret("1 to 16384 bytes, without NUL", SecretValue::parse)
}
