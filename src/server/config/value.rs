//! One value of a setting as a layer gives it, before it is checked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::document::{Document, type_of, whole_number};
use super::fault::{Fault, SourceLocation};

/// A value in a file, or the text of an environment variable or a flag.
pub(super) enum RawValue<'a> {
    InFile { document: &'a Document, value: &'a Spanned<DeValue<'a>> },
    Text { location: SourceLocation, text: &'a OsStr },
}

/// Why a value is refused. Never quotes a text, which may be a misplaced token.
pub(super) enum ValueError {
    /// The value does not match the kind of the setting, which describes the allowed values.
    Mismatch,
    /// Completes "got".
    Got(String),
    /// Completes "did you mean".
    Suggestion(&'static str),
}

impl ValueError {
    pub(super) fn got(got: impl Into<String>) -> Self {
        Self::Got(got.into())
    }

    /// `allowed` completes "must be".
    pub(super) fn fault(&self, location: SourceLocation, key: &str, allowed: &str) -> Fault {
        match self {
            Self::Mismatch => Fault::must_be(location, key, allowed, None),
            Self::Got(got) => Fault::must_be(location, key, allowed, Some(got)),
            Self::Suggestion(name) => {
                Fault::must_be(location, key, &format!("{allowed}; did you mean `{name}`?"), None)
            }
        }
    }
}

impl<'a> RawValue<'a> {
    pub(super) fn location(&self) -> SourceLocation {
        match self {
            Self::InFile { document, value } => document.location(value),
            Self::Text { location, .. } => location.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> Result<bool, ValueError> {
        match self {
            Self::InFile { .. } => self.text().map(str::is_empty),
            Self::Text { text, .. } => Ok(text.is_empty()),
        }
    }

    pub(super) fn is_in_file(&self) -> bool {
        matches!(self, Self::InFile { .. })
    }

    pub(super) fn text(&self) -> Result<&'a str, ValueError> {
        match self {
            Self::InFile { value, .. } => value.get_ref().as_str().ok_or_else(|| self.wrong_type()),
            Self::Text { text, .. } => text.to_str().ok_or_else(|| ValueError::got("text that is not UTF-8")),
        }
    }

    fn wrong_type(&self) -> ValueError {
        match self {
            Self::InFile { value, .. } => ValueError::got(type_of(value.get_ref())),
            Self::Text { .. } => ValueError::Mismatch,
        }
    }

    pub(super) fn flag(&self) -> Result<bool, ValueError> {
        match self {
            Self::InFile { value, .. } => value.get_ref().as_bool().ok_or_else(|| self.wrong_type()),
            Self::Text { .. } => self.text()?.parse().map_err(|_| ValueError::Mismatch),
        }
    }

    pub(super) fn number(&self, min: u32, max: u32) -> Result<u32, ValueError> {
        match self {
            Self::InFile { value, .. } => whole_number(value.get_ref(), min..=max).map_err(ValueError::Got),
            Self::Text { .. } => {
                let number = self.text()?.parse::<i128>().map_err(|_| ValueError::Mismatch)?;
                let fits = u32::try_from(number).ok().filter(|number| (min..=max).contains(number));
                fits.ok_or_else(|| ValueError::got(number.to_string()))
            }
        }
    }

    /// The path as written, not made absolute.
    pub(super) fn path(&self) -> Result<PathBuf, ValueError> {
        let path = match self {
            Self::InFile { .. } => OsStr::new(self.text()?),
            Self::Text { text, .. } => text,
        };
        match path.as_bytes() {
            [] => Err(ValueError::got("empty")),
            bytes if bytes.contains(&0) => Err(ValueError::got("text with a NUL")),
            _ => Ok(PathBuf::from(path)),
        }
    }

    /// A path relative to the file that names it or, in a variable, to the working directory.
    pub(super) fn located_path(&self) -> Result<PathBuf, ValueError> {
        let path = self.path()?;
        Ok(match self {
            Self::InFile { document, .. } => document.directory().join(path),
            Self::Text { .. } => path,
        })
    }

    /// The entries of a list; in a text, separated by `separator`. Spaces around a comma are removed.
    pub(super) fn entries(&self, separator: u8) -> Result<Vec<RawValue<'a>>, ValueError> {
        match self {
            Self::InFile { document, value } => {
                let array = value.get_ref().as_array().ok_or_else(|| self.wrong_type())?;
                Ok(array.iter().map(|value| RawValue::InFile { document, value }).collect())
            }
            Self::Text { location, text } => {
                let texts = text.as_bytes().split(|byte| *byte == separator);
                let texts = texts.map(|text| if separator == b',' { text.trim_ascii() } else { text });
                let entry = |text| RawValue::Text { location: location.clone(), text: OsStr::from_bytes(text) };
                Ok(texts.filter(|text| !text.is_empty()).map(entry).collect())
            }
        }
    }

    /// A list of at most `max` entries.
    pub(super) fn list<T>(
        &self,
        separator: u8,
        max: usize,
        parse: impl Fn(&RawValue<'_>) -> Result<T, ValueError>,
    ) -> Result<Vec<T>, ValueError> {
        let in_list = |error| match error {
            ValueError::Got(got) => ValueError::Got(format!("{got} in it")),
            error @ (ValueError::Mismatch | ValueError::Suggestion(_)) => error,
        };
        let list: Vec<T> = self.entries(separator)?.iter().map(parse).collect::<Result<_, _>>().map_err(in_list)?;
        check_count(list, max)
    }
}

pub(super) fn check_count<T>(list: Vec<T>, max: usize) -> Result<Vec<T>, ValueError> {
    if list.len() > max { Err(ValueError::got(format!("{} of them", list.len()))) } else { Ok(list) }
}
