//! `lockkeeper secrets`: secrets of the organization or of one pipeline. A value comes from stdin or a file, never from
//! an argument, and is never printed.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::api::{Api, Connected, NoArgs, given, list_all, new_key};
use crate::arguments::identifier;
use crate::connection::options::Options;
use crate::connection::secret::read_hidden;
use crate::failure::{CallError, Failure, client_help};
use crate::output::table::Cell;
use crate::output::text::{Style, harmless};
use crate::output::{Out, text_of, times};

/// The server's limit.
const VALUE_BYTES_MAX: u64 = 16 * 1024;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the secrets, without their values
    #[command(after_help = client_help!(
        "It lists those of the organization and of all pipelines; with --pipeline, that pipeline's alone.\n\n\
         Examples:\n  lockkeeper secrets list\n  lockkeeper secrets list --pipeline web --json"
    ))]
    List(Connected<NoArgs>),
    /// Create a secret, or give it a new value; the value comes from stdin or a file
    #[command(after_help = client_help!(
        "On a terminal it asks for the value. Of piped input the last line break is left out; of a file, nothing. The secret \
         is the organization's; with --pipeline it is that pipeline's alone, where it wins (only the flag counts here, not \
         LOCKKEEPER_PIPELINE and not the profile).\n\n\
         Examples:\n  lockkeeper secrets set API_KEY\n  pass show api-key | lockkeeper secrets set API_KEY\n  \
         lockkeeper secrets set DEPLOY_KEY --pipeline web --file id_ed25519"
    ))]
    Set(Connected<SetArgs>),
    /// Delete a secret
    #[command(after_help = client_help!(
        "The secret is the organization's, or with --pipeline that pipeline's.\n\n\
         Examples:\n  lockkeeper secrets delete API_KEY\n  lockkeeper secrets delete DEPLOY_KEY --pipeline web"
    ))]
    Delete(Connected<DeleteArgs>),
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(command) => {
            let scope = Scope::of(&command.options)?;
            command.run(async |_, api, out| list(scope, api, out).await).await
        }
        Command::Set(command) => {
            let scope = Scope::of(&command.options)?;
            command.run(async |args, api, out| set(args, &scope, api, out).await).await
        }
        Command::Delete(command) => {
            let scope = Scope::of(&command.options)?;
            command.run(async |args, api, out| delete(args, &scope, api, out).await).await
        }
    }
}

/// The owner of a secret: this pipeline, or the organization.
struct Scope(Option<String>);

impl Scope {
    /// Uses only the flag: a forgotten variable or profile must not decide which secret is replaced.
    fn of(options: &Options) -> Result<Self, Failure> {
        let checked = |name: &String| identifier(name).map_err(|rule| Failure::Usage(format!("--pipeline {rule}")));
        Ok(Self(options.pipeline.as_ref().map(checked).transpose()?))
    }

    /// `pipelineId=web`, or nothing.
    fn query(&self) -> String {
        self.0.as_ref().map(|pipeline| format!("?pipelineId={pipeline}")).unwrap_or_default()
    }

    fn words(&self) -> String {
        match &self.0 {
            Some(pipeline) => format!("the secret of pipeline {pipeline}"),
            None => "the organization's secret".to_owned(),
        }
    }
}

async fn list(Scope(pipeline): Scope, api: &Api, out: &Out) -> Result<(), Failure> {
    let filter: Vec<(&str, String)> = pipeline.map(|pipeline| ("pipelineId", pipeline)).into_iter().collect();
    let secrets = list_all(api, "/secrets", &filter).await?;
    out.list(&secrets, row, "no secrets")
}

fn row(secret: &Value) -> Vec<Cell> {
    vec![
        Cell::whole("NAME", text_of(secret, "name")).styled(Style::Strong),
        Cell::whole("PIPELINE", secret["pipelineId"].as_str().unwrap_or("(all)")),
        Cell::whole("VERSION", secret["version"].to_string()),
        Cell::whole("UPDATED (UTC)", times::clock(text_of(secret, "updatedAt"))),
        Cell::cuttable("DESCRIPTION", text_of(secret, "description")),
    ]
}

