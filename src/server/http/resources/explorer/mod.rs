//! The API explorer at `/docs/`: Swagger UI, and our own page that loads it. It loads nothing from other servers.

use std::sync::OnceLock;

use actix_web::web::Bytes;
use rawzip::{CompressionMethod, ZipArchive};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

use crate::http::answer::Answered;
use crate::http::call::{Call, Front};
use crate::http::refusals::route_not_found;
use http1::Response;

/// The largest served file of the archive has 1.5 MB.
const FILE_MAX: usize = 8 << 20;

pub async fn file(call: Call<Front>) -> Answered {
    let path = call.request.decoded_path();
    let name = path.strip_prefix("/docs/").unwrap_or_default();
    let found = match name {
        "" | "index.html" => Some(("text/html; charset=utf-8", Bytes::from_static(include_bytes!("index.html")))),
        "explorer.css" => Some((STYLESHEET, Bytes::from_static(include_bytes!("explorer.css")))),
        "icon.svg" => Some(("image/svg+xml", Bytes::from_static(include_bytes!("icon.svg")))),
        "swagger-initializer.js" => Some((JAVASCRIPT, Bytes::from_static(include_bytes!("initializer.js")))),
        name => of_swagger_ui(name),
    };
    let (kind, bytes) = found.ok_or_else(|| route_not_found(path))?;
    Ok(Response::ok(kind).body(bytes))
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const STYLESHEET: &str = "text/css; charset=utf-8";

/// A file of Swagger UI. Unpacked on first use; all responses borrow the same bytes.
fn of_swagger_ui(name: &str) -> Option<(&'static str, Bytes)> {
    static BUNDLE: OnceLock<Option<Bytes>> = OnceLock::new();
    static STYLE: OnceLock<Option<Bytes>> = OnceLock::new();
    let (kind, unpacked) = match name {
        "swagger-ui-bundle.js" => (JAVASCRIPT, &BUNDLE),
        "swagger-ui.css" => (STYLESHEET, &STYLE),
        _ => return None,
    };
    let bytes = unpacked.get_or_init(|| unpack(name)).clone()?;
    Some((kind, bytes))
}

/// A file of the archive's folder `dist`.
fn unpack(name: &str) -> Option<Bytes> {
    let archive = ZipArchive::from_slice(SWAGGER_UI_VENDORED).ok()?;
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().ok()? {
        let path = entry.file_path();
        let path = std::str::from_utf8(path.as_ref()).ok()?;
        if path.split_once('/').and_then(|(_, path)| path.strip_prefix("dist/")) != Some(name) {
            continue;
        }
        let data = archive.get_entry(entry.wayfinder()).ok()?.data();
        return match entry.compression_method() {
            CompressionMethod::STORE => Some(Bytes::copy_from_slice(data)),
            CompressionMethod::DEFLATE => {
                miniz_oxide::inflate::decompress_to_vec_with_limit(data, FILE_MAX).ok().map(Bytes::from)
            }
            _ => None,
        };
    }
    None
}
