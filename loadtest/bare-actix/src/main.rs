//! The minimum that an actix-web server can do for a claim, a release and a read: receive the request, parse its JSON,
//! and send an answer of the same size as Lockkeeper's. No lock, no authentication, no disk. Lockkeeper's cost beyond
//! this is its own.

use std::io::{self, Write};
use std::net::SocketAddr;

use actix_web::http::header::ContentType;
use actix_web::{App, HttpResponse, HttpServer, web};
use clap::Parser;

/// The same as the server's, so that allocators are not part of the comparison.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SESSIONS: &str = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions";
const SESSION: &str =
    "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}";
const ENVIRONMENT: &str = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}";

/// Bodies exactly as Lockkeeper sends them, because their lengths matter.
const CLAIMED: &str = r#"{"data":{"sessionId":"ses_01a1de31eebb766a8b7b6e411","envName":"load-000001","lockStatus":"active","overridden":false,"user":{"userId":"usr_01a1de31ea9677428a0c349a","name":"admin"},"commitId":null,"context":null,"priority":0,"queuePosition":null,"fencingToken":1,"createdAt":"2026-11-15T07:52:56.763Z","claimedAt":"2026-11-15T07:52:56.763Z","expiresAt":null,"endedAt":null,"endedBy":null,"endReason":null,"deployments":[],"deploymentCount":0}}"#;
const RELEASED: &str = r#"{"data":{"sessionId":"ses_01a1de31eebb766a8b7b6e411","envName":"load-000001","lockStatus":"released","overridden":false,"user":{"userId":"usr_01a1de31ea9677428a0c349a","name":"admin"},"commitId":null,"context":null,"priority":0,"queuePosition":null,"fencingToken":1,"createdAt":"2026-11-15T07:52:56.763Z","claimedAt":"2026-11-15T07:52:56.763Z","expiresAt":null,"endedAt":"2026-11-15T07:52:56.764Z","endedBy":{"userId":"usr_01a1de31ea9677428a0c349a","name":"admin","sessionId":null},"endReason":null,"deployments":[],"deploymentCount":0}}"#;
const ENVIRONMENT_READ: &str = r#"{"data":{"envName":"load-000001","pipelineId":"web","lockStatus":"unlocked","lock":null,"queueLength":0,"disabledReason":null,"currentDeployment":null,"lastDeployment":null,"configuration":{"description":"","labels":{},"deployOnClaim":true,"defaultTtlSeconds":null,"maxTtlSeconds":86400,"maxHoldSeconds":null,"maxQueueLength":10000,"forceClaimRole":"developer","onRelease":null,"disabled":false,"variables":{}}}}"#;

#[derive(Parser)]
#[command(
    about = "Answers claims, releases and reads with fixed bodies: the limit of actix-web on this machine",
    after_help = "Example:\n  bare-actix --listen 127.0.0.1:0 --workers 2"
)]
struct Options {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Threads that answer requests; 0 takes as many as there are processors, as Lockkeeper does
    #[arg(long, default_value_t = 0)]
    workers: usize,
}

fn main() -> io::Result<()> {
    actix_web::rt::System::new().block_on(serve(Options::parse()))
}

async fn serve(options: Options) -> io::Result<()> {
    let workers = match options.workers {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        workers => workers,
    };
    let server = HttpServer::new(|| {
        App::new()
            .route(SESSIONS, web::post().to(claim))
            .route(SESSION, web::delete().to(release))
            .route(SESSION, web::get().to(read_session))
            .route(ENVIRONMENT, web::get().to(read_environment))
    })
    .workers(workers)
    .bind(options.listen)?;
    for address in server.addrs() {
        writeln!(io::stdout(), "bare-actix serves on http://{address}")?;
    }
    server.run().await
}

async fn claim(_body: web::Json<serde_json::Value>) -> HttpResponse {
    HttpResponse::Created().content_type(ContentType::json()).body(CLAIMED)
}

async fn release() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(RELEASED)
}

async fn read_session() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(RELEASED)
}

async fn read_environment() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(ENVIRONMENT_READ)
}
