//! Request metrics: per route and method, and per error code.

use std::cell::OnceCell;
use std::sync::{LazyLock, OnceLock};

use actix_web::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

use super::codes::Code;

/// The metrics of one route, looked up once instead of per request, and only on first use, because most servers never
/// use most routes.
pub struct Meter {
    route: &'static str,
    methods: Vec<OfMethod>,
}

struct OfMethod {
    method: Method,
    seconds: OnceCell<Histogram>,
    /// By status class.
    answers: [OnceCell<Counter>; CLASSES.len()],
}

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Meter {
    pub fn new(route: &'static str, methods: impl IntoIterator<Item = Method>) -> Self {
        let of_method = |method| OfMethod { method, seconds: OnceCell::new(), answers: Default::default() };
        Self { route, methods: methods.into_iter().map(of_method).collect() }
    }

    pub fn record(&self, method: &Method, status: StatusCode, seconds: f64) {
        let (route, method) = (self.route, if method == Method::HEAD { &Method::GET } else { method });
        let Some(found) = self.methods.iter().find(|known| known.method == *method) else { return };
        let histogram =
            || metrics::histogram!("lockkeeper_http_request_seconds", "route" => route, "method" => method.to_string());
        found.seconds.get_or_init(histogram).record(seconds);
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        let Some((answers, class)) = found.answers.get(class).zip(CLASSES.get(class)) else { return };
        let counter = || {
            metrics::counter!(
                "lockkeeper_http_requests_total", "route" => route, "method" => method.to_string(), "status" => *class
            )
        };
        answers.get_or_init(counter).increment(1);
    }
}

pub fn count_problem(code: Code) {
    static COUNTERS: LazyLock<Vec<OnceLock<Counter>>> =
        LazyLock::new(|| Code::ALL.iter().map(|_| OnceLock::new()).collect());
    if let Some(counter) = COUNTERS.get(code as usize) {
        counter.get_or_init(|| metrics::counter!("lockkeeper_problems_total", "code" => code.as_str())).increment(1);
    }
}
