//! The value of a setting as given in a file or as a text, before it is checked.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;
use tracing_subscriber::EnvFilter;

use accounts::secrets::SecretValue;
use domain::Malformed;
use domain::nearest::nearest;
use domain::pipeline::check_url;
use outbound::{DESTINATIONS_MAX, Destination};

use super::cluster::LogsUrl;
use super::document::{Document, type_of, whole_number};
use super::fault::{Fault, Place};
use super::keys::{LOG_FILTER_MAX, ORGANIZATIONS_MAX, SEARCH_PATH_MAX, STEP_PATHS_MAX};
use super::settings::{FileUrls, LogFormat, UserRange};

/// A value before it is checked.
pub(super) enum Given<'a> {
    InFile {
        document: &'a Document,
        value: &'a Spanned<DeValue<'a>>,
    },
    /// Of an environment variable or a flag.
    Text {
        place: Place,
        text: &'a OsStr,
    },
}

/// Why a value is refused. Its text is never repeated: it may be a misplaced token.
pub(super) enum Unfit {
    /// The rule says enough.
    Unsaid,
    /// Completes "got".
    Is(String),
    Meant(&'static str),
}

impl Unfit {
    pub(super) fn is(got: impl Into<String>) -> Self {
        Unfit::Is(got.into())
    }

    pub(super) fn fault(&self, place: Place, key: &str, allowed: &str) -> Fault {
        match self {
            Unfit::Unsaid => Fault::must_be(place, key, allowed, None),
            Unfit::Is(got) => Fault::must_be(place, key, allowed, Some(got)),
            Unfit::Meant(meant) => Fault::must_be(place, key, &format!("{allowed}; did you mean `{meant}`?"), None),
        }
    }
}

impl Given<'_> {
    pub(super) fn place(&self) -> Place {
        match self {
            Given::InFile { document, value } => document.place(value),
            Given::Text { place, .. } => place.clone(),
        }
    }

    pub(super) fn text(&self) -> Result<&str, Unfit> {
        match self {
            Given::InFile { value, .. } => {
                let value = value.get_ref();
                value.as_str().ok_or_else(|| Unfit::is(type_of(value)))
            }
            Given::Text { text, .. } => text.to_str().ok_or_else(|| Unfit::is("text that is not UTF-8")),
        }
    }

    /// `localhost` is this machine, as everywhere, and no name at all means every address, as in other programs.
    pub(super) fn address(&self) -> Result<SocketAddr, Unfit> {
        let text = self.text()?;
        let host = match text.rsplit_once(':') {
            Some(("", _)) => Ipv4Addr::UNSPECIFIED,
            Some((host, _)) if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST,
            Some(_) | None => return text.parse().map_err(|_| Unfit::Unsaid),
        };
        let port = text.rsplit(':').next().unwrap_or_default();
        format!("{host}:{port}").parse().map_err(|_| Unfit::Unsaid)
    }

    pub(super) fn loopback_or_off(&self) -> Result<Option<(SocketAddr, Place)>, Unfit> {
        if self.text()? == "off" {
            return Ok(None);
        }
        let address = self.address()?;
        if !address.ip().is_loopback() {
            return Err(Unfit::is("an address that others may reach"));
        }
        Ok(Some((address, self.place())))
    }

    /// Relative to the file that names it; in a variable, to the working directory.
    pub(super) fn file(&self) -> Result<Option<(PathBuf, Place)>, Unfit> {
        let is_empty = match self {
            Given::InFile { .. } => self.text()?.is_empty(),
            Given::Text { text, .. } => text.is_empty(),
        };
        if is_empty {
            return Ok(None);
        }
        let path = self.path()?;
        let path = match self {
            Given::InFile { document, .. } => document.directory().join(path),
            Given::Text { .. } => path,
        };
        Ok(Some((path, self.place())))
    }

