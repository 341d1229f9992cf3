//! The addresses that a server listens on.

use std::sync::Arc;

use super::error::ServeError;
use crate::config::Settings;
use crate::http::{self, Encryption, ListenOptions, Listeners};
use crate::tls::ServerTls;

/// Binds the addresses, and reads the certificate if there is one.
pub fn reserve(settings: &Settings) -> Result<Listeners, ServeError> {
    let reserve = |address| http::reserve(address).map_err(|error| ServeError::listen(address, &error));
    let main = reserve(settings.listen)?;
    let Some(options) = &settings.tls else {
        return Ok(Listeners { main, encryption: None });
    };
    let tls = Arc::new(ServerTls::open(options.files.clone()).map_err(ServeError::Tls)?);
    let plain = options.plain_listen.map(reserve).transpose()?;
    Ok(Listeners { main, encryption: Some(Encryption { tls, hsts: options.hsts, plain }) })
}

pub fn listen_options(settings: &Settings) -> ListenOptions {
    ListenOptions {
        workers: match settings.workers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            workers => workers,
        },
        head_timeout: settings.http.head_timeout,
        max_connections: settings.http.max_connections,
        max_connections_given: settings.http.max_connections_given,
    }
}
