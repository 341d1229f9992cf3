//! A token in memory: not shown by accident, and wiped afterwards; and how it is read from a file.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// A file that is larger has no token.
const FILE_BYTES_MAX: u64 = 32 * 1024;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        drop(Zeroizing::new(std::mem::take(&mut self.0)));
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[hidden]")
    }
}

/// The first line of a file. `what` it is, for people.
pub fn read_line(file: &Path, what: &str) -> Result<Secret, Failure> {
    let unreadable = |error: &dyn fmt::Display| Failure::Usage(format!("{what} {}: {error}", file.display()));
    let mut text = Zeroizing::new(String::new());
    let opened = File::open(file).map_err(|error| unreadable(&error))?;
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    let token = Secret::new(text.lines().next().unwrap_or_default().trim());
    if token.reveal().is_empty() { Err(unreadable(&"it is empty")) } else { Ok(token) }
}