    pub(super) fn path(&self) -> Result<PathBuf, Unfit> {
        match self {
            Given::InFile { .. } => sane_path(Path::new(self.text()?)),
            Given::Text { text, .. } => sane_path(Path::new(text)),
        }
    }

    pub(super) fn number(&self, min: u32, max: u32) -> Result<u32, Unfit> {
        match self {
            Given::InFile { value, .. } => whole_number(value.get_ref(), min..=max).map_err(Unfit::Is),
            Given::Text { .. } => {
                let number = self.text()?.parse::<i128>().map_err(|_| Unfit::Unsaid)?;
                let fits = u32::try_from(number).ok().filter(|number| (min..=max).contains(number));
                fits.ok_or_else(|| Unfit::is(number.to_string()))
            }
        }
    }

    pub(super) fn number_or_off(&self, min: u32, max: u32) -> Result<Option<u32>, Unfit> {
        let Ok(text) = self.text() else {
            return self.number(min, max).map(Some);
        };
        if text == "off" {
            return Ok(None);
        }
        self.number(min, max).map(Some).map_err(|unfit| match self {
            _ if nearest(text, ["off"]).is_some() => Unfit::Meant("off"),
            Given::InFile { .. } => Unfit::is("another string"),
            Given::Text { .. } => unfit,
        })
    }

    /// In a variable they are separated by commas.
    pub(super) fn numbers(&self, count: usize, min: u32, max: u32) -> Result<Vec<u32>, Unfit> {
        let numbers: Vec<u32> = match self {
            Given::InFile { value, .. } => {
                let value = value.get_ref();
                let array = value.as_array().ok_or_else(|| Unfit::is(type_of(value)))?;
                let numbers = array.iter().map(|entry| whole_number(entry.get_ref(), min..=max).map_err(Unfit::Is));
                numbers.collect::<Result<_, _>>()?
            }
            Given::Text { .. } => {
                let texts = self.text()?.split(',').map(str::trim).filter(|text| !text.is_empty());
                let fits = |number: &u32| (min..=max).contains(number);
                texts.map(|text| text.parse().ok().filter(fits).ok_or(Unfit::Unsaid)).collect::<Result<_, _>>()?
            }
        };
        if numbers.len() > count {
            return Err(Unfit::is(format!("{} of them", numbers.len())));
        }
        Ok(numbers)
    }

    /// In a variable they are separated by commas.
    pub(super) fn destinations(&self) -> Result<Vec<Destination>, Unfit> {
        self.texts(DESTINATIONS_MAX, |text| Destination::parse(text).ok_or(Unfit::Unsaid))
    }

    pub(super) fn urls(&self, count: usize) -> Result<Vec<String>, Unfit> {
        let plain = |text: &str| text.len() <= 2_048 && !text.contains(['?', '#', '@']) && check_url(text).is_ok();
        self.texts(count, |text| plain(text).then(|| text.to_owned()).ok_or(Unfit::Unsaid))
    }

