//! `lockkeeper tokens`: list, create and revoke API tokens.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::Api;
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::output::table::{Cell, Column};
use crate::output::text::harmless;
use crate::output::{Out, text_of, times};

const COLUMNS: [Column; 7] = [
    Column::whole("TOKEN"),
    Column::cuttable("NAME"),
    Column::cuttable("USER"),
    Column::optional("ENDS IN"),
    Column::optional("CREATED"),
    Column::whole("LAST USED"),
    Column::whole("EXPIRES"),
];
const HOURS_PER_DAY: i64 = 24;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the tokens: your own, or for admins those of all (the default)
    List {
        /// Only your own
        #[arg(long)]
        mine: bool,
    },
    /// Create a token and print it, once
    Create {
        /// For its purpose
        name: String,
        /// The member whose permissions it has; others than you need an admin
        #[arg(long, value_name = "MEMBER")]
        user: Option<String>,
        /// It expires after this many days
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
        days: Option<u16>,
        /// It expires at this time, like 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", conflicts_with = "days")]
        expires: Option<Timestamp>,
    },
    /// Revoke tokens at once
    Revoke {
        /// As in the list, like tok_…
        #[arg(value_name = "TOKEN", required = true, value_parser = identifier)]
        tokens: Vec<String>,
    },
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    match args.command.unwrap_or(Command::List { mine: false }) {
        Command::List { mine } => list(mine, api, out).await,
        Command::Create { name, user, days, expires } => {
            let after = days.map(|days| Timestamp::now() + SignedDuration::from_hours(HOURS_PER_DAY * i64::from(days)));
            create(&name, user, expires.or(after), api, out).await
        }
        Command::Revoke { tokens } => {
            for token in tokens {
                api.delete(&format!("/tokens/{token}")).await?;
                out.note(&format!("revoked {token}"));
            }
            Ok(())
        }
    }
}

async fn list(mine: bool, api: &Api, out: &Out) -> Result<(), Failure> {
    let mut tokens = Vec::new();
    loop {
        let answer = api.get(&format!("/tokens?mine={mine}&limit=100&offset={}", tokens.len())).await?;
        let page = answer.data.as_array().map(Vec::as_slice).unwrap_or_default();
        tokens.extend_from_slice(page);
        if page.is_empty() || tokens.len() as u64 >= answer.pagination["total"].as_u64().unwrap_or_default() {
            break;
        }
    }
    let now = Timestamp::now();
    out.list(&Value::Array(tokens), &COLUMNS, |token| row(token, now), "no tokens")
}

fn row(token: &Value, now: Timestamp) -> Vec<Cell> {
    let ago = |field: &str, none: &str| {
        let ago = token[field].as_str().and_then(|at| times::since(at, now));
        ago.map_or_else(|| none.to_owned(), |ago| format!("{ago} ago"))
    };
    let expires = token["expiresAt"].as_str().and_then(|at| times::until(at, now));
    vec![
        text_of(token, "tokenId").into(),
        text_of(token, "name").into(),
        text_of(&token["user"], "name").into(),
        format!("…{}", text_of(token, "lastFour")).into(),
        ago("createdAt", "").into(),
        ago("lastUsedAt", "never").into(),
        expires.map_or_else(|| "never".to_owned(), |left| format!("in {left}")).into(),
    ]
}

async fn create(
    name: &str,
    user: Option<String>,
    expires: Option<Timestamp>,
    api: &Api,
    out: &Out,
) -> Result<(), Failure> {
    let mut body = json!({ "name": name });
    if let Some(user) = user {
        body["user"] = json!(user);
    }
    if let Some(expires) = expires {
        body["expiresAt"] = json!(expires.to_string());
    }
    let created = api.post("/tokens", &body).await?.data;
    let Some(text) = created["token"].as_str() else {
        // The first answer was lost, and the server stores no token text.
        let id = harmless(text_of(&created, "tokenId"));
        return Err(Failure::Failed(format!(
            "the token {id} was created, but its text was lost with the connection; revoke it, and create another one"
        )));
    };
    if !out.json {
        out.note(&format!("created {}; it is not shown again", harmless(text_of(&created, "tokenId"))));
    }
    // Alone on stdout, for a file or another program.
    out.record(&created, |_| vec![harmless(text)])
}
