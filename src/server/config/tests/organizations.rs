//! Organization files: their declarations, and the faults that an operator sees.

use super::{Files, keys, lines, load_variables};
use crate::config::organization::EnvironmentForm;
use crate::config::{Organization, SAMPLE_TOML, check_file};
use domain::{CommitId, Configuration, LABELS_MAX, QUEUE_LENGTH_MAX, Role, SECONDS_MAX, VARIABLES_MAX};

const HEAD: &str = "[organization]\nid = 'o'\n[[members]]\nname = 'root'\nrole = 'admin'\n";

/// Checks a file that consists of five valid lines and this text.
pub(super) fn check(text: &str) -> Result<Organization, Vec<String>> {
    let files = Files::new(&[("o.toml", &format!("{HEAD}{text}"))]);
    let checked = check_file(&files.path("o.toml")).map_err(|faults| files.lines(&faults))?;
    Ok(checked.organizations.into_iter().next().unwrap().1)
}

#[test]
fn the_sample_is_the_organization_that_the_documentation_speaks_of() {
    let settings = load_variables(&[]).unwrap();
    let [acme] = settings.organizations.as_slice() else { panic!("{settings:?}") };
    assert_eq!((acme.id.as_str(), acme.name.as_str()), ("acme", "Acme"));
    let members: Vec<_> = acme.members.iter().map(|member| (member.name.as_str(), member.role)).collect();
    assert_eq!(
        members,
        [
            ("admin", Role::Admin),
            ("mia", Role::Maintainer),
            ("ana", Role::Developer),
            ("ben", Role::Developer),
            ("vic", Role::Viewer),
        ]
    );
    let environments: Vec<Vec<_>> = acme
        .pipelines
        .iter()
        .map(|pipeline| pipeline.environments.iter().map(|environment| environment.name.as_str()).collect())
        .collect();
    assert_eq!(acme.pipelines.iter().map(|pipeline| pipeline.id.as_str()).collect::<Vec<_>>(), ["web", "shop"]);
    assert_eq!(environments, [vec!["review-1", "review-2", "review-3"], vec!["staging-1", "staging-2"]]);
}

/// The lines of the sample, including those commented out as examples.
pub(super) fn sample_with_its_examples() -> Vec<&'static str> {
    let is_example = |rest: &&str| rest.contains(" = ") || rest.starts_with("[[");
    SAMPLE_TOML.lines().map(|line| line.strip_prefix("# ").filter(is_example).unwrap_or(line)).collect()
}

