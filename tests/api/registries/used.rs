//! Steps of registries in pipelines: checked when a pipeline is saved, resolved when a deployment starts, and stored
//! with it.

use serde_json::{Value, json};

use crate::support::registries::{Remote, git_is_usable, greet, greeting, make, place, steps, sync, using};
use crate::support::{Client, Server, Setup};

const PIPELINE: &str = "/pipelines/web";

/// Claims review-1, deploys there, and returns the deployment after its end.
async fn deploy(client: &Client, session: &str) -> Value {
    let body = json!({ "commitId": "c0ffee1", "waitSeconds": 60 });
    client.deploy("review-1", session, body).await.ok().data()
}

async fn log(client: &Client, deployment: &Value) -> String {
    let id = deployment["deploymentId"].as_str().unwrap();
    client.get(&format!("/deployments/{id}/logs")).await.ok().text
}

#[tokio::test]
async fn a_pipeline_is_told_all_that_is_wrong_with_what_it_uses() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let registry = make(&mia, json!({ "name": "tools", "steps": [greeting("1", "hello")] })).await.data();
    let one = |uses: Value, with: Value| json!({ "uses": uses, "with": with });
    let steps = [
        one(json!("tools/greet@1"), json!({ "WHOM": "you" })),
        one(json!("nothing/greet@1"), json!({})),
        one(json!("tools/nothing@1"), json!({})),
        one(json!("tools/greet@9"), json!({ "WHOM": "you" })),
        one(json!("tools/greet@1"), json!({ "TIMES": "often", "COLOUR": "red" })),
        one(json!("greet"), json!({ "A": [] })),
        one(json!(7), json!(7)),
        json!({ "run": ["true"], "with": {} }),
        json!({ "run": ["true"], "uses": "tools/greet@1", "with": { "WHOM": "you" } }),
    ];
    let body = |steps: &[Value]| json!({ "stages": [{ "name": "s", "steps": steps }] });
    let refused = mia.put(PIPELINE, body(&steps)).await.refused(422, "invalid_request");
    let mut told = refused.faulty_fields();
    told.sort();
    let expected = [
        "[1].uses",
        "[2].uses",
        "[3].uses",
        "[4].with.COLOUR",
        "[4].with.TIMES",
        "[4].with.WHOM",
        "[5].uses",
        "[5].with.A",
        "[6].uses",
        "[6].with",
        "[7].with",
        "[8].run",
    ];
    assert_eq!(told, expected.map(|field| format!("stages[0].steps{field}")), "{refused:?}");
    for part in ["there is no registry `nothing`", "has no step `nothing`", "only these versions: 1"] {
        assert!(refused.text.contains(part), "{part}: {refused:?}");
    }
    mia.put(PIPELINE, body(&steps[..1])).await.ok();
    let shown = mia.get(PIPELINE).await.ok().data();
    let expected = json!({ "name": "step-1", "uses": "tools/greet@1", "with": { "WHOM": "you" } });
    assert_eq!(shown["stages"][0]["steps"][0], expected);
    let used = json!({ "name": "tools", "steps": [greeting("1", "x".repeat(30_000).as_str())] });
    mia.put(&place(&registry), used).await.ok();
    let three: Vec<_> = (0..3).map(|_| steps[0].clone()).collect();
    let refused = mia.put(PIPELINE, body(&three)).await.refused(422, "invalid_request");
    assert!(refused.text.contains("larger than 61440 bytes"), "{refused:?}");
}

