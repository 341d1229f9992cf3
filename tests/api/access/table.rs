//! Every operation of the OpenAPI document, requested by every kind of caller: without a token, with a wrong one, with
//! one of each role, … Each cell is really sent; the table contains its expected status.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ACME, BETA, ROLES, rank};
use crate::support::{ADMIN_TOKEN, Answer, Client, Server, Setup, lockkeeper};

/// The access to each operation, and the status for permitted callers. Nothing here takes effect: bodies have an
/// unknown field, and ids are invented, so 404 and 422 come from after the check of the role.
///
/// `any-admin`: an admin, of any organization; here there are two, so all are refused. `public`: anybody, without a
/// token. `member`: any role in any organization, since the path names none. `page`: anybody, except pages of another
/// site. `signed-in`: any member, with a cookie and not with a token.
const TABLE: &str = "
    listPipelines             viewer      200
    getPipeline               viewer      200
    putPipeline               maintainer  422
    deletePipeline            maintainer  404
    stopPipeline              maintainer  404
    resumePipeline            maintainer  404
    listEnvironments          viewer      200
    getEnvironment            viewer      200
    putEnvironment            maintainer  422
    deleteEnvironment         maintainer  404
    getEnvironmentHistory     viewer      200
    getEnvironmentQueue       viewer      200
    getUtilisation            viewer      200
    listSessions              viewer      200
    claimSession              developer   422
    claimAnyEnvironment       developer   422
    forceClaim                developer   422
    getSessionStatus          viewer      404
    releaseSession            developer   404
    releaseLock               developer   404
    deployCommit              developer   422
    sendHeartbeat             developer   422
    getPipelineSession        viewer      404
    releasePipelineSession    developer   404
    listDeployments           viewer      200
    getDeployment             viewer      404
    getDeploymentLogs         viewer      404
    cancelStage               developer   422
    retryStage                developer   422
    listDeploymentAnalyses    viewer      404
    createAnalysis            developer   422
    listAnalyses              viewer      200
    getAnalysis               viewer      404
    createFixPullRequest      developer   422
    listApprovals             viewer      200
    getApproval               viewer      404
    approveStage              maintainer  422
    rejectStage               maintainer  422
    listEvents                viewer      200
    getEvent                  viewer      404
    streamEvents              viewer      400
    verifyEvents              admin       200
    getCluster                admin       200
    listSecrets               viewer      200
    createSecret              maintainer  422
    getSecret                 viewer      404
    updateSecret              maintainer  422
    deleteSecret              maintainer  404
    listStepRegistries        viewer      200
    createStepRegistry        maintainer  422
    getStepRegistry           viewer      404
    updateStepRegistry        maintainer  422
    deleteStepRegistry        maintainer  404
    syncStepRegistry          maintainer  422
    listRegistrySteps         viewer      404
    listWebhooks              admin       200
    createWebhook             admin       422
    getWebhook                admin       404
    updateWebhook             admin       422
    deleteWebhook             admin       404
    rotateWebhookSecret       admin       422
    testWebhook               admin       422
    listWebhookDeliveries     admin       404
    getWebhookDelivery        admin       404
    redeliverEvent            admin       422
    listTokens                viewer      200
    createToken               viewer      422
    revokeToken               viewer      404
    exchangeToken             public      415
    listMembers               viewer      200
    getMember                 viewer      404
    addMember                 admin       422
    changeMember              admin       422
    removeMember              admin       404
    inviteMember              admin       422
    whoAmI                    member      200
    takeBackup                any-admin   403
    getHealth                 public      200
    getReadiness              public      200
    getMetrics                public      200
    getOpenapiDocument        public      200
    explainProblem            public      200
    getMethods                public      200
    signIn                    page        422
    signOut                   page        422
    changePassword            signed-in   422
    listSignIns               signed-in   200
    endSignIn                 signed-in   404
    viewInvitation            page        404
    acceptInvitation          page        422
    beginSingleSignOn         public      404
    finishSingleSignOn        public      400
";

/// Requests of our pages that are not in the document; the table has rows for them too.
const OF_PAGES: [(&str, &str, &str); 10] = [
    ("getMethods", "GET", "/auth/methods?organization=acme"),
    ("signIn", "POST", "/auth/sign-in"),
    ("signOut", "POST", "/auth/sign-out"),
    ("changePassword", "POST", "/auth/password"),
    ("listSignIns", "GET", "/auth/sign-ins"),
    ("endSignIn", "DELETE", "/auth/sign-ins/tok_0199f3c2a4b07f3e9d2c5a1b"),
    ("viewInvitation", "GET", "/auth/invitations/lki_none"),
    ("acceptInvitation", "POST", "/auth/invitations/lki_none"),
    ("beginSingleSignOn", "GET", "/auth/oidc/none?organization=acme"),
    ("finishSingleSignOn", "GET", "/auth/oidc/none/callback?state=x&code=x"),
];

