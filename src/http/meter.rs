//! The metrics of requests: per route and method, and per error code.

use std::sync::OnceLock;

use actix_web::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

use super::codes::Code;

/// The metrics of one route, looked up once instead of with every request.
pub struct Meter {
    methods: Vec<(Method, Histogram, [Counter; 4])>,
}

impl Meter {
    pub fn new(route: &'static str, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods = methods.into_iter().map(|method| {
            let name = method.to_string();
            let seconds =
                metrics::histogram!("lockkeeper_http_request_seconds", "route" => route, "method" => name.clone());
            let counters = ["2xx", "3xx", "4xx", "5xx"].map(|class| {
                metrics::counter!(
                    "lockkeeper_http_requests_total", "route" => route, "method" => name.clone(), "status" => class
                )
            });
            (method, seconds, counters)
        });
        Self { methods: methods.collect() }
    }

    pub fn record(&self, method: &Method, status: StatusCode, seconds: f64) {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some((_, histogram, counters)) = self.methods.iter().find(|(known, ..)| known == method) else {
            return;
        };
        histogram.record(seconds);
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        if let Some(counter) = counters.get(class) {
            counter.increment(1);
        }
    }
}

pub fn count_problem(code: Code) {
    static COUNTERS: OnceLock<Vec<Counter>> = OnceLock::new();
    let counters = COUNTERS.get_or_init(|| {
        Code::ALL.iter().map(|code| metrics::counter!("lockkeeper_problems_total", "code" => code.as_str())).collect()
    });
    if let Some(counter) = counters.get(code as usize) {
        counter.increment(1);
    }
}
