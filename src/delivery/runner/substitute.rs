//! `${NAME}` in the texts of a request becomes the value of that variable; `$${` is a literal `${`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use zeroize::Zeroizing;

/// The variables of a step by name.
pub(super) type Variables = BTreeMap<String, Zeroizing<String>>;

/// Each value passes through `encode`. The error is one sentence that names the unknown variable.
pub(super) fn substituted(
    text: &str,
    variables: &Variables,
    encode: impl Fn(&str) -> String,
) -> Result<Zeroizing<String>, String> {
    let mut result = Zeroizing::new(String::with_capacity(text.len()));
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = after;
            continue;
        }
        result.push_str(before);
        let (name, after) = after.split_once('}').ok_or("a `${` has no closing `}`; write `$${` for a literal `${`")?;
        let value = variables.get(name).ok_or_else(|| format!("there is no variable `{name}`"))?;
        result.push_str(&Zeroizing::new(encode(value)));
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

/// The inside of a JSON string, with the short escapes that almost all libraries use.
pub(super) fn in_json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\n' => json.push_str(r"\n"),
            '\r' => json.push_str(r"\r"),
            '\t' => json.push_str(r"\t"),
            '\u{8}' => json.push_str(r"\b"),
            '\u{c}' => json.push_str(r"\f"),
            '\0'..' ' => write!(json, "\\u{:04x}", u32::from(character)).expect("a string takes any text"),
            _ => json.push(character),
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let variables = [("A", "x y"), ("B_2", "ä/"), ("NESTED", "${A}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), Zeroizing::new(value.to_owned()))).into();
        substituted(text, &variables, str::to_owned).map(|text| text.to_string())
    }

    #[test]
    fn names_are_replaced_by_their_values_once() {
        assert_eq!(filled("${A}-${B_2}${A}").as_deref(), Ok("x y-ä/x y"));
        assert_eq!(filled("${NESTED}").as_deref(), Ok("${A}"), "values are not substituted again");
        assert_eq!(filled("$A {A} $ $$ plain").as_deref(), Ok("$A {A} $ $$ plain"));
    }

    #[test]
    fn a_doubled_dollar_is_a_literal_one() {
        assert_eq!(filled("$${A} $$${A}").as_deref(), Ok("${A} $${A}"));
    }

    #[test]
    fn the_error_names_an_unknown_variable() {
        assert_eq!(filled("a ${MISSING}"), Err("there is no variable `MISSING`".to_owned()));
        assert!(filled("a ${A").is_err());
    }

    #[test]
    fn a_value_in_json_cannot_leave_its_quotes() {
        assert_eq!(in_json("x\",\"env\":\"prod\\\n\u{1}ä"), r#"x\",\"env\":\"prod\\\n\u0001ä"#);
    }
}
