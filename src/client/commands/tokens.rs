//! `lockkeeper tokens`: list, create and revoke API tokens.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{Api, given, list_all};
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::output::table::Cell;
use crate::output::text::{harmless, shown_of};
use crate::output::{Out, note, text_of, times};

const HOURS_PER_DAY: i64 = 24;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the tokens: your own, or for admins those of all members (the default)
    List {
        /// Only your own tokens
        #[arg(long)]
        mine: bool,
    },
    /// Create a token and print it, once
    Create {
        /// The name of the token: its purpose
        name: String,
        /// The member whose permissions the token has; only admins can name another member
        #[arg(long, value_name = "MEMBER")]
        user: Option<String>,
        /// Expire the token after this many days
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
        days: Option<u16>,
        /// Expire the token at this time, like 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME", conflicts_with = "days")]
        expires: Option<Timestamp>,
    },
    /// Revoke tokens immediately
    Revoke {
        /// The tokens' ids, as in the list, like tok_…
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
                note(&format!("revoked {token}"));
            }
            Ok(())
        }
    }
}

async fn list(mine: bool, api: &Api, out: &Out) -> Result<(), Failure> {
    let tokens = list_all(api, "/tokens", &[("mine", mine.to_string())]).await?;
    let now = Timestamp::now();
    out.list(&tokens, |token| row(token, now), "no tokens")
}

fn row(token: &Value, now: Timestamp) -> Vec<Cell> {
    let ago = |field: &str, none: &str| {
        let ago = times::since(text_of(token, field), now);
        ago.map_or_else(|| none.to_owned(), |ago| format!("{ago} ago"))
    };
    let expires = times::until(text_of(token, "expiresAt"), now);
    vec![
        Cell::whole("TOKEN", text_of(token, "tokenId")),
        Cell::cuttable("NAME", text_of(token, "name")),
        Cell::cuttable("USER", text_of(&token["user"], "name")),
        Cell::optional("ENDS IN", format!("…{}", text_of(token, "lastFour"))),
        Cell::optional("CREATED", ago("createdAt", "")),
        Cell::whole("LAST USED", ago("lastUsedAt", "never")),
        Cell::whole("EXPIRES", expires.map_or_else(|| "never".to_owned(), |left| format!("in {left}"))),
    ]
}

async fn create(
    name: &str,
    user: Option<String>,
    expires: Option<Timestamp>,
    api: &Api,
    out: &Out,
) -> Result<(), Failure> {
    let expires = expires.map(|at| at.to_string());
    let body = given(json!({ "name": name, "user": user, "expiresAt": expires }));
    let created = api.post("/tokens", &body).await?.data;
    let id = shown_of(&created, "tokenId");
    let Some(text) = created["token"].as_str() else {
        // The first answer was lost, and the server stores no token text.
        return Err(Failure::Failed(format!(
            "the token {id} was created, but its text was lost with the connection; revoke it, and create another one"
        )));
    };
    if !out.json {
        note(&format!("created {id}; it is not shown again"));
    }
    // Alone on stdout, for a file or another program.
    out.record(&created, |_| vec![harmless(text)])
}
