//! The definitions of pipelines in organization files.

use super::organizations::{check, sample_with_its_examples};
use super::{Files, keys, load_variables};
use crate::config::check_file;
use crate::config::organization::{DeclaredPipelineForm, Pipeline};
use crate::forms::{HttpForm, RepositoryForm, StageForm, StepForm};
use domain::pipeline::{ARGUMENTS_MAX, HEADERS_MAX, STAGES_MAX, STEPS_MAX};
use domain::{Action, ApprovalRule, Blueprint, Stage};
use locks::pipelines::{EXPECTED_STATUSES_MAX, Provider};

/// Checks one pipeline, whose keys begin on line 8.
fn check_pipeline(keys: &str) -> Result<Pipeline, Vec<String>> {
    let checked = check(&format!("[[pipelines]]\nid = 'p'\n{keys}\n"));
    checked.map(|organization| organization.pipelines.into_iter().next().unwrap())
}

/// Checks one stage, whose keys begin on line 10.
fn check_stage(keys: &str) -> Result<Stage, Vec<String>> {
    let pipeline = check_pipeline(&format!("[[pipelines.stages]]\nname = 's'\n{keys}"))?;
    Ok(pipeline.blueprint.stages[0].clone())
}

/// Checks one step, whose keys are on line 11.
fn check_step(keys: &str) -> Result<Action, Vec<String>> {
    Ok(check_stage(&format!("[[pipelines.stages.steps]]\n{keys}"))?.steps[0].action.clone())
}

#[test]
fn the_sample_has_a_pipeline_without_stages_and_one_that_shows_what_stages_can_do() {
    let acme = load_variables(&[]).unwrap().organizations.remove(0);
    let [web, shop] = acme.pipelines.as_slice() else { panic!("{acme:?}") };
    assert_eq!(*web.blueprint, Blueprint::default());
    let stages: Vec<_> = shop.blueprint.stages.iter().map(|s| (s.name.as_str(), s.approval, s.idempotent)).collect();
    assert_eq!(
        stages,
        [
            ("build", ApprovalRule::Never, false),
            ("test", ApprovalRule::Never, true),
            ("deploy", ApprovalRule::Always, false),
            ("smoke", ApprovalRule::Never, true),
        ]
    );
    assert!(shop.blueprint.self_approval, "who follows the README alone has one token");
    let steps = shop.blueprint.stages.iter().flat_map(|stage| &stage.steps);
    assert!(steps.into_iter().all(|step| matches!(&step.action, Action::Run(arguments) if &*arguments[0] == "sh")));
}

#[test]
fn the_sample_explains_every_key_of_a_pipeline_and_its_examples_are_sound() {
    let text = sample_with_its_examples().join("\n");
    let files = Files::new(&[("acme.toml", &text), ("acme-login.secret", "s3cret\n")]);
    let acme = check_file(&files.path("acme.toml")).unwrap().organizations.remove(0).1;
    let shop = &acme.pipelines[1];
    assert!(shop.repository.is_some());
    assert!(shop.blueprint.stages[1].steps.iter().any(|step| matches!(step.action, Action::Http(_))));
    let keys = [
        keys::<DeclaredPipelineForm>(),
        keys::<StageForm>(),
        keys::<StepForm>(),
        keys::<HttpForm>(),
        keys::<RepositoryForm>(),
    ];
    for key in keys.concat() {
        let shown = text.contains(&format!("{key} = ")) || text.contains(&format!(".{key}]]"));
        assert!(shown, "{key}");
    }
}

#[test]
fn what_the_sample_shows_of_its_first_stage_is_what_leaving_it_out_gives() {
    let acme = load_variables(&[]).unwrap().organizations.remove(0);
    let build = acme.pipelines[1].blueprint.stages[0].clone();
    let bare = check_stage("[[pipelines.stages.steps]]\nrun = ['true']").unwrap();
    assert_eq!(build, Stage { name: build.name.clone(), steps: build.steps.clone(), ..bare });
}

#[test]
fn a_stage_is_read_with_all_it_has() {
    let stage = check_stage(
        "approval = 'always'\ntimeout_seconds = 86400\nidempotent = true\n\
         [[pipelines.stages.steps]]\nrun = ['echo', 'a b', '']\n\
         [[pipelines.stages.steps]]\nname = 'call'\n\
         http = { url = 'https://x.example/${A}', headers = { X-A = 'b' }, body = '', expect_status = 204 }\n\
         [[pipelines.stages.steps]]\nhttp = { url = 'http://x.example', expect_status = [200, 599] }\n",
    )
    .unwrap();
    assert_eq!((stage.approval, stage.timeout_seconds, stage.idempotent), (ApprovalRule::Always, 86_400, true));
    let names: Vec<_> = stage.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["step-1", "call", "step-3"], "those without a name are called by their place");
    let [Action::Run(run), Action::Http(call), Action::Http(plain)] =
        [&stage.steps[0].action, &stage.steps[1].action, &stage.steps[2].action]
    else {
        panic!("{stage:?}")
    };
    assert_eq!(run.iter().map(|argument| &**argument).collect::<Vec<_>>(), ["echo", "a b", ""]);
    assert_eq!((&*call.method, call.body.as_deref()), ("POST", Some("")));
    assert_eq!((&*call.headers[0].0, &*call.headers[0].1), ("X-A", "b"));
    assert_eq!(call.expect_status, [204]);
    assert_eq!((&*plain.method, plain.body.as_deref(), &*plain.expect_status), ("GET", None, &[200, 599][..]));
}