#[test]
fn the_sample_explains_every_key_of_an_environment_and_its_examples_are_sound() {
    let text = sample_with_its_examples();
    let files = Files::new(&[("acme.toml", &text.join("\n")), ("acme-login.secret", "s3cret\n")]);
    let acme = check_file(&files.path("acme.toml")).unwrap().organizations.remove(0).1;
    let review = &acme.pipelines[0].environments[0].configuration;
    assert!(review.default_ttl_seconds.is_some() && review.max_hold_seconds.is_some() && review.on_release.is_some());
    let first = text.split(|line| *line == "[[pipelines.environments]]").nth(1).unwrap();
    for key in keys::<EnvironmentForm>() {
        assert!(first.iter().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
    }
}

#[test]
fn what_the_sample_shows_as_left_out_is_what_leaving_it_out_gives() {
    let acme = load_variables(&[]).unwrap().organizations.remove(0);
    let review = acme.pipelines[0].environments[0].configuration.clone();
    let (description, labels, variables) =
        (review.description.clone(), review.labels.clone(), review.variables.clone());
    // The sample's header names the values that are not defaults.
    let shown =
        Configuration { description, labels, variables, default_ttl_seconds: Some(3_600), ..Configuration::default() };
    assert_eq!(review, shown);
}

#[test]
fn what_a_file_leaves_out_has_its_default() {
    let organization = check("[[pipelines]]\nid = 'web'\n[[pipelines.environments]]\nname = 'e'\n").unwrap();
    assert_eq!(organization.name, "o");
    let pipeline = &organization.pipelines[0];
    assert_eq!((pipeline.name.as_str(), pipeline.slug.as_str()), ("web", "web"));
    assert_eq!(pipeline.environments[0].configuration, Default::default());
}

#[test]
fn everything_a_file_says_is_kept() {
    let text = "[[pipelines]]\nid = 'web'\nname = 'Wéb'\nslug = 'w'\n[[pipelines.environments]]\nname = 'e'\n\
                description = 'd'\nlabels = { size = 'small' }\ndeploy_on_claim = false\ndefault_ttl_seconds = 900\n\
                max_ttl_seconds = 3_600\nmax_hold_seconds = 86_400\nmax_queue_length = 0\n\
                on_release = { commit_id = 'main' }\nforce_claim_role = 'admin'\ndisabled = true\n\
                variables.TIER = 'review'\n";
    let organization = check(text).unwrap();
    let pipeline = &organization.pipelines[0];
    assert_eq!((pipeline.name.as_str(), pipeline.slug.as_str()), ("Wéb", "w"));
    let configuration = &pipeline.environments[0].configuration;
    assert_eq!(configuration.description.as_str(), "d");
    assert_eq!(configuration.force_claim_role, Role::Admin);
    assert!(!configuration.deploy_on_claim && configuration.disabled);
    assert_eq!((configuration.default_ttl_seconds, configuration.max_ttl_seconds), (Some(900), 3_600));
    assert_eq!((configuration.max_hold_seconds, configuration.max_queue_length), (Some(86_400), 0));
    assert_eq!(configuration.on_release.as_ref().map(CommitId::as_str), Some("main"));
    let labels: Vec<_> = configuration.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(labels, [("size", "small")]);
    let variables: Vec<_> = configuration.variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(variables, [("TIER", "review")]);
}

#[test]
fn all_faults_of_a_file_are_told_from_the_top() {
    let text = "[[members]]\nnmae = 'ana'\nrole = 'developer'\n[[pipelines]]\nid = 'web'\nname = ''\nslug = 'a/b'\n\
                [[pipelines.environments]]\nname = 'e'\ndeploy_on_claim = 'yes'\nlabels = { size = 1, 'a b' = 'x' }\n\
                force_claim_role = 'nobody'\nstages = []\nvariables = { LOCKKEEPER_X = '1' }\n[sponsors]\n";
    assert_eq!(
        check(text).unwrap_err(),
        [
            "o.toml:6: members.name is required",
            "o.toml:7: members.nmae is not a known key; did you mean `name`?",
            "o.toml:11: pipelines.name must be 1 to 100 characters, without control characters",
            "o.toml:12: pipelines.slug must be 1 to 63 letters, digits, '.', '_' or '-', \
             starting with a letter or digit",
            "o.toml:15: pipelines.environments.deploy_on_claim must be a boolean, got a string",
            "o.toml:16: pipelines.environments.labels.a b is not a valid name: must be 1 to 63 letters, digits, '.', '_' \
             or '-', starting with a letter or digit",
            "o.toml:16: pipelines.environments.labels.size must be a string, got a number",
            "o.toml:17: pipelines.environments.force_claim_role must be one of viewer, developer, maintainer, admin",
            "o.toml:18: pipelines.environments.stages is not a known key; known here: name, description, labels, \
             deploy_on_claim, default_ttl_seconds, max_ttl_seconds, max_hold_seconds, max_queue_length, \
             force_claim_role, on_release, disabled, variables",
            "o.toml:19: pipelines.environments.variables.LOCKKEEPER_X is not a valid name: must be 1 to 63 letters, digits \
             or '_', not starting with a digit or with LOCKKEEPER_, which is reserved",
            "o.toml:20: sponsors is not a known key; known here: organization, members, providers, identities, pipelines",
        ]
    );
}

/// Checks one environment, whose keys begin on line 9.
fn check_environment(keys: &str) -> Result<Configuration, Vec<String>> {
    let text = format!("[[pipelines]]\nid = 'p'\n[[pipelines.environments]]\n{keys}\nname = 'e'\n");
    check(&text).map(|organization| organization.pipelines[0].environments[0].configuration.clone())
}

#[test]
fn numbers_of_an_environment_have_the_bounds_of_the_api() {
    for (key, min, max) in [
        ("max_ttl_seconds", 1, SECONDS_MAX),
        ("max_hold_seconds", 1, SECONDS_MAX),
        ("max_queue_length", 0, QUEUE_LENGTH_MAX),
    ] {
        for allowed in [min, max] {
            check_environment(&format!("{key} = {allowed}")).unwrap();
        }
        for (value, got) in [
            (&*(i64::from(min) - 1).to_string(), &*(i64::from(min) - 1).to_string()),
            (&(i64::from(max) + 1).to_string(), &(i64::from(max) + 1).to_string()),
            ("'60'", "a string"),
            ("1.5", "1.5"),
        ] {
            assert_eq!(
                check_environment(&format!("{key} = {value}")).unwrap_err(),
                [format!("o.toml:9: pipelines.environments.{key} must be an integer from {min} to {max}, got {got}")]
            );
        }
    }
    for wrong in ["0", "31622401"] {
        assert_eq!(
            check_environment(&format!("default_ttl_seconds = {wrong}")).unwrap_err(),
            [format!(
                "o.toml:9: pipelines.environments.default_ttl_seconds must be an integer from 1 to 31622400, \
                 got {wrong}"
            )]
        );
    }
}

#[test]
fn a_default_ttl_is_at_most_the_longest() {
    let configuration = check_environment("default_ttl_seconds = 60\nmax_ttl_seconds = 60").unwrap();
    assert_eq!((configuration.default_ttl_seconds, configuration.max_ttl_seconds), (Some(60), 60));
    for (keys, line, max, ttl) in [
        ("max_ttl_seconds = 60\ndefault_ttl_seconds = 61", 10, 60, 61),
        ("default_ttl_seconds = 86401", 9, 86400, 86401),
    ] {
        assert_eq!(
            check_environment(keys).unwrap_err(),
            [format!(
                "o.toml:{line}: pipelines.environments.default_ttl_seconds must be at most max_ttl_seconds ({max}), \
                 got {ttl}"
            )]
        );
    }
}

#[test]
fn a_longest_ttl_that_is_wrong_is_the_only_fault() {
    assert_eq!(
        check_environment("default_ttl_seconds = 100_000\nmax_ttl_seconds = 0").unwrap_err(),
        ["o.toml:10: pipelines.environments.max_ttl_seconds must be an integer from 1 to 31622400, got 0"]
    );
}

#[test]
fn a_reset_is_a_table_with_a_commit() {
    let written_out = "[pipelines.environments.on_release]\ncommit_id = 'main'\n";
    let text = format!("[[pipelines]]\nid = 'p'\n[[pipelines.environments]]\nname = 'e'\n{written_out}");
    let organization = check(&text).unwrap();
    let inline = check_environment("on_release = { commit_id = 'main' }").unwrap();
    assert_eq!(organization.pipelines[0].environments[0].configuration, inline);
    for (value, expected) in [
        ("'main'", &[" must be a table, got a string"] as &[_]),
        ("{}", &[".commit_id is required"]),
        ("{ commit_id = 1 }", &[".commit_id must be a string, got a number"]),
        (
            "{ commit_id = '-x' }",
            &[".commit_id must be 1 to 128 visible ASCII characters without spaces, not starting with '-'"],
        ),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|told| format!("o.toml:9: pipelines.environments.on_release{told}")).collect();
        assert_eq!(check_environment(&format!("on_release = {value}")).unwrap_err(), expected);
    }
    assert_eq!(
        check_environment("on_release = { commitId = 'main' }").unwrap_err(),
        [
            "o.toml:9: pipelines.environments.on_release.commit_id is required",
            "o.toml:9: pipelines.environments.on_release.commitId is not a known key; did you mean `commit_id`?",
        ]
    );
}

