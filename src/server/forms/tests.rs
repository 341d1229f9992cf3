//! The values that forms accept, in JSON and TOML alike.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::types::Integer;
use super::*;
use domain::{CommitId, Identifier, LabelValue, Role};

form! {
    /// A form with a field of each kind.
    struct SampleForm as "Sample" {
        required commit_id: CommitId,
        /// How many.
        optional(Number::new(7)) number: Number,
        nullable ttl_seconds: Integer<-100, 300>,
        nullable(true) enabled: bool,
        flatten names: NamesForm,
        nullable on_release: InnerForm,
        optional list: List<InnerForm, 1, 2>,
        optional labels: Map<Identifier, LabelValue, 2>,
    }
}

form! {
    struct NamesForm {
        optional r#type: Role,
    }
}

form! {
    struct InnerForm {
        required commit_id: CommitId,
    }
    unique commit_id;
}

form! {
    struct ChoiceForm {
        optional run: bool,
        optional http: bool,
        optional with: bool,
    }
    one_of [run] [http, with];
}

form! {
    /// One of two.
    struct NamedChoiceForm as "Choice" {
        optional run: bool,
        optional http: bool,
    }
    one_of [run] [http];
}

form! {
    struct ChangeForm {
        optional a_b: bool,
        optional c: bool,
    }
    any_of [a_b, c];
}

type Number = Integer<1, 300>;

/// The faults as `field message`, sorted.
fn faults<T: Form>(text: &str) -> Vec<String> {
    let mut reader = Reader::new(Spelling::Camel);
    let _ = T::read(&serde_json::from_str(text).unwrap(), &mut reader);
    let faults = reader.into_faults().into_iter();
    let mut faults: Vec<_> = faults.map(|fault| format!("{} {}", fault.field, fault.message)).collect();
    faults.sort();
    faults
}

fn read<T: Form>(text: &str) -> T {
    let mut reader = Reader::new(Spelling::Camel);
    let form = T::read(&serde_json::from_str(text).unwrap(), &mut reader);
    assert_eq!(reader.into_faults(), []);
    form.unwrap()
}

