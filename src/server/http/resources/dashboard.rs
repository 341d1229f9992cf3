//! The dashboard for browsers: the same page at every address without a route of its own, and the files it loads.

use actix_web::http::Method;
use actix_web::http::header::{ACCEPT, CACHE_CONTROL};
use actix_web::web::Bytes;

use crate::dashboard;
use crate::http::answer::{Answered, tagged};
use crate::http::call::{Call, Front};
use crate::http::refusals::route_not_found;
use http1::{Headers, Response};

/// Browsers check for a new version on each visit.
const ASK_AGAIN: &str = "no-cache";
/// The version is part of the address, so the content never changes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The dashboard's fixed addresses; all others begin with an organization.
const OWN_PAGES: [&str; 3] = ["/", "/sign-in", "/invitation"];

/// Whether a path without a route is an address of the dashboard: only for a request that asks for a page, and not
/// below a first segment that routes have (`taken`), where a wrong path is more likely a mistake in a program.
pub fn is_page(method: &Method, path: &str, headers: &Headers, taken: impl Fn(&str) -> bool) -> bool {
    let without_slash = if path == "/" { path } else { path.strip_suffix('/').unwrap_or(path) };
    if OWN_PAGES.contains(&without_slash) {
        return true;
    }
    let first = path.split('/').nth(1).unwrap_or_default();
    let is_read = method == Method::GET || method == Method::HEAD;
    is_read && !first.is_empty() && !taken(first) && wants_page(headers)
}

/// A browser that opens an address accepts HTML; programs and scripts do not.
fn wants_page(headers: &Headers) -> bool {
    headers.texts(ACCEPT).any(|line| line.to_ascii_lowercase().contains("text/html"))
}

pub async fn page(call: Call<Front>) -> Answered {
    let page = || Bytes::from_static(dashboard::shell().as_bytes());
    answer(&call, "text/html; charset=utf-8", ASK_AGAIN, page)
}

/// A file of this version of the dashboard. Other versions are not found, so an outdated page has to be reloaded.
pub async fn asset(call: Call<Front>) -> Answered {
    let path = call.request.decoded_path();
    let parts = path.strip_prefix("/assets/").and_then(|rest| rest.split_once('/'));
    let found =
        parts.filter(|(version, _)| *version == dashboard::version()).and_then(|(_, file)| dashboard::asset(file));
    let asset = found.ok_or_else(|| route_not_found(path))?;
    answer(&call, asset.media_type, FOR_EVER, || Bytes::from_static(asset.bytes))
}

fn answer(
    call: &Call<Front>,
    media_type: &'static str,
    caching: &'static str,
    bytes: impl FnOnce() -> Bytes,
) -> Answered {
    let etag = format!("\"{}\"", dashboard::version());
    let render = || Ok(Response::ok(media_type).body(bytes()));
    Ok(tagged(call.request.headers(), &etag, render)?.with(CACHE_CONTROL, caching))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_page_only_where_no_route_could_be_and_for_who_wants_a_page() {
        const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
        let get = Method::GET;
        for (method, path, accept, expected) in [
            (&get, "/", "", true),
            (&get, "/sign-in", "*/*", true),
            (&get, "/invitation/", "", true),
            (&Method::POST, "/sign-in", "", true),
            (&get, "/acme", BROWSER, true),
            (&get, "/acme/web/review-1", "TEXT/HTML", true),
            (&get, "/acme/-/deployments/", BROWSER, true),
            (&Method::HEAD, "/acme", BROWSER, true),
            (&get, "/acme", "application/json", false),
            (&get, "/acme", "*/*", false),
            (&get, "/acme", "", false),
            (&Method::POST, "/acme", BROWSER, false),
            (&get, "/api/v2/nothing", BROWSER, false),
            (&get, "//acme", BROWSER, false),
        ] {
            let headers: Headers =
                Some((ACCEPT, accept)).filter(|(_, accept)| !accept.is_empty()).into_iter().collect();
            assert_eq!(is_page(method, path, &headers, |first| first == "api"), expected, "{method} {path} {accept}");
        }
    }
}