#[test]
fn an_environment_that_nobody_could_get_at_is_refused() {
    assert_eq!(
        check("[[pipelines]]\nid = 'sessions'\n[[pipelines.environments]]\nname = 'sessions'\n").unwrap_err(),
        [
            "o.toml:9: pipelines.environments.name must not be `sessions`, which stands for any environment in the paths \
          of the API"
        ]
    );
}

#[test]
fn what_is_there_twice_is_told_with_the_first() {
    let text = "[[members]]\nname = 'root'\nrole = 'viewer'\n[[pipelines]]\nid = 'p'\n[[pipelines.environments]]\n\
                name = 'e'\n[[pipelines.environments]]\nname = 'e'\n[[pipelines]]\nid = 'p'\n\
                [[pipelines.environments]]\nname = 'e'\n";
    assert_eq!(
        check(text).unwrap_err(),
        [
            "o.toml:7: members.name `root` is used twice; the first is on line 4",
            "o.toml:14: pipelines.environments.name `e` is used twice; the first is on line 12",
            "o.toml:16: pipelines.id `p` is used twice; the first is on line 10",
        ]
    );
}

#[test]
fn an_organization_needs_its_head_and_an_admin() {
    let files = Files::new(&[
        ("headless.toml", "[[members]]\nname = 'root'\nrole = 'admin'\n"),
        ("leaderless.toml", "\n[organization]\nid = 'o'\n[[members]]\nname = 'vic'\nrole = 'viewer'\n"),
        ("flat.toml", "organization = 'o'\nmembers = 'all'\npipelines = ['web']\n"),
    ]);
    let told = |name: &str| files.lines(&check_file(&files.path(name)).unwrap_err());
    assert_eq!(told("headless.toml"), ["headless.toml:1: organization is required"]);
    assert_eq!(told("leaderless.toml"), ["leaderless.toml:4: members must have at least one with role = \"admin\""]);
    assert_eq!(
        told("flat.toml"),
        [
            "flat.toml:1: organization must be a table, got a string",
            "flat.toml:2: members must be an array, got a string",
            "flat.toml:3: pipelines[0] must be a table, got a string",
        ]
    );
}

