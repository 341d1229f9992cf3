//! Owns the files that a report is written to.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::refusal::Refusal;
use crate::report::{self, model::Run};

#[derive(Args)]
pub struct FileOptions {
    /// Write the report as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub struct Files {
    json: Option<File>,
    html: Option<File>,
}

impl FileOptions {
    /// Before the run, so that a bad path does not come to light after it.
    pub fn open(&self) -> Result<Files, Refusal> {
        let create = |path: &Path| File::create(path).map_err(|error| Refusal::Unwritable(path.to_owned(), error));
        Ok(Files {
            json: self.json.as_deref().map(create).transpose()?,
            html: self.html.as_deref().map(create).transpose()?,
        })
    }
}

impl Files {
    pub fn write(self, run: &Run) -> io::Result<()> {
        if let Some(mut json) = self.json {
            json.write_all(report::json(run).as_bytes())?;
        }
        if let Some(mut html) = self.html {
            html.write_all(report::html(std::slice::from_ref(run)).as_bytes())?;
        }
        Ok(())
    }
}
