//! For `tests/logs-without-secrets`: keeps the log of every server, and records every secret that tests use, in the
//! directory that `LOCKKEEPER_TEST_LOGS` names. Without that variable nothing is kept.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

/// A shorter text is in some log by chance.
const LENGTH_MIN: usize = 8;
/// The prefixes of tokens, sign-ins, invitations and secrets of webhooks, and their minimum length.
const PREFIXES: [&str; 4] = ["lk_", "lks_", "lki_", "whsec_"];
const MADE_LENGTH_MIN: usize = 30;
/// Fields of requests that are secrets, wherever they occur.
const FIELDS: [&str; 6] = ["password", "currentPassword", "newPassword", "token", "secret", "clientSecret"];
/// Parts of the names of variables that are secrets.
const VARIABLES: [&str; 4] = ["TOKEN", "PASSWORD", "SECRET", "MASTER_KEY"];

struct Notes {
    directory: PathBuf,
    known: HashSet<String>,
    file: File,
}

static NOTES: LazyLock<Option<Mutex<Notes>>> = LazyLock::new(|| {
    let directory = PathBuf::from(std::env::var_os("LOCKKEEPER_TEST_LOGS")?);
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{}.secrets", std::process::id()));
    let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    Some(Mutex::new(Notes { directory, known: HashSet::new(), file }))
});

/// The log of a server, in its home; kept longer if logs are kept.
pub fn log_in(home: &Path) -> File {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let path = home.join("stderr");
    if let Some(notes) = NOTES.as_ref().filter(|_| !path.exists()) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kept = notes.lock().unwrap().directory.join(format!("{}-{number}.log", std::process::id()));
        File::create(&kept).unwrap();
        std::os::unix::fs::symlink(kept, &path).unwrap();
    }
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

pub fn note(secret: &str) {
    let Some(notes) = NOTES.as_ref().filter(|_| secret.len() >= LENGTH_MIN && !secret.contains('\n')) else { return };
    let Notes { known, file, .. } = &mut *notes.lock().unwrap();
    if known.insert(secret.to_owned()) {
        writeln!(file, "{secret}").unwrap();
    }
}

/// Records everything in a text that looks like one of our tokens or secrets.
pub fn note_in(text: &str) {
    if NOTES.is_none() {
        return;
    }
    for prefix in PREFIXES {
        for (start, _) in text.match_indices(prefix) {
            let made = |c: char| c.is_ascii_alphanumeric() || "_+/=-".contains(c);
            let secret = text[start..].split(|c| !made(c)).next().unwrap_or_default();
            if secret.len() >= MADE_LENGTH_MIN {
                note(secret);
            }
        }
    }
}

/// Records a secret environment variable of a server.
pub fn note_variable(name: &str, value: &str) {
    if VARIABLES.iter().any(|part| name.contains(part)) && !name.ends_with("_FILE") {
        note(value);
    }
}

/// Records the secrets in its initial output: a token, a password.
pub fn note_greeting(greeting: &str) {
    note_in(greeting);
    for rest in greeting.split("password ").skip(1) {
        note(rest.split_whitespace().next().unwrap_or_default());
    }
}

pub fn note_request(request: &reqwest::Request) {
    if NOTES.is_none() {
        return;
    }
    for value in request.headers().values().filter_map(|value| value.to_str().ok()) {
        note_in(value);
    }
    note_in(request.url().path());
    let body = request.body().and_then(|body| body.as_bytes()).and_then(|body| serde_json::from_slice(body).ok());
    if let Some(body) = body {
        note_fields(&body, request.url().path().contains("/secrets"));
    }
}

pub fn note_answer(headers: &reqwest::header::HeaderMap, text: &str) {
    if NOTES.is_none() {
        return;
    }
    headers.values().filter_map(|value| value.to_str().ok()).for_each(note_in);
    note_in(text);
}

fn note_fields(body: &Value, of_secrets: bool) {
    match body {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if FIELDS.contains(&&**name) || of_secrets && name == "value" => note(text),
                    value => note_fields(value, of_secrets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| note_fields(item, of_secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