/// The callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    NoToken,
    /// Well formed, but unknown.
    BadToken,
    Expired,
    Revoked,
    /// An admin of another organization.
    OtherOrganization,
    /// One of the organization's members.
    Member(&'static str),
    /// A browser in which an admin has signed in, from a page of ours.
    OwnPage,
    /// The same browser, from a page of another site.
    OtherSite,
}

/// The requests of a column.
struct Caller {
    column: Column,
    client: Client,
    headers: Vec<(&'static str, String)>,
}

/// The callers that may use an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Public,
    OwnPage,
    SignedIn,
    AnyMember,
    AnyAdmin,
    Least(&'static str),
}

struct Row {
    access: Access,
    /// The status for permitted callers.
    status: u16,
}

/// A request that changes nothing.
struct Request {
    id: String,
    method: Method,
    paths: Vec<String>,
    body: Option<Value>,
}

#[tokio::test]
async fn every_operation_answers_everybody_as_the_table_says() {
    let (server, columns) = callers().await;
    let document = server.admin();
    let document = document.send(document.request(Method::GET, "/api/v1/openapi.json")).await.ok().json();
    let (table, requests) = (table(), requests(&document));
    let known: Vec<_> = requests.iter().map(|request| &*request.id).collect();
    let without_row: Vec<_> = known.iter().filter(|id| !table.contains_key(**id)).collect();
    let without_operation: Vec<_> = table.keys().filter(|id| !known.contains(id)).collect();
    assert!(without_row.is_empty(), "operations without a row: {without_row:?}");
    assert!(without_operation.is_empty(), "rows without an operation: {without_operation:?}");

    let (mut cells, mut wrong) = (0, Vec::new());
    for request in &requests {
        let row = &table[&*request.id];
        for path in &request.paths {
            for Caller { column, client, headers } in &columns {
                let asked = client.request(request.method.clone(), path);
                let asked = headers.iter().fold(asked, |asked, (name, value)| asked.header(*name, value));
                let answer = client.send(if let Some(body) = &request.body { asked.json(body) } else { asked }).await;
                let (found, expected) = (outcome(&answer), row.expected(*column));
                if found.0 == 401 {
                    assert!(answer.header("www-authenticate").starts_with("Bearer realm=\"lockkeeper\""), "{answer:?}");
                }
                cells += 1;
                if found != expected {
                    wrong.push(format!("{} {path} by {column:?}: {found:?}, not {expected:?}", request.method));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cells, requests.iter().map(|request| request.paths.len()).sum::<usize>() * columns.len());
}

impl Row {
    fn expected(&self, column: Column) -> (u16, Option<String>) {
        let allowed = (self.status, None);
        let refused = |status, code: &str| (status, Some(code.to_owned()));
        match (self.access, column) {
            (Access::Public, _) => allowed,
            (Access::OwnPage, column) if column != Column::OtherSite => allowed,
            (_, Column::NoToken) => refused(401, "missing_token"),
            (_, Column::BadToken | Column::Expired | Column::Revoked) => refused(401, "invalid_token"),
            (_, Column::OtherSite) => refused(403, "cross_site_request"),
            (_, Column::OwnPage) | (Access::AnyMember | Access::OwnPage, _) => allowed,
            (Access::SignedIn, _) => refused(403, "sign_in_required"),
            (Access::AnyAdmin, Column::Member(role)) if role != "admin" => {
                refused(403, "permission_denied, requires admin")
            }
            (Access::AnyAdmin, _) => allowed,
            (Access::Least(_), Column::OtherOrganization) => refused(404, "organization_not_found"),
            (Access::Least(least), Column::Member(role)) if rank(role) < rank(least) => {
                refused(403, &format!("permission_denied, requires {least}"))
            }
            (Access::Least(_), Column::Member(_)) => allowed,
        }
    }
}

/// The status, and the code of a refusal; codes from after the permission check do not matter here.
fn outcome(answer: &Answer) -> (u16, Option<String>) {
    let status = answer.status.as_u16();
    if status < 400 {
        return (status, None);
    }
    let (_, code) = answer.problem();
    let why = match &*code {
        "permission_denied" => Some(format!("{code}, requires {}", answer.json()["requiredRole"].as_str().unwrap())),
        "missing_token"
        | "invalid_token"
        | "cross_site_request"
        | "sign_in_required"
        | "organization_not_found"
        | "route_not_found"
        | "method_not_allowed" => Some(code),
        _ => None,
    };
    (status, why)
}

fn table() -> BTreeMap<&'static str, Row> {
    let row = |line: &'static str| {
        let [id, access, status] = line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        let access = match access {
            "public" => Access::Public,
            "page" => Access::OwnPage,
            "signed-in" => Access::SignedIn,
            "member" => Access::AnyMember,
            "any-admin" => Access::AnyAdmin,
            role => Access::Least(ROLES[rank(role)].1),
        };
        (id, Row { access, status: status.parse().unwrap() })
    };
    TABLE.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
}

/// One request per operation, built from its description.
fn requests(document: &Value) -> Vec<Request> {
    let mut requests = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let mut filled = path.clone();
            for parameter in parameters.filter(|parameter| parameter["in"] == "path") {
                let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
                filled = filled.replace(&name, parameter["example"].as_str().unwrap());
            }
            let id = operation["operationId"].as_str().unwrap().to_owned();
            if id == "streamEvents" {
                // Refused because of the parameter, since a stream has no end to wait for.
                filled += "?noSuchParameter=1";
            }
            let short = filled.strip_prefix("/api/v1").filter(|path| path.contains("/ephemeral-environments"));
            let paths = short.map(str::to_owned).into_iter().chain([filled.clone()]).collect();
            let body = operation.get("requestBody").map(|_| json!({ "noSuchField": true }));
            requests.push(Request { id, method: method.to_uppercase().parse().unwrap(), paths, body });
        }
    }
    assert!(requests.len() > 70, "{} operations", requests.len());
    requests.extend(OF_PAGES.iter().map(|(id, method, path)| Request {
        id: (*id).to_owned(),
        method: method.parse().unwrap(),
        paths: vec![(*path).to_owned()],
        body: (*method == "POST").then(|| json!({ "noSuchField": true })),
    }));
    requests
}