#[tokio::test]
async fn a_step_of_a_registry_runs_with_its_inputs_and_the_deployment_says_which_it_was() {
    if !git_is_usable() {
        return;
    }
    let (server, remote) = (Server::start(), Remote::new());
    let admin = server.admin();
    let first = remote.sh("cd clone && git rev-parse HEAD");
    let registry = make(&admin, remote.registry("tools", "main")).await.data();
    let mut pipeline = using("tools/greet@1", json!({ "WHOM": "${HOME} & co", "TIMES": 2 }));
    pipeline["variables"] = json!({ "WHOM": "nobody", "TIMES": "7" });
    pipeline["stages"][0]["steps"].as_array_mut().unwrap().push(json!({ "run": ["sh", "-c", "echo then $WHOM"] }));
    admin.put(PIPELINE, pipeline).await.ok();
    let session = admin.claim("review-1", json!({})).await.created().session();
    let deployed = deploy(&admin, &session).await;
    assert_eq!(deployed["status"], "succeeded", "{deployed:#}");
    assert_eq!(
        log(&admin, &deployed).await,
        "hello ${HOME} & co 2\nthen nobody\n",
        "inputs win, and are the step's alone"
    );
    let step = |deployment: &Value, place: usize| deployment["stages"][0]["steps"][place]["uses"].clone();
    let uses = |commit: &str| json!({ "registry": "tools", "step": "greet", "version": "1", "commit": commit });
    assert_eq!((step(&deployed, 0), step(&deployed, 1)), (uses(&first), Value::Null));

    remote.write("steps/greet.toml", &greet("1", "bye; exit 3;"));
    let second = remote.push().replace('\n', "");
    assert_eq!(sync(&admin, &registry).await.ok().data()["changed"], json!(["greet@1"]));
    let failed = deploy(&admin, &session).await;
    let error = "stage `say`: step `greet` exited with code 3";
    assert_eq!((failed["status"].as_str(), failed["error"].as_str()), (Some("failed"), Some(error)));
    assert_eq!(step(&failed, 0), uses(&second));
    let id = deployed["deploymentId"].as_str().unwrap();
    assert_eq!(
        step(&admin.get(&format!("/deployments/{id}")).await.ok().data(), 0),
        uses(&first),
        "it keeps what it ran"
    );
}

#[tokio::test]
async fn a_retry_runs_what_the_deployment_began_with() {
    let server = Server::start();
    let admin = server.admin();
    let failing = json!({ "name": "work", "version": "1", "run": ["sh", "-c", "echo old; test -e ready"] });
    let registry = make(&admin, json!({ "name": "tools", "steps": [failing] })).await.data();
    let pipeline = json!({ "stages": [
        { "name": "work", "steps": [{ "uses": "tools/work@1" }] },
    ] });
    admin.put(PIPELINE, pipeline).await.ok();
    let session = admin.claim("review-1", json!({})).await.created().session();
    let failed = deploy(&admin, &session).await;
    assert_eq!(failed["status"], "failed", "{failed:#}");
    let changed = json!({ "name": "work", "version": "1", "run": ["sh", "-c", "echo new"] });
    admin.put(&place(&registry), json!({ "name": "tools", "steps": [changed] })).await.ok();
    let id = failed["deploymentId"].as_str().unwrap();
    admin.post(&format!("/deployments/{id}/stages/work/retry"), json!({})).await.has_status(202);
    let again = admin.until(&format!("/deployments/{id}"), |found| found["status"] == "failed").await;
    assert_eq!(again["stages"][0]["attempt"], 2);
    assert_eq!(again["stages"][0]["steps"][0]["uses"]["commit"], Value::Null);
    assert!(!log(&admin, &again).await.contains("new"));
    let anew = deploy(&admin, &session).await;
    assert_eq!((anew["status"].as_str(), log(&admin, &anew).await.as_str()), (Some("succeeded"), "new\n"));
}

#[tokio::test]
async fn what_pipelines_use_is_not_taken_from_them() {
    if !git_is_usable() {
        return;
    }
    let (server, remote) = (Server::start(), Remote::new());
    let mia = server.as_user("mia").await;
    let registry = make(&mia, remote.registry("tools", "main")).await.data();
    mia.put(PIPELINE, using("tools/greet@1", json!({ "WHOM": "you" }))).await.ok();
    mia.put("/pipelines/other", using("tools/greet@1", json!({ "WHOM": "me" }))).await.created();
    let in_use = |answer: crate::support::Answer| {
        let refused = answer.refused(409, "registry_in_use");
        assert_eq!(refused.json()["usedBy"], json!(["other", "web"]), "{refused:?}");
    };
    in_use(mia.delete(&place(&registry)).await);
    in_use(mia.put(&place(&registry), remote.registry("renamed", "main")).await);
    in_use(mia.put(&place(&registry), json!({ "name": "tools", "steps": [] })).await);

    remote.write("steps/greet.toml", &greet("2", "hi"));
    remote.push();
    in_use(sync(&mia, &registry).await);
    let shown = mia.get(&place(&registry)).await.ok().data();
    assert_eq!((&shown["status"], &shown["git"]), (&json!("failed"), &registry["git"]));
    assert!(shown["error"].as_str().unwrap().contains("other, web"), "{shown}");
    assert_eq!(steps(&mia, &registry).await, ["greet@1"]);
    remote.write("steps/greet.toml", &greet("1", "hi").replace("WHOM =", "WHO ="));
    remote.push();
    in_use(sync(&mia, &registry).await);

    mia.put(PIPELINE, json!({})).await.ok();
    mia.delete("/pipelines/other").await.has_status(204);
    assert_eq!(sync(&mia, &registry).await.ok().data()["changed"], json!(["greet@1"]));
    mia.delete(&place(&registry)).await.has_status(204);
}

