//! `lockkeeper whoami`: whose token this is.

use serde_json::Value;

use crate::api::Api;
use crate::failure::Failure;
use crate::output::text::harmless;
use crate::output::{Out, fields, text_of, times};

#[derive(clap::Args)]
pub struct Args {}

pub async fn run(_: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let caller = api.root_get("/api/v1/whoami").await?.data;
    out.record(&caller, |caller| lines(caller, api.url()))
}

/// `login` shows them too.
pub fn lines(caller: &Value, url: &str) -> Vec<String> {
    let (organization, user, token) = (&caller["organization"], &caller["user"], &caller["token"]);
    let expires = match token["expiresAt"].as_str() {
        Some(at) => format!(", expires {} UTC", times::clock(at)),
        None => String::new(),
    };
    let token = match token["name"].as_str() {
        Some(name) => format!("{} ({}){expires}", harmless(name), harmless(text_of(token, "tokenId"))),
        None => String::new(),
    };
    fields(&[
        ("user", harmless(text_of(user, "name"))),
        ("role", harmless(text_of(caller, "role"))),
        ("organization", harmless(text_of(organization, "id"))),
        ("token", token),
        ("server", harmless(url)),
    ])
}
