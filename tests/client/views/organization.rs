//! `pipelines`, `stop`, `resume` and `secrets`.

use serde_json::json;

use crate::program::User;
use crate::support::Server;

#[tokio::test]
async fn pipelines_are_listed_stopped_and_resumed() {
    let server = Server::start();
    let user = User::admin(&server);
    user.run(&["pipelines"]).ok().says("Web shop").says("build, test, deploy (approval), smoke");
    let listed = user.json(&["pipelines"]);
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|pipeline| pipeline["id"].clone()).collect();
    assert!(ids.contains(&json!("web")) && ids.contains(&json!("shop")), "{listed}");
    user.run(&["stop", "--reason", "freeze"]).ok().says("web is stopped, by admin at ").says("UTC: freeze");
    user.run(&["pipelines"]).ok().says("stopped").says(": freeze");
    let resumed = user.json(&["resume", "web"]);
    assert_eq!((&resumed["id"], &resumed["status"]), (&json!("web"), &json!("running")));
    user.run(&["stop", "shop"]).ok().says("shop is stopped");
    user.run(&["resume", "shop"]).ok().says("shop runs");
    user.run(&["stop", "nope"]).with_code(66);
    user.run(&["stop", "no/pe"]).with_code(2);
    let ana = User::member(&server, "ana").await;
    ana.run(&["stop", "web"]).with_code(77);
    user.without("LOCKKEEPER_PIPELINE").run(&["stop"]).with_code(2).complains("several pipelines");
}

#[tokio::test]
async fn a_secret_goes_in_and_never_comes_out() {
    let server = Server::start();
    let user = User::admin(&server);
    user.run(&["secrets", "list"]).ok().complains("no secrets");
    let set = user.run_with_stdin(&["secrets", "set", "API_KEY", "--description", "of the database"], "a horse\n").ok();
    set.says("the organization's secret API_KEY is set, version 1");
    user.run_with_stdin(&["secrets", "set", "API_KEY"], "a better horse").ok().says("version 2");
    let file = user.home().join("value");
    std::fs::write(&file, "a pipeline's horse\n").unwrap();
    let arguments = ["secrets", "set", "API_KEY", "--pipeline", "web", "--file", file.to_str().unwrap(), "--json"];
    let ended = user.run(&arguments).ok();
    let made: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&made["pipelineId"], &made["version"]), (&json!("web"), &json!(1)));
    let shown = user.run(&["secrets", "list"]).ok().says("API_KEY").says("of the database");
    assert!(!shown.stdout.contains("horse"), "{}", shown.stdout);
    assert_eq!(user.json(&["secrets", "list", "--pipeline", "web"]).as_array().unwrap().len(), 1);
    // LOCKKEEPER_PIPELINE is web: only the flag decides the owner of the secret.
    user.run(&["secrets", "delete", "API_KEY"]).ok().says("the organization's secret API_KEY is deleted");
    let left = user.json(&["secrets", "list"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["pipelineId"]), (1, &json!("web")));
    user.run(&["secrets", "delete", "API_KEY"]).with_code(66);
    user.run(&["secrets", "delete", "API_KEY", "--pipeline", "web"]).ok().says("the secret of pipeline web");
}

#[tokio::test]
async fn a_secret_that_cannot_be_is_refused() {
    let server = Server::start();
    let user = User::admin(&server);
    user.run_with_stdin(&["secrets", "set", "LOCKKEEPER_X"], "x").with_code(2);
    user.run_with_stdin(&["secrets", "set", "NO-NAME"], "x").with_code(2);
    user.run_with_stdin(&["secrets", "set", "API_KEY"], "\n").with_code(2);
    user.run_with_stdin(&["secrets", "set", "API_KEY"], &"x".repeat(16_385))
        .with_code(2)
        .complains("at most 16384 bytes");
    user.run_with_stdin(&["secrets", "set", "API_KEY", "--pipeline", "nope"], "x").with_code(2);
    user.run(&["secrets", "set", "API_KEY", "--file", "/nonexistent"]).with_code(2);
    user.run(&["secrets", "set", "API_KEY", "the-value"]).with_code(2);
    let ana = User::member(&server, "ana").await;
    ana.run_with_stdin(&["secrets", "set", "API_KEY"], "x").with_code(77);
    ana.run(&["secrets", "list"]).ok();
    user.run(&["secrets", "--help"]).ok().says("rotate-key").says("set");
}