#[test]
fn a_pipeline_has_variables_and_a_repository() {
    let pipeline = check_pipeline(
        "variables = { A = 'b' }\nself_approval = false\n\
         repository = { provider = 'github', url = 'https://github.example/a/b' }",
    )
    .unwrap();
    let variables: Vec<_> = pipeline.blueprint.variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!((variables, pipeline.blueprint.self_approval), (vec![("A", "b")], false));
    let repository = pipeline.repository.unwrap();
    assert_eq!((repository.provider, &*repository.default_branch), (Provider::GitHub, "main"));
    assert_eq!(
        check_pipeline("repository = { provider = 'svn', url = 'http://x', branch = 'b', default_branch = '-x' }")
            .unwrap_err(),
        [
            "o.toml:8: pipelines.repository.provider must be one of git, github",
            "o.toml:8: pipelines.repository.url must be the https, ssh or file URL of a repository, or git@host:path, of \
             at most 2048 visible ASCII characters",
            "o.toml:8: pipelines.repository.default_branch must be 1 to 128 visible ASCII characters without spaces, not \
             starting with '-'",
            "o.toml:8: pipelines.repository.branch is not a known key; known here: provider, url, default_branch, \
             credential, api_url",
        ]
    );
    assert_eq!(
        check_pipeline("repository = 'https://x'").unwrap_err(),
        ["o.toml:8: pipelines.repository must be a table, got a string"]
    );
}

#[test]
fn all_faults_of_the_stages_are_told_with_their_lines() {
    let text = "self_approval = 'yes'\n[[pipelines.stages]]\nname = 'a'\napproval = 'sometimes'\ntimeout_seconds = 0\n\
                [[pipelines.stages.steps]]\nrun = ['', 7]\n[[pipelines.stages.steps]]\nname = 'step-1'\n\
                [[pipelines.stages]]\nname = 'a'\nidempotent = 1\nsteps = []\n[[pipelines.stages]]\n\
                [[pipelines.stages.steps]]\nuses = 'x/y'\nwith = { 1A = 1, B = [] }\n\
                [[pipelines.stages.steps]]\nrun = ['x']\nwith = {}\n";
    assert_eq!(
        check_pipeline(text).unwrap_err(),
        [
            "o.toml:8: pipelines.self_approval must be a boolean, got a string",
            "o.toml:11: pipelines.stages.approval must be one of never, always",
            "o.toml:12: pipelines.stages.timeout_seconds must be an integer from 1 to 86400, got 0",
            "o.toml:14: pipelines.stages.steps.run[0] must name a program, in at most 32768 bytes without NUL",
            "o.toml:14: pipelines.stages.steps.run[1] must be a string, got a number",
            "o.toml:15: pipelines.stages.steps.run is required, or `http` or `uses` instead",
            "o.toml:16: pipelines.stages.steps.name `step-1` is used twice; the first is on line 13",
            "o.toml:18: pipelines.stages.name `a` is used twice; the first is on line 10",
            "o.toml:19: pipelines.stages.idempotent must be a boolean, got a number",
            "o.toml:20: pipelines.stages.steps must have at least 1 entry, got 0",
            "o.toml:21: pipelines.stages.name is required",
            "o.toml:23: pipelines.stages.steps.uses must be registry/step@version, such as tools/build@1.2.0",
            "o.toml:24: pipelines.stages.steps.with.1A is not a valid name: must be 1 to 63 letters, digits or '_', not starting with \
             a digit or with LOCKKEEPER_, which is reserved",
            "o.toml:24: pipelines.stages.steps.with.B must be a string, a number or a boolean, got an array",
            "o.toml:27: pipelines.stages.steps.with is only allowed with `uses`",
        ]
    );
}

