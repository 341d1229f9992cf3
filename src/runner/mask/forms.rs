//! The encodings in which programs print a text: hexadecimal, form data, JSON, and quoted for a shell as by `set -x`.

use std::fmt::Write as _;

use super::{in_json, percent_encoded};

/// Encodings of the whole text.
pub(super) fn encoded(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let lower: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let upper = lower.to_ascii_uppercase();
    let form = percent_encoded(text).replace("%20", "+");
    [lower, upper, form].into_iter().map(String::into_bytes)
}

/// Encodings character by character, which are also found within something larger.
pub(super) fn escaped(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let json = in_json(text);
    // Some libraries escape these characters for use in web pages.
    let json_in_pages = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let shell = text.replace('\'', r"'\''");
    let shell_quoted = text.replace('\'', r#"'"'"'"#);
    [in_ascii(&json), json, json_in_pages, shell, shell_quoted].into_iter().map(String::into_bytes)
}

fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(text, "\\u{unit:04x}").expect("a string takes any text");
        }
    }
    text
}