/// Whichever comes first, a pipeline never loses the registry that it was saved with.
#[tokio::test]
async fn a_registry_is_not_deleted_under_a_pipeline_that_is_being_saved() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let (mut saved, mut deleted) = (0, 0);
    for round in 0..20 {
        let name = format!("tools-{round}");
        let registry = make(&mia, json!({ "name": name, "steps": [greeting("1", "x")] })).await.data();
        let pipeline = format!("/pipelines/p-{round}");
        let body = using(&format!("{name}/greet@1"), json!({ "WHOM": "you" }));
        let at = place(&registry);
        let (put, delete) = tokio::join!(mia.put(&pipeline, body), mia.delete(&at));
        match (put.status.as_u16(), delete.status.as_u16()) {
            (201, 409) => saved += 1,
            (422, 204) => deleted += 1,
            both => panic!("{both:?}: {put:?} {delete:?}"),
        }
    }
    println!("saved first: {saved}, deleted first: {deleted}");
}

#[tokio::test]
async fn a_file_may_use_a_registry_that_is_yet_to_be_made() {
    let organization = "organization = { id = \"acme\" }\nmembers = [{ name = \"admin\", role = \"admin\" }]\n\
                        [[pipelines]]\nid = \"web\"\nenvironments = [{ name = \"review-1\" }]\n\
                        [[pipelines.stages]]\nname = \"say\"\n\
                        steps = [{ uses = \"tools/greet@1\", with = { WHOM = \"you\" } }]\n";
    let server = Setup::default().organization(organization).start();
    let admin = server.admin();
    assert!(server.log().contains("there is no registry `tools`"), "{}", server.log());
    let session = admin.claim("review-1", json!({})).await.created().session();
    let failed = deploy(&admin, &session).await;
    assert_eq!((failed["status"].as_str(), &failed["stages"]), (Some("failed"), &json!([])));
    let error = "stage `say`: step `step-1`: uses names tools/greet@1, and there is no registry `tools`";
    assert_eq!(failed["error"], error);
    let registry = make(&admin, json!({ "name": "tools", "steps": [greeting("1", "hello")] })).await.data();
    let deployed = deploy(&admin, &session).await;
    assert_eq!(log(&admin, &deployed).await, "hello you 1\n");
    admin.delete(&place(&registry)).await.refused(409, "registry_in_use");
}

#[tokio::test]
async fn a_request_of_a_registry_has_its_inputs_filled_in() {
    let server = Setup::default().reaching_loopback().start();
    let admin = server.admin();
    let url = admin.request(reqwest::Method::GET, "/healthz").build().unwrap().url().to_string();
    let call = json!({ "name": "ask", "version": "1", "inputs": { "WHERE": { "type": "string", "default": "healthz" } },
                       "http": { "url": url.replace("healthz", "${WHERE}"), "expectStatus": 200 } });
    make(&admin, json!({ "name": "tools", "steps": [call] })).await;
    admin.put(PIPELINE, json!({ "stages": [{ "name": "s", "steps": [{ "uses": "tools/ask@1" }] }] })).await.ok();
    let session = admin.claim("review-1", json!({})).await.created().session();
    assert_eq!(deploy(&admin, &session).await["status"], "succeeded");
    let elsewhere = json!({ "uses": "tools/ask@1", "with": { "WHERE": "nowhere" } });
    admin.put(PIPELINE, json!({ "stages": [{ "name": "s", "steps": [elsewhere] }] })).await.ok();
    assert_eq!(deploy(&admin, &session).await["error"], "stage `s`: step `step-1` was answered with status 404");
}
