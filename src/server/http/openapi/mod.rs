//! The OpenAPI 3.1 document, generated from the route table, the catalogue of codes and the response types.

mod accounts;
mod delivery;
mod environments;
mod events;
mod operation;
mod operator;
mod parameters;
mod schema;
#[cfg(test)]
mod tests;

pub use accounts::*;
pub use delivery::*;
pub use environments::*;
pub use events::*;
pub use operation::Operation;
pub use operator::*;

use actix_web::http::Method;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use self::operation::Components;
use self::schema::{Missing, ProblemHolderView, ProblemView, of_type};

/// The document of these paths with their operations. Their order is that of the explorer's page.
pub fn document(paths: impl IntoIterator<Item = (String, Vec<(Method, Operation)>)>) -> String {
    let mut components = Components { schemas: of_type::<ProblemView<'_>>(Missing::LeftOut), ..Components::default() };
    components.schemas.append(&mut of_type::<ProblemHolderView<'_>>(Missing::LeftOut));
    let paths: Vec<_> = paths
        .into_iter()
        .map(|(path, operations)| {
            let item = path_item(&path, operations, &mut components);
            (path, item)
        })
        .collect();
    schema::split_events(&mut components.schemas);
    let document = Ordered(vec![
        ("openapi", Part::Plain(json!("3.1.0"))),
        ("info", Part::Plain(info())),
        ("servers", Part::Plain(json!([{ "url": "/", "description": "This server" }]))),
        ("tags", Part::Plain(TAGS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect())),
        ("paths", Part::Paths(Ordered(paths))),
        ("components", Part::Plain(components.described())),
    ]);
    // Cannot fail for plain data; the tests would notice an empty document.
    serde_json::to_string(&document).unwrap_or_default()
}

/// An object whose members keep their order.
struct Ordered<K, V>(Vec<(K, V)>);

#[derive(Serialize)]
#[serde(untagged)]
enum Part {
    Plain(Value),
    Paths(Ordered<String, Ordered<String, Value>>),
}

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Components {
    fn described(self) -> Value {
        json!({
            "schemas": self.schemas, "headers": parameters::answer_headers(), "examples": self.problems,
            "securitySchemes": { "token": token() },
        })
    }
}

fn info() -> Value {
    json!({
        "title": "Lockkeeper",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Ephemeral environments for CI fleets: durable locks over HTTP",
        "description": "A 2xx to a write means that its effect survives a crash and a power cut. The paths of \
                        ephemeral environments are also answered without `/api/v1`. Every answer carries \
                        `X-Request-Id`; every `POST` takes an `Idempotency-Key`; every error is `application/problem+json` with a stable `code`, except for input that is not HTTP.",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}

/// In an order that suits newcomers.
const TAGS: [(&str, &str); 12] = [
    ("Ephemeral environments", "Claim an environment, wait for it, deploy to it, release it."),
    ("Pipelines", "What is deployed to environments, and how."),
    ("Deployments", "Commits on their way to environments, with their stages and logs."),
    ("Approvals", "Stages that somebody has to approve."),
    ("Events", "Every change in the organization, as a list and as a stream."),
    ("Secrets", "Values for steps. No answer shows them."),
    ("Step registries", "Steps that pipelines use by name and version."),
    ("Analysis", "Why a deployment failed, and pull requests that fix it."),
    ("Webhooks", "Events sent to other servers."),
    ("Tokens", "API tokens: your own, and those of all members for admins."),
    ("Members", "Who belongs to the organization, and in which role. Admins change it."),
    ("Operating", "For operators and monitoring; without a token, but for the backup and the cluster."),
];

fn token() -> Value {
    json!({
        "type": "http", "scheme": "bearer", "bearerFormat": "lk_…",
        "description": "An API token, `lk_` and 36 letters and digits. The first one is printed when a server starts with an \
                        empty data directory, or is what the operator set as `LOCKKEEPER_BOOTSTRAP_TOKEN`. With it, an admin \
                        creates the others, and every member their own: `POST /api/v1/organizations/{orgId}/tokens`. A token belongs to one organization and \
                        has the present role of its member.",
    })
}

fn path_item(path: &str, operations: Vec<(Method, Operation)>, components: &mut Components) -> Ordered<String, Value> {
    let described = operations.into_iter().map(|(method, operation)| {
        let operation = if method == Method::POST { operation.idempotent() } else { operation };
        (method.as_str().to_ascii_lowercase(), operation.describe(path, components))
    });
    Ordered(described.collect())
}
