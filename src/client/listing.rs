//! Lists that come in pages, put together.

use std::collections::HashSet;

use serde_json::Value;

use super::api::Api;
use super::failure::Failure;

/// As many as the server gives at once.
const PAGE: usize = 100;
/// Nobody reads more; scripts that need more ask the API by filter.
pub const ITEMS_MAX: usize = 10_000;

/// All of a list, as far as anybody could want to read it.
pub async fn all(api: &Api, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
    first(api, path, query, ITEMS_MAX).await
}

/// The first so many of a list. What is added or removed at its beginning meanwhile shifts its pages: then an item may come
/// twice, which is left out, but none that was there all the time is missed.
pub async fn first(api: &Api, path: &str, query: &[(&str, String)], count: usize) -> Result<Value, Failure> {
    let mut items: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    let mut offset = 0;
    while items.len() < count {
        let limit = PAGE.min(count - items.len());
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(query).append_pair("limit", &limit.to_string()).append_pair("offset", &offset.to_string());
        let Value::Array(page) = api.get(&format!("{path}?{}", text.finish())).await?.data else { break };
        let got = page.len();
        offset += got;
        items.extend(page.into_iter().filter(|item| seen.insert(item.to_string())));
        if got < limit {
            break;
        }
    }
    Ok(Value::Array(items))
}