    /// A list; in a variable, with commas between its texts.
    fn texts<T>(&self, count: usize, parse: impl Fn(&str) -> Result<T, Unfit>) -> Result<Vec<T>, Unfit> {
        let found: Vec<T> = match self {
            Given::InFile { value, .. } => {
                let value = value.get_ref();
                let array = value.as_array().ok_or_else(|| Unfit::is(type_of(value)))?;
                let text = |entry: &Spanned<DeValue<'_>>| {
                    let value = entry.get_ref();
                    parse(value.as_str().ok_or_else(|| Unfit::is(format!("{} in it", type_of(value))))?)
                };
                array.iter().map(text).collect::<Result<_, _>>()?
            }
            Given::Text { .. } => {
                let texts = self.text()?.split(',').map(str::trim).filter(|text| !text.is_empty());
                texts.map(parse).collect::<Result<_, _>>()?
            }
        };
        if found.len() > count {
            return Err(Unfit::is(format!("{} of them", found.len())));
        }
        Ok(found)
    }

    pub(super) fn logs_url(&self) -> Result<Option<LogsUrl>, Unfit> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { LogsUrl::parse(text).map(Some).ok_or(Unfit::Unsaid) }
    }

    pub(super) fn database_url(&self) -> Result<Option<SecretValue>, Unfit> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        let rest = ["postgresql://", "postgres://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let (before_host, _) = rest.ok_or(Unfit::Unsaid)?.rsplit_once('@').unwrap_or_default();
        let has_password = before_host.contains(':') || text.contains("password=");
        if has_password && matches!(self, Given::InFile { .. }) {
            return Err(Unfit::is("one with a password"));
        }
        SecretValue::parse(text).map(Some).map_err(|_| Unfit::Unsaid)
    }

    pub(super) fn flag(&self) -> Result<bool, Unfit> {
        match self {
            Given::InFile { value, .. } => {
                let value = value.get_ref();
                value.as_bool().ok_or_else(|| Unfit::is(type_of(value)))
            }
            Given::Text { .. } => self.text()?.parse().map_err(|_| Unfit::Unsaid),
        }
    }

    pub(super) fn log_filter(&self) -> Result<String, Unfit> {
        let text = self.text()?;
        // An empty filter would parse, and log nothing but errors; anything beyond ASCII can make the parser panic
        // (tracing-subscriber 0.3.23), and no target has such a name.
        let sane = (1..=LOG_FILTER_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let parses = sane && EnvFilter::try_new(text).is_ok();
        parses.then(|| text.to_owned()).ok_or(Unfit::Unsaid)
    }

    pub(super) fn log_format(&self) -> Result<LogFormat, Unfit> {
        self.choice(LogFormat::ALL, LogFormat::as_str)
    }

    pub(super) fn choice<T: Copy, const N: usize>(&self, all: [T; N], name: fn(T) -> &'static str) -> Result<T, Unfit> {
        let text = self.text()?;
        let named = all.into_iter().find(|choice| name(*choice) == text);
        named.ok_or_else(|| nearest(text, all.map(name)).map_or(Unfit::Unsaid, Unfit::Meant))
    }

    /// Without the parts that may have a password, which could get into a log.
    pub(super) fn url(&self) -> Result<String, Unfit> {
        let text = self.text()?;
        let plain = text.len() <= 2_048 && !text.contains(['?', '#', '@']);
        let sane = text.is_empty() || (plain && check_url(text).is_ok());
        sane.then(|| text.to_owned()).ok_or(Unfit::Unsaid)
    }

    /// Without a path: links to pages and the origin of requests are made from it.
    pub(super) fn public_url(&self) -> Result<Option<String>, Unfit> {
        let text = self.url()?;
        let origin = text.strip_suffix('/').unwrap_or(&text);
        match origin.strip_prefix("https://") {
            Some(host) if !host.contains('/') => Ok(Some(origin.to_ascii_lowercase())),
            None if text.is_empty() => Ok(None),
            Some(_) | None => Err(Unfit::Unsaid),
        }
    }

    pub(super) fn name(&self, max: usize) -> Result<String, Unfit> {
        let text = self.text()?;
        let sane = text.len() <= max && text.bytes().all(|byte| byte.is_ascii_graphic());
        sane.then(|| text.to_owned()).ok_or(Unfit::Unsaid)
    }

    pub(super) fn search_path(&self) -> Result<String, Unfit> {
        let text = self.text()?;
        // An empty or relative directory would depend on where the step runs.
        let sane = text.len() <= SEARCH_PATH_MAX
            && !text.contains('\0')
            && text.split(':').all(|directory| directory.starts_with('/'));
        sane.then(|| text.to_owned()).ok_or(Unfit::Unsaid)
    }

    pub(super) fn user_range(&self) -> Result<UserRange, Unfit> {
        UserRange::parse(self.text()?).ok_or(Unfit::Unsaid)
    }

    /// In a variable they are separated by ':'.
    pub(super) fn absolute_paths(&self) -> Result<Vec<PathBuf>, Unfit> {
        let paths: Vec<PathBuf> = match self {
            Given::InFile { value, .. } => {
                let value = value.get_ref();
                let array = value.as_array().ok_or_else(|| Unfit::is(type_of(value)))?;
                let text_of = |entry: &Spanned<DeValue<'_>>| {
                    let entry = entry.get_ref();
                    entry.as_str().map(PathBuf::from).ok_or_else(|| Unfit::is(type_of(entry)))
                };
                array.iter().map(text_of).collect::<Result<_, _>>()?
            }
            Given::Text { text, .. } => {
                std::env::split_paths(text).filter(|path| !path.as_os_str().is_empty()).collect()
            }
        };
        let is_sane = |path: &PathBuf| path.is_absolute() && path.parent().is_some() && sane_path(path).is_ok();
        if !paths.iter().all(is_sane) {
            return Err(Unfit::Unsaid);
        }
        if paths.len() > STEP_PATHS_MAX {
            return Err(Unfit::is(format!("{} of them", paths.len())));
        }
        Ok(paths)
    }

    pub(super) fn program(&self) -> Result<PathBuf, Unfit> {
        let path = self.path()?;
        // A relative path would depend on the working directory.
        let sane = path.is_absolute() || path.components().count() == 1;
        sane.then_some(path).ok_or(Unfit::Unsaid)
    }

    pub(super) fn file_urls(&self) -> Result<FileUrls, Unfit> {
        let flag = match self {
            Given::InFile { value, .. } => value.get_ref().as_bool(),
            Given::Text { .. } => self.text()?.parse().ok(),
        };
        match flag {
            Some(true) => Ok(FileUrls::Always),
            Some(false) => Ok(FileUrls::Never),
            None if self.text()? == "sample" => Ok(FileUrls::Sample),
            None => Err(Unfit::Unsaid),
        }
    }

    pub(super) fn secret<T>(&self, parse: fn(&str) -> Result<T, Malformed>) -> Result<T, Unfit> {
        match self {
            Given::InFile { .. } => Err(Unfit::Unsaid),
            Given::Text { .. } => match self.text()? {
                "" => Err(Unfit::is("empty")),
                text => parse(text).map_err(|malformed| Unfit::is(format!("a text that {malformed}"))),
            },
        }
    }

    /// Each path, relative to the working directory, with the place that names it.
    pub(super) fn organization_files(&self, faults: &mut Vec<Fault>) -> Result<Vec<(PathBuf, Place)>, Unfit> {
        let files: Vec<(PathBuf, Place)> = match self {
            Given::InFile { document, value } => {
                let value = value.get_ref();
                let array = value.as_array().ok_or_else(|| Unfit::is(type_of(value)))?;
                let path_of = |element: &Spanned<DeValue<'_>>| {
                    let value = element.get_ref();
                    let text = value.as_str().ok_or_else(|| Unfit::is(type_of(value)))?;
                    sane_path(Path::new(text)).map(|path| document.directory().join(path))
                };
                let mut files = Vec::with_capacity(array.len());
                for element in array.iter() {
                    let place = document.place(element);
                    match path_of(element) {
                        Ok(path) => files.push((path, place)),
                        Err(unfit) => faults.push(unfit.fault(place, "organizations", "paths of files")),
                    }
                }
                files
            }
            Given::Text { place, text } => std::env::split_paths(text)
                .filter(|path| !path.as_os_str().is_empty())
                .map(|path| (path, place.clone()))
                .collect(),
        };
        if files.len() > ORGANIZATIONS_MAX {
            return Err(Unfit::is(format!("{} of them", files.len())));
        }
        Ok(files)
    }
}

fn sane_path(path: &Path) -> Result<PathBuf, Unfit> {
    if path.as_os_str().is_empty() {
        return Err(Unfit::is("empty"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Unfit::is("text with a NUL"));
    }
    Ok(path.to_owned())
}
