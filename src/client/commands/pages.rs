//! `lockkeeper completions` and `man`: generated from the description of the commands, so that they cannot differ from
//! it.

use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::{Colour, Out};

#[derive(clap::Args)]
pub struct Completions {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(clap::Args)]
pub struct Manual {
    /// Write a page for each command into this directory, created if missing, instead of printing the first page
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub fn completions(arguments: &Completions, mut program: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    Out::new(false, Colour::Never).write(&String::from_utf8_lossy(&script))
}

pub fn manual(arguments: &Manual, program: clap::Command) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot write the manual pages: {error}"));
    if let Some(directory) = &arguments.directory {
        std::fs::create_dir_all(directory).map_err(failed)?;
        return clap_mangen::generate_to(program, directory).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(program).render(&mut page).map_err(failed)?;
    Out::new(false, Colour::Never).write(&String::from_utf8_lossy(&page))
}
