//! JSON in the guide, with `…` for omitted parts, and its comparison with the actual answer.

use serde_json::{Deserializer, Value};

/// Members whose value is from a closed set, and so must equal the shown one.
const WORDS: [&str; 8] = ["category", "code", "engine", "kind", "lockStatus", "role", "status", "requiredRole"];

/// Reads it without the `…` between members and elements.
pub fn parse(shown: &str) -> Result<Value, String> {
    let mut json = String::new();
    let mut in_text = false;
    let mut escaped = false;
    for c in shown.chars() {
        if c == '…' && !in_text {
            let before = json.trim_end();
            json.truncate(before.strip_suffix(',').unwrap_or(before).len());
            continue;
        }
        in_text ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        json.push(c);
    }
    serde_json::from_str(&json).map_err(|error| format!("{error} in {json}"))
}

/// The last object or list in the output of a block.
pub fn last_json(printed: &str) -> Option<Value> {
    let mut last = None;
    let mut rest = printed;
    while let Some(start) = rest.find(['{', '[']) {
        let mut values = Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                last = Some(value);
                rest = &rest[start + values.byte_offset()..];
            }
            _ => rest = &rest[start + 1..],
        }
    }
    last
}

/// Checks that everything shown was answered: the members, the kinds of values, and the values of closed sets.
pub fn compare(shown: &Value, answer: &Value) -> Result<(), String> {
    match (shown, answer) {
        (Value::Object(shown), Value::Object(answer)) => {
            for (name, shown) in shown {
                let answer = answer.get(name).ok_or(format!("no `{name}`"))?;
                if WORDS.contains(&&**name) && !shown.is_object() && shown != answer {
                    return Err(format!("`{name}` is {answer}, not {shown}"));
                }
                compare(shown, answer).map_err(|why| format!("{name}: {why}"))?;
            }
            Ok(())
        }
        (Value::Array(shown), Value::Array(answer)) => {
            if answer.len() < shown.len() {
                return Err(format!("{} elements, not {}", answer.len(), shown.len()));
            }
            shown.iter().zip(answer).try_for_each(|(shown, answer)| compare(shown, answer))
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) => Ok(()),
        (shown, answer) if shown == answer => Ok(()),
        (shown, answer) => Err(format!("{answer}, not {shown}")),
    }
}

#[test]
fn what_is_left_out_is_no_difference_and_everything_else_is() {
    let shown = parse(r#"{"code": "x", "a": ["…", …], "b": {…}, "c": null, …}"#).unwrap();
    let answer = serde_json::json!({ "code": "x", "a": ["q", "r"], "b": { "d": 1 }, "c": null, "e": 2 });
    assert_eq!(compare(&shown, &answer), Ok(()));
    for (name, value) in [("code", "y".into()), ("a", Value::Array(vec![])), ("b", Value::Null), ("c", 1.into())] {
        let mut other = answer.clone();
        other[name] = value;
        assert!(compare(&shown, &other).is_err(), "{other}");
        other.as_object_mut().unwrap().remove(name);
        assert!(compare(&shown, &other).is_err(), "{other}");
    }
}

#[test]
fn the_last_answer_is_found_among_other_output() {
    assert_eq!(last_json("[not json\n{\"a\": 1}\nHTTP/1.1 200\n\n{\n \"b\": [2]\n}\n\n").unwrap()["b"][0], 2);
    assert_eq!(last_json("nothing {"), None);
}