#[test]
fn a_step_that_is_wrong_is_told_why() {
    for (keys, told) in [
        ("run = 'make all'", &["run must be an array, got a string"] as &[_]),
        ("run = []", &["run must have at least 1 entry, got 0"]),
        ("run = ['a', \"\\u0000\"]", &["run[1] must be at most 32768 bytes, without NUL"]),
        ("http = 'https://x'", &["http must be a table, got a string"]),
        ("http = {}", &["http.url is required"]),
        (
            "http = { url = 'ftp://x', method = 'post', headers = { Host = 'x' }, expect_status = [99, '200'] }",
            &[
                "http.method must be an HTTP method in upper case, such as POST",
                "http.url must be an http or https URL of at most 2048 visible ASCII characters",
                "http.headers.Host is not a valid name: must be the name of a header that a request may set",
                "http.expect_status[0] must be an integer from 100 to 599, got 99",
                "http.expect_status[1] must be an integer from 100 to 599, got a string",
            ],
        ),
        (
            "http = { url = 'https://x', expect_status = '2xx' }",
            &["http.expect_status must be an integer from 100 to 599, got a string"],
        ),
    ] {
        let told: Vec<_> = told.iter().map(|told| format!("o.toml:11: pipelines.stages.steps.{told}")).collect();
        assert_eq!(check_step(keys).unwrap_err(), told, "{keys}");
    }
    assert_eq!(
        check_step("run = ['true']\nhttp = { url = 'https://x' }").unwrap_err(),
        ["o.toml:11: pipelines.stages.steps.run must not be combined with `http`"]
    );
}

#[test]
fn there_is_a_bound_to_everything_that_a_pipeline_lists() {
    type Text<'a> = &'a dyn Fn(usize) -> String;
    let step = "[[pipelines.stages.steps]]\nrun = ['true']\n";
    let stages =
        |count: usize| (0..count).map(|n| format!("[[pipelines.stages]]\nname = 's{n}'\n{step}")).collect::<String>();
    let stage = |rest: &str| format!("[[pipelines.stages]]\nname = 's'\n{rest}");
    let steps = |count: usize| stage(&step.repeat(count));
    let arguments = |count: usize| stage(&format!("steps = [{{ run = [{}] }}]", "'a',".repeat(count)));
    let headers = |count: usize| {
        let headers: Vec<_> = (0..count).map(|n| format!("X-{n} = 'v'")).collect();
        stage(&format!("steps = [{{ http = {{ url = 'https://x', headers = {{ {} }} }} }}]", headers.join(", ")))
    };
    let statuses = |count: usize| {
        stage(&format!("steps = [{{ http = {{ url = 'https://x', expect_status = [{}] }} }}]", "200,".repeat(count)))
    };
    let bounds: [(&str, usize, Text); 5] = [
        ("stages must have at most 32 entries, got 33", STAGES_MAX, &stages),
        ("steps must have at most 32 entries, got 33", STEPS_MAX, &steps),
        ("run must have at most 64 entries, got 65", ARGUMENTS_MAX, &arguments),
        ("headers must have at most 32 entries, got 33", HEADERS_MAX, &headers),
        ("expect_status must have at most 32 entries, got 33", EXPECTED_STATUSES_MAX, &statuses),
    ];
    for (expected, max, text) in bounds {
        assert!(check_pipeline(&text(max)).is_ok(), "{expected}");
        let told = check_pipeline(&text(max + 1)).unwrap_err();
        assert!(told.len() == 1 && told[0].ends_with(expected), "{told:?}");
    }
}

#[test]
fn the_texts_of_a_pipeline_are_bounded_together() {
    let argument = format!("'{}'", "x".repeat(32_000));
    let told = check_stage(&format!("steps = [{{ run = ['echo', {argument}, {argument}] }}]")).unwrap_err();
    assert!(told.len() == 1 && told[0].contains("at most 61440 bytes"), "{told:?}");
}

#[test]
fn a_step_of_a_registry_is_named_with_what_it_is_given() {
    let stage = check_stage(
        "[[pipelines.stages.steps]]\nuses = 'tools/build@1.2.0'\n\
         with = { TARGET = 'all', JOBS = 4, RATIO = 0.5, QUICK = true, MASK = 0x10 }",
    );
    let Action::Uses(used) = &stage.unwrap().steps[0].action else { panic!("it uses a step") };
    assert_eq!(used.reference.to_string(), "tools/build@1.2.0");
    let given = used.with.iter().map(|(name, value)| (name.as_str(), value.kind().as_str(), value.text().as_str()));
    let expected = [
        ("JOBS", "number", "4"),
        ("MASK", "number", "16"),
        ("QUICK", "boolean", "true"),
        ("RATIO", "number", "0.5"),
        ("TARGET", "string", "all"),
    ];
    assert_eq!(given.collect::<Vec<_>>(), expected);
}

#[test]
fn who_checks_a_file_is_told_that_steps_of_registries_are_not_checked() {
    let text = "[organization]\nid = 'acme'\n[[members]]\nname = 'a'\nrole = 'admin'\n[[pipelines]]\nid = 'web'\n\
                [[pipelines.stages]]\nname = 's'\nsteps = [{ uses = 'tools/build@1' }]\n";
    let files = Files::new(&[("o.toml", text)]);
    let told = check_file(&files.path("o.toml")).unwrap().to_string();
    assert!(told.ends_with("; 1 step of registries, which only a server can check"), "{told}");
}