/// A server with two organizations, and a client for each column.
async fn callers() -> (Server, Vec<Caller>) {
    let setup = |organizations: [&str; 2]| Setup::default().organizations(&organizations);
    let mut server = setup([BETA, ACME]).start();
    let bea = server.admin().in_organization("beta").post("/tokens", json!({ "name": "x" })).await.created().data();
    // The operator's token belongs to the admin of whichever organization is first.
    assert!(server.terminate().success());
    server.change_setup(|_| setup([ACME, BETA]));
    server.start_again();

    let unknown = String::from_utf8(lockkeeper(&["token"]).output().unwrap().stdout).unwrap();
    let mut clients = vec![
        (Column::NoToken, server.anonymous()),
        (Column::BadToken, server.with_token(unknown.trim())),
        (Column::Expired, expired(&server).await),
        (Column::Revoked, revoked(&server).await),
        (Column::OtherOrganization, server.with_token(bea["token"].as_str().unwrap())),
    ];
    for (name, role) in ROLES {
        clients.push((Column::Member(role), server.as_user(name).await));
    }
    let without_headers = |(column, client)| Caller { column, client, headers: Vec::new() };
    let mut columns: Vec<_> = clients.into_iter().map(without_headers).collect();
    let cookie = signed_in(&server).await;
    for (column, site) in [(Column::OwnPage, "same-origin"), (Column::OtherSite, "cross-site")] {
        let headers = vec![("cookie", cookie.clone()), ("sec-fetch-site", site.to_owned())];
        columns.push(Caller { column, client: server.anonymous(), headers });
    }
    (server, columns)
}

/// The cookie of a browser in which the admin has signed in.
async fn signed_in(server: &Server) -> String {
    let browser = server.anonymous();
    let request = browser.request(Method::POST, "/auth/sign-in").json(&json!({ "token": ADMIN_TOKEN }));
    let answer = browser.send(request).await.has_status(204);
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn expired(server: &Server) -> Client {
    // Long enough to be in the future when a busy server reads it.
    let soon = (jiff::Timestamp::now() + Duration::from_secs(3)).to_string();
    let made = server.admin().post("/tokens", json!({ "name": "short", "expiresAt": soon })).await.created().data();
    let client = server.with_token(made["token"].as_str().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.get("/pipelines").await.status == StatusCode::OK {
        assert!(Instant::now() < deadline, "the token does not expire");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client
}

async fn revoked(server: &Server) -> Client {
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "gone" })).await.created();
    admin.send(admin.request(Method::DELETE, made.header("location"))).await.has_status(204);
    server.with_token(made.data()["token"].as_str().unwrap())
}
