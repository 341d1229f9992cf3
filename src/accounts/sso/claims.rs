//! The claims of a person: what a provider says about them, in a token that has been checked.

use serde_json::{Map, Value};

#[derive(Clone)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Adds those that are not there yet.
    pub fn complete(&mut self, others: Map<String, Value>) {
        for (name, value) in others {
            self.0.entry(name).or_insert(value);
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name)?.as_str()
    }

    pub fn is_true(&self, name: &str) -> bool {
        // Some providers write it as a text.
        self.find(name).is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true"))
    }

    /// The texts of a list; a single text is a list of one.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.find(name) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        }
    }

    /// By its whole name, since some are URLs; otherwise by a path of names, such as `realm_access.roles`.
    pub fn find(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let (outer, path) = name.split_once('.')?;
        path.split('.').try_fold(self.0.get(outer)?, |value, name| value.get(name))
    }
}

#[cfg(test)]
pub fn claims(json: Value) -> Claims {
    let Value::Object(map) = json else { panic!("claims are an object") };
    Claims::new(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_found_by_its_name_or_by_a_path() {
        let claims = claims(json!({
            "groups": ["dev", 7, "ops"], "one": "dev", "number": 1, "nothing": null,
            "https://acme.example/groups": ["url"], "realm_access": { "roles": ["inner"], "text": "x" },
        }));
        assert_eq!(claims.texts("groups"), ["dev", "ops"]);
        assert_eq!(claims.texts("one"), ["dev"]);
        assert_eq!(claims.texts("https://acme.example/groups"), ["url"]);
        assert_eq!(claims.texts("realm_access.roles"), ["inner"]);
        for none in ["number", "nothing", "realm_access", "missing", "realm_access.missing", "one.inner", ".", ""] {
            assert_eq!(claims.texts(none), Vec::<&str>::new(), "{none}");
        }
        assert_eq!((claims.text("one"), claims.text("groups")), (Some("dev"), None));
    }

    #[test]
    fn what_the_token_says_wins_over_what_is_added_later() {
        let mut found = claims(json!({ "sub": "1", "email": "ana@acme.example" }));
        let Value::Object(others) = json!({ "email": "eve@acme.example", "groups": ["dev"] }) else { unreachable!() };
        found.complete(others);
        assert_eq!((found.text("email"), found.texts("groups")), (Some("ana@acme.example"), vec!["dev"]));
    }

    #[test]
    fn only_a_plain_yes_is_true() {
        let claims = claims(json!({ "a": true, "b": "true", "c": "yes", "d": 1, "e": false, "f": null }));
        let said: Vec<_> =
            ["a", "b", "c", "d", "e", "f", "g"].into_iter().filter(|name| claims.is_true(name)).collect();
        assert_eq!(said, ["a", "b"]);
    }
}