fn sample(fields: &str) -> SampleForm {
    read(&format!(r#"{{"commitId": "c0ffee1"{fields}}}"#))
}

#[test]
fn what_is_given_is_read() {
    let form = sample(r#", "onRelease": {"commitId": "main"}, "list": [{"commitId": "a"}], "type": "admin""#);
    assert_eq!((form.commit_id.as_str(), form.names.r#type), ("c0ffee1", Some(Role::Admin)));
    assert_eq!(form.on_release.map(|inner| inner.commit_id.to_string()), Some("main".to_owned()));
    assert_eq!(form.list.map(|list| list.0[0].commit_id.to_string()), Some("a".to_owned()));
    let choice: ChoiceForm = read(r#"{"http": true, "with": false}"#);
    assert_eq!((choice.run, choice.http, choice.with), (None, Some(true), Some(false)));
    let choice: NamedChoiceForm = read(r#"{"run": true}"#);
    assert_eq!((choice.run, choice.http), (Some(true), None));
    let change: ChangeForm = read(r#"{"aB": true}"#);
    assert_eq!((change.a_b, change.c), (Some(true), None));
}

#[test]
fn all_faults_are_reported_at_once() {
    assert_eq!(
        faults::<SampleForm>(r#"{"commitId": "-x", "number": "7", "numbr": 1, "colour": "red", "type": "amin"}"#),
        [
            "colour is not a known field; known here: commitId, number, ttlSeconds, enabled, type, onRelease, list, labels",
            "commitId must be 1 to 128 visible ASCII characters without spaces, not starting with '-'",
            "number must be an integer from 1 to 300, got a string",
            "numbr is not a known field; did you mean `number`?",
            "type must be one of viewer, developer, maintainer, admin; did you mean `admin`?",
        ]
    );
}

#[test]
fn a_required_field_is_neither_left_out_nor_null() {
    for text in ["{}", r#"{"commitId": null}"#] {
        assert_eq!(faults::<SampleForm>(text), ["commitId is required"]);
    }
}

#[test]
fn what_is_left_out_has_its_default_and_null_counts_as_left_out_where_it_may_be_null() {
    for fields in ["", r#", "ttlSeconds": null, "enabled": null, "onRelease": null"#] {
        let form = sample(fields);
        assert_eq!((form.number.get(), form.enabled), (7, true));
        assert!(form.ttl_seconds.is_none() && form.on_release.is_none() && form.list.is_none());
        assert!(form.names.r#type.is_none() && form.labels.is_none());
    }
    assert_eq!(
        faults::<SampleForm>(r#"{"commitId": "c", "number": null, "list": null}"#),
        ["list must be an array, got null", "number must be an integer from 1 to 300, got null"]
    );
}

#[test]
fn an_integer_is_taken_within_its_range_however_it_is_written() {
    for (text, number) in [("1", 1), ("300", 300), ("-0", 0), ("60.0", 60), ("6e1", 60), ("-100", -100)] {
        let form = sample(&format!(r#", "ttlSeconds": {text}"#));
        assert_eq!(form.ttl_seconds.map(Integer::get), Some(number), "{text}");
    }
    for (text, got) in [
        ("0", "0"),
        ("301", "301"),
        ("1.5", "1.5"),
        ("18446744073709551615", "18446744073709551615"),
        ("1e300", "1e+300"),
        ("\"5\"", "a string"),
        ("true", "a boolean"),
        ("[5]", "an array"),
        ("{}", "an object"),
    ] {
        let told = faults::<SampleForm>(&format!(r#"{{"commitId": "c", "number": {text}}}"#));
        assert_eq!(told, [format!("number must be an integer from 1 to 300, got {got}")]);
    }
    type Widest = Integer<{ i64::MIN }, { i64::MAX }>;
    let mut reader = Reader::new(Spelling::Camel);
    for number in [i64::MIN, i64::MAX] {
        let text = number.to_string();
        let element = serde_json::from_str(&text).unwrap();
        assert_eq!(Widest::read(&element, &mut reader).map(Integer::get), Some(number));
    }
}

#[test]
fn faults_within_objects_lists_and_maps_are_named_after_them() {
    assert_eq!(
        faults::<SampleForm>(
            r#"{"commitId": "c", "onRelease": {"commitId": 7, "x": 1}, "list": [{"commitId": "c"}, 5],
                "labels": {"a b": "x", "size": 1, "z": "y"}}"#
        ),
        [
            "labels must have at most 2 entries, got 3",
            "labels.a b is not a valid name: must be 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit",
            "labels.size must be a string, got a number",
            "list[1] must be an object, got a number",
            "onRelease.commitId must be a string, got a number",
            "onRelease.x is not a known field; known here: commitId",
        ]
    );
    for (list, told) in [
        ("[]", "list must have at least 1 entry, got 0"),
        (r#"[{"commitId": "a"}, {"commitId": "b"}, 3]"#, "list must have at most 2 entries, got 3"),
        (r#"[{"commitId": "a"}, {"commitId": "a"}]"#, "list[1].commitId `a` is used twice"),
        ("\"x\"", "list must be an array, got a string"),
    ] {
        assert_eq!(faults::<SampleForm>(&format!(r#"{{"commitId": "c", "list": {list}}}"#)), [told]);
    }
}

#[test]
fn of_fields_that_exclude_one_another_exactly_one_is_given() {
    for (text, told) in [
        (r#"{"run": true}"#, &[] as &[&str]),
        (r#"{"http": true, "with": true}"#, &[]),
        ("{}", &["run is required, or `http` instead"]),
        (r#"{"run": true, "http": true}"#, &["run must not be combined with `http`"]),
        (r#"{"run": true, "with": true}"#, &["with is only allowed with `http`"]),
        (
            r#"{"run": 1, "http": 2}"#,
            &[
                "http must be a boolean, got a number",
                "run must be a boolean, got a number",
                "run must not be combined with `http`",
            ],
        ),
    ] {
        assert_eq!(faults::<ChoiceForm>(text), told, "{text}");
    }
    assert_eq!(faults::<ChangeForm>("{}"), ["aB is required, or `c`"]);
    assert_eq!(faults::<ChangeForm>(r#"{"c": true}"#), [""; 0]);
    assert_eq!(faults::<ChangeForm>("[]"), ["body must be an object, got an array"]);
}

#[test]
fn the_schema_says_what_the_reader_takes() {
    let mut schemas = Schemas::default();
    assert_eq!(SampleForm::schema(&mut schemas), json!({ "$ref": "#/components/schemas/Sample" }));
    let commit = json!({ "type": "string", "pattern": "^[!-,.-~][!-~]{0,127}$", "examples": ["c0ffee1"] });
    let inner = json!({
        "type": "object", "additionalProperties": false, "required": ["commitId"], "properties": { "commitId": commit },
    });
    let mut nullable_inner = inner.clone();
    nullable_inner["type"] = json!(["object", "null"]);
    assert_eq!(
        schemas.0["Sample"],
        json!({
            "type": "object", "additionalProperties": false, "required": ["commitId"],
            "description": "A form with a field of each kind.",
            "properties": {
                "commitId": commit,
                "number": {
                    "type": "integer", "minimum": 1, "maximum": 300, "description": "How many. Default: `7`.",
                },
                "ttlSeconds": { "type": ["integer", "null"], "minimum": -100, "maximum": 300 },
                "enabled": { "type": ["boolean", "null"], "examples": [true], "description": "Default: `true`." },
                "type": { "$ref": "#/components/schemas/Role" },
                "onRelease": nullable_inner,
                "list": { "type": "array", "minItems": 1, "maxItems": 2, "items": inner },
                "labels": {
                    "type": "object", "maxProperties": 2,
                    "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" },
                    "additionalProperties": { "type": "string", "pattern": "^[!-~]{1,63}$", "examples": ["large"] },
                },
            },
        })
    );
    assert_eq!(schemas.0["Role"]["enum"], json!(["viewer", "developer", "maintainer", "admin"]));
    let choice = ChoiceForm::schema(&mut schemas);
    let of = |required: &str, others: &[&str]| {
        let names = others.iter().chain([&required]);
        let properties: serde_json::Map<_, _> =
            names.map(|name| ((*name).to_owned(), json!({ "type": "boolean", "examples": [true] }))).collect();
        json!({ "type": "object", "additionalProperties": false, "required": [required], "properties": properties })
    };
    assert_eq!(choice, json!({ "oneOf": [of("run", &[]), of("http", &["with"])] }));
    let named = NamedChoiceForm::schema(&mut schemas);
    assert_eq!(named, json!({ "$ref": "#/components/schemas/Choice" }));
    let with = |field: &str| json!({ "$ref": format!("#/components/schemas/ChoiceWith{field}") });
    assert_eq!(schemas.0["Choice"], json!({ "oneOf": [with("Run"), with("Http")], "description": "One of two." }));
    assert_eq!(schemas.0["ChoiceWithHttp"]["required"], json!(["http"]));
    assert_eq!(ChangeForm::schema(&mut schemas)["minProperties"], 1);
}