#[test]
fn there_is_a_bound_to_everything_that_is_listed() {
    type Text<'a> = &'a dyn Fn(usize) -> String;
    let members = |count: usize| (1..count).map(|n| format!("[[members]]\nname = 'm{n}'\nrole = 'viewer'\n")).collect();
    let pipelines = |count: usize| (0..count).map(|n| format!("[[pipelines]]\nid = 'p{n}'\n")).collect();
    let environments = |count: usize| {
        let names: String = (0..count).map(|n| format!("{{name='e{n}'}},")).collect();
        format!("[[pipelines]]\nid = 'p'\nenvironments = [{names}]\n")
    };
    let entries = |key: &str, count: usize| {
        let entries: String = (0..count).map(|n| format!("{key}.K{n} = 'v'\n")).collect();
        format!("[[pipelines]]\nid = 'p'\n[[pipelines.environments]]\nname = 'e'\n{entries}")
    };
    let bounds: [(&str, usize, Text); 5] = [
        ("members must have at most 1000 entries, got 1001", 1_000, &members),
        ("pipelines must have at most 1000 entries, got 1001", 1_000, &pipelines),
        ("environments must have at most 100000 entries, got 100001", 100_000, &environments),
        ("labels must have at most 32 entries, got 33", LABELS_MAX, &|count| entries("labels", count)),
        ("variables must have at most 64 entries, got 65", VARIABLES_MAX, &|count| entries("variables", count)),
    ];
    for (expected, max, text) in bounds {
        assert!(check(&text(max)).is_ok(), "{expected}");
        let told = check(&text(max + 1)).unwrap_err();
        assert!(told.len() == 1 && told[0].ends_with(expected), "{told:?}");
    }
}

#[test]
fn the_texts_of_an_environment_are_bounded_together() {
    let value = "x".repeat(4096);
    let variables: Vec<_> = (0..17).map(|number| format!("V{number} = '{value}'")).collect();
    let text = format!(
        "[[pipelines]]\nid = 'p'\n[[pipelines.environments]]\nname = 'e'\nvariables = {{ {} }}\n",
        variables.join(", ")
    );
    let lines = check(&text).unwrap_err();
    assert!(lines.len() == 1 && lines[0].contains("at most 65536 bytes"), "{lines:?}");
}

#[test]
fn organizations_are_found_from_the_file_that_names_them_and_from_the_working_directory() {
    let other = HEAD.replace("id = 'o'", "id = 'p'");
    let files =
        Files::new(&[("lk.toml", "organizations = ['orgs/o.toml']"), ("orgs/o.toml", HEAD), ("p.toml", &other)]);
    let ids = |variables: &[(&str, &str)]| {
        let settings = files.load(variables).unwrap();
        assert!(!settings.sample);
        settings.organizations.iter().map(|organization| organization.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["o"]);
    let both = format!("{}:{}:", files.path("p.toml").display(), files.path("orgs/o.toml").display());
    assert_eq!(ids(&[("LOCKKEEPER_ORGANIZATIONS", &both)]), ["p", "o"]);
    assert!(files.load(&[("LOCKKEEPER_ORGANIZATIONS", "")]).unwrap().sample);
}

#[test]
fn two_files_cannot_declare_the_same_organization() {
    let files = Files::new(&[("lk.toml", "organizations = ['a.toml', 'b.toml']"), ("a.toml", HEAD), ("b.toml", HEAD)]);
    let expected = ["b.toml:2: organization.id `o` is taken: a.toml:2 has it"];
    assert_eq!(files.load(&[]).unwrap_err(), expected);
    let checked = check_file(&files.path("lk.toml")).unwrap_err();
    assert_eq!(files.lines(&checked), expected);
}

#[test]
fn a_check_sums_up_what_it_found() {
    let files =
        Files::new(&[("lk.toml", "organizations = ['acme.toml']"), ("plain.toml", ""), ("acme.toml", SAMPLE_TOML)]);
    let summary = |name: &str| {
        let text = check_file(&files.path(name)).unwrap().to_string();
        text.replace(&format!("{}/", files.path("").display()).replace("//", "/"), "")
    };
    let acme = "acme.toml: organization acme, 5 members, 2 pipelines, 5 environments";
    assert_eq!(summary("acme.toml"), acme);
    assert_eq!(summary("lk.toml"), format!("lk.toml: settings, 1 organization\n{acme}"));
    assert_eq!(
        summary("plain.toml"),
        "plain.toml: settings, no organization files, so the sample organization is served"
    );
    let gone = lines(&check_file(&files.path("gone.toml")).unwrap_err());
    assert!(gone[0].ends_with("gone.toml: cannot read it: the file does not exist"), "{gone:?}");
}
