//! The API explorer for a newcomer: its files, and "Try it out" on a fresh server with the prefilled values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use super::get;
use crate::support::{Answer, Client, Server};

#[tokio::test]
async fn the_explorer_takes_nothing_from_elsewhere() {
    let server = Server::start();
    for path in ["/docs", "/docs/"] {
        let page = get(&server, path).await.ok();
        assert!(page.header("content-type").starts_with("text/html"), "{path} leads to the explorer");
    }
    let index = get(&server, "/docs/").await.ok().text;
    let initializer = get(&server, "/docs/swagger-initializer.js").await.ok().text;
    assert!(index.contains("<h1>Lockkeeper</h1>") && initializer.contains("/api/v1/openapi.json"));
    for text in [&index, &initializer] {
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("\"//"), "{text}");
    }
    let mut assets = 0;
    for attribute in ["src=\"", "href=\""] {
        for rest in index.split(attribute).skip(1) {
            let asset = rest.split('"').next().unwrap().trim_start_matches("./");
            get(&server, &format!("/docs/{asset}")).await.ok();
            assets += 1;
        }
    }
    assert!(assets >= 4, "{index}");
}

/// From top to bottom of the page: no example is refused, nothing waits, and the sample stays unchanged.
const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn every_try_it_out_works_with_what_it_fills_in_and_harms_nothing() {
    let server = Server::start();
    let admin = server.admin();
    let before = sample(&admin).await;
    let document = get(&server, "/api/v1/openapi.json").await.ok().text;
    let mut tried = 0;
    let mut refused = Vec::new();
    for Operation { path, method, operation } in in_order_of_the_page(&document) {
        // The explorer has no button for it, since a stream has no end.
        if operation["operationId"] == "streamEvents" {
            continue;
        }
        let (filled, has_made_up_id) = fill_in(&path, &operation);
        let mut request = admin.request(method.to_uppercase().parse().unwrap(), &filled);
        if let Some(body) = operation.get("requestBody") {
            request = match body["content"].get(FORM) {
                Some(form) => request.header("Content-Type", FORM).body(encoded(&form["example"])),
                None => request.json(&body["content"]["application/json"]["example"]),
            };
        }
        let answer = admin.send(request).await;
        assert_described(&answer, &operation, &format!("{method} {path}"));
        tried += 1;
        // An id such as `ses_…` cannot exist on a fresh server, nor can the token of a CI.
        let is_fine = match (has_made_up_id, operation["operationId"].as_str()) {
            (true, _) => answer.status == 404,
            (false, Some("exchangeToken")) => answer.status == 400 && answer.problem().1 == "invalid_grant",
            (false, _) => answer.status.is_success(),
        };
        if !is_fine {
            refused.push(format!("{method} {filled}: {} {}", answer.status, answer.text));
        }
    }
    assert!(tried > 60, "only {tried} operations");
    assert!(refused.is_empty(), "{}", refused.join("\n"));

    assert_eq!(sample(&admin).await, before);
    let webhooks = admin.get("/webhooks").await.ok().data();
    assert!(webhooks.as_array().unwrap().iter().all(|webhook| webhook["enabled"] == false), "nothing is sent");
    assert_eq!(admin.get("/secrets").await.ok().data(), json!([]));
    for environment in admin.get("/pipelines/web/ephemeral-environments").await.ok().data().as_array().unwrap() {
        let is_bounded = environment["lock"].is_null() || environment["lock"]["expiresAt"].is_string();
        assert!(is_bounded, "a claim ends by itself: {environment}");
    }
}

/// Encoded like a browser's form.
fn encoded(example: &Value) -> String {
    let pairs = example.as_object().unwrap().iter().map(|(name, value)| (name, value.as_str().unwrap()));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The declarations of the sample organization, without fields that change on their own.
async fn sample(admin: &Client) -> Value {
    let mut found = vec![admin.get("/pipelines").await.ok().data()];
    for pipeline in ["web", "shop"] {
        let list = admin.get(&format!("/pipelines/{pipeline}/ephemeral-environments")).await.ok().data();
        for environment in list.as_array().unwrap() {
            let path =
                format!("/pipelines/{pipeline}/ephemeral-environments/{}", environment["envName"].as_str().unwrap());
            found.push(admin.get(&path).await.ok().data()["configuration"].clone());
        }
    }
    Value::Array(found)
}

fn fill_in(path: &str, operation: &Value) -> (String, bool) {
    let mut filled = path.to_owned();
    let mut has_made_up_id = false;
    for parameter in operation["parameters"].as_array().unwrap().iter().filter(|parameter| parameter["in"] == "path") {
        let example = parameter["example"].as_str().unwrap();
        has_made_up_id |= example.split_once('_').is_some_and(|(prefix, id)| prefix.len() == 3 && id.len() >= 24);
        filled = filled.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), example);
    }
    (filled, has_made_up_id)
}

fn assert_described(answer: &Answer, operation: &Value, place: &str) {
    let status = answer.status.as_u16();
    let described = &operation["responses"][status.to_string()];
    assert!(described.is_object(), "{place} answers {status}, which is not described: {}", answer.text);
    if status >= 400 {
        let code = answer.problem().1;
        let codes = described["description"].as_str().unwrap();
        assert!(codes.contains(&format!("`{code}`")), "{place}: {code}");
        assert!(!["route_not_found", "method_not_allowed"].contains(&&*code), "{place}");
    }
}

struct Operation {
    path: String,
    method: String,
    operation: Value,
}

/// In the order of the explorer's page: by tag, in the order of the document, deletions last.
fn in_order_of_the_page(document: &str) -> Vec<Operation> {
    #[derive(serde::Deserialize)]
    struct Document {
        tags: Vec<Value>,
        paths: Members<Members<Value>>,
    }
    let Document { tags, paths: Members(paths) } = serde_json::from_str(document).unwrap();
    let mut operations: Vec<Operation> = Vec::new();
    for (path, Members(methods)) in paths {
        for (method, operation) in methods {
            operations.push(Operation { path: path.clone(), method, operation });
        }
    }
    let position = |tag: &Value| tags.iter().position(|known| known["name"] == *tag).expect("a known tag");
    operations.sort_by_key(|found| (position(&found.operation["tags"][0]), found.method == "delete"));
    operations
}

/// An object whose members keep their order.
struct Members<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<T>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}