#[derive(clap::Args)]
pub struct SetArgs {
    /// The name of the variable that contains the secret in steps
    #[arg(value_name = "NAME", value_parser = variable_name)]
    name: String,
    /// Read the value from this file unchanged, instead of from stdin; `-` is stdin, unchanged
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

async fn set(args: SetArgs, scope: &Scope, api: &Api, out: &Out) -> Result<(), Failure> {
    let value = match &args.file {
        Some(file) => value_of_file(file)?,
        None => value_of_stdin(&args.name)?,
    };
    let change = given(json!({ "value": *value, "description": args.description }));
    let mut new = change.clone();
    new["name"] = json!(args.name);
    new["pipelineId"] = json!(scope.0);
    // Update first: secrets are changed more often than created. Another caller may create or delete the secret in
    // between.
    let path = path_of(&args.name, scope);
    let secret = match api.put(&path, &change).await {
        Err(Failure::NotFound(_)) => match create(api, &new).await? {
            Some(secret) => secret,
            None => api.put(&path, &change).await?.data,
        },
        answer => answer?.data,
    };
    out.record(&secret, |secret| {
        let version = &secret["version"];
        vec![harmless(&format!("{} {} is set, version {version}", scope.words(), args.name))]
    })
}

/// `None` if the secret exists by now.
async fn create(api: &Api, new: &Value) -> Result<Option<Value>, Failure> {
    let mut call = api.call(reqwest::Method::POST, "/secrets");
    call.key = Some(new_key());
    call.body = Some(new.clone());
    match api.send(call).await {
        Ok(answer) => Ok(Some(answer.data)),
        Err(CallError::Problem(problem)) if problem.code == "secret_exists" => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(clap::Args)]
pub struct DeleteArgs {
    /// The secret
    #[arg(value_name = "NAME", value_parser = variable_name)]
    name: String,
}

async fn delete(args: DeleteArgs, scope: &Scope, api: &Api, out: &Out) -> Result<(), Failure> {
    api.delete(&path_of(&args.name, scope)).await?;
    if out.json {
        return out.json(&Value::Null);
    }
    out.line(&harmless(&format!("{} {} is deleted", scope.words(), args.name)))
}

fn path_of(name: &str, scope: &Scope) -> String {
    format!("/secrets/{name}{}", scope.query())
}

/// Accepts names that are safe in a path; the server checks the complete rule.
fn variable_name(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = text.as_bytes().first().is_some_and(|byte| !byte.is_ascii_digit());
    if begins && text.bytes().all(good) {
        return Ok(text.to_owned());
    }
    Err("must be the name of a variable: letters, digits and `_`, and no digit first".to_owned())
}

fn value_of_file(file: &Path) -> Result<Zeroizing<String>, Failure> {
    if file == Path::new("-") {
        return read(std::io::stdin().lock(), "stdin");
    }
    let shown = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|error| Failure::Usage(format!("cannot read {shown}: {error}")))?;
    read(opened, &shown)
}

/// Reads the value without the final line break, which `echo` writes unintentionally.
fn value_of_stdin(name: &str) -> Result<Zeroizing<String>, Failure> {
    if std::io::stdin().is_terminal() {
        let typed = read_hidden(&format!("Value of {name}"))?;
        return read(typed.reveal().as_bytes(), "the value");
    }
    let mut value = read(std::io::stdin().lock(), "stdin")?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

fn read(source: impl Read, from: &str) -> Result<Zeroizing<String>, Failure> {
    // With full capacity from the start: growing the buffer would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(VALUE_BYTES_MAX as usize + 1));
    let read = source.take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Usage(format!("cannot read {from}: {error}")))?;
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        return Err(Failure::Usage(format!("a secret has at most {VALUE_BYTES_MAX} bytes; {from} has more")));
    }
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| {
        Failure::Usage(format!("a secret is text; {from} is not UTF-8; encode it, as base64 for example"))
    })?;
    if text.is_empty() {
        return Err(Failure::Usage(format!("a secret is not empty; {from} is")));
    }
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_value_that_is_too_long_empty_or_no_text_is_refused() {
        assert_eq!(read(&b"horse\n"[..], "stdin").map(|value| value.to_string()), Ok("horse\n".to_owned()));
        for wrong in [&b""[..], b"\xff", &[b'x'; VALUE_BYTES_MAX as usize + 1]] {
            let refused = read(wrong, "stdin").map(|_| ()).unwrap_err();
            assert_eq!(refused.code(), 2, "{refused}");
        }
        assert!(read(&[b'x'; VALUE_BYTES_MAX as usize][..], "stdin").is_ok());
    }

    #[test]
    fn names_can_be_part_of_a_path() {
        for good in ["API_KEY", "_x", "a1"] {
            assert!(variable_name(good).is_ok(), "{good}");
        }
        for wrong in ["", "1a", "a-b", "a/b", "a?b", "ä"] {
            assert!(variable_name(wrong).is_err(), "{wrong}");
        }
    }
}
