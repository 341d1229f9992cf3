//! The reason for a claim, from the variables of the CI: shown to others while the environment is taken.

/// The server's limit.
const CONTEXT_MAX: usize = 1_024;

/// The reason, like `PR 412 by ana: https://…`, as far as the CI provides the parts; None outside a CI.
pub fn of_ci(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let get = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let job = github(&get).or_else(|| gitlab(&get)).or_else(|| jenkins(&get));
    let job = job.or_else(|| buildkite(&get)).or_else(|| circleci(&get))?;
    let what = [job.change, job.author.map(|author| format!("by {author}"))];
    let what = what.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let words =
        [Some(what).filter(|what| !what.is_empty()), job.url].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let harmless = words.chars().map(|character| if character.is_control() { ' ' } else { character });
    Some(harmless.take(CONTEXT_MAX).collect::<String>()).filter(|words| !words.is_empty())
}

#[derive(Default)]
struct Job {
    /// The change, like `PR 412`.
    change: Option<String>,
    author: Option<String>,
    url: Option<String>,
}

type Get<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn github(get: &Get) -> Option<Job> {
    get("GITHUB_ACTIONS")?;
    let reference = get("GITHUB_REF").unwrap_or_default();
    let number = reference.strip_prefix("refs/pull/").and_then(|rest| rest.split('/').next());
    let branch = || get("GITHUB_REF_NAME");
    let run = get("GITHUB_SERVER_URL").zip(get("GITHUB_REPOSITORY")).zip(get("GITHUB_RUN_ID"));
    Some(Job {
        change: number.map(|number| format!("PR {number}")).or_else(branch),
        author: get("GITHUB_ACTOR"),
        url: run.map(|((server, repository), run)| format!("{server}/{repository}/actions/runs/{run}")),
    })
}

fn gitlab(get: &Get) -> Option<Job> {
    get("GITLAB_CI")?;
    let number = get("CI_MERGE_REQUEST_IID").map(|number| format!("MR {number}"));
    Some(Job {
        change: number.or_else(|| get("CI_COMMIT_REF_NAME")),
        author: get("GITLAB_USER_LOGIN"),
        url: get("CI_JOB_URL"),
    })
}

fn jenkins(get: &Get) -> Option<Job> {
    get("JENKINS_URL")?;
    let number = get("CHANGE_ID").map(|number| format!("PR {number}"));
    Some(Job { change: number.or_else(|| get("BRANCH_NAME")), author: get("CHANGE_AUTHOR"), url: get("BUILD_URL") })
}

fn buildkite(get: &Get) -> Option<Job> {
    get("BUILDKITE")?;
    let number = get("BUILDKITE_PULL_REQUEST").filter(|number| number != "false").map(|number| format!("PR {number}"));
    let url = get("BUILDKITE_BUILD_URL").map(|url| match get("BUILDKITE_JOB_ID") {
        Some(job) => format!("{url}#{job}"),
        None => url,
    });
    Some(Job { change: number.or_else(|| get("BUILDKITE_BRANCH")), author: get("BUILDKITE_BUILD_CREATOR"), url })
}

fn circleci(get: &Get) -> Option<Job> {
    get("CIRCLECI")?;
    let number = get("CIRCLE_PULL_REQUEST").and_then(|url| url.rsplit('/').next().map(|number| format!("PR {number}")));
    Some(Job {
        change: number.or_else(|| get("CIRCLE_BRANCH")),
        author: get("CIRCLE_USERNAME"),
        url: get("CIRCLE_BUILD_URL"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(variables: &[(&str, &str)]) -> Option<String> {
        of_ci(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn every_ci_names_its_job_its_change_and_its_author() {
        let github = [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_REF", "refs/pull/412/merge"),
            ("GITHUB_ACTOR", "ana"),
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_REPOSITORY", "acme/web"),
            ("GITHUB_RUN_ID", "77"),
        ];
        assert_eq!(context(&github).as_deref(), Some("PR 412 by ana: https://github.example/acme/web/actions/runs/77"));
        let gitlab = [
            ("GITLAB_CI", "true"),
            ("CI_MERGE_REQUEST_IID", "9"),
            ("GITLAB_USER_LOGIN", "ben"),
            ("CI_JOB_URL", "https://g.example/1"),
        ];
        assert_eq!(context(&gitlab).as_deref(), Some("MR 9 by ben: https://g.example/1"));
        let jenkins = [("JENKINS_URL", "x"), ("BRANCH_NAME", "main"), ("BUILD_URL", "https://j.example/2")];
        assert_eq!(context(&jenkins).as_deref(), Some("main: https://j.example/2"));
        let buildkite = [
            ("BUILDKITE", "true"),
            ("BUILDKITE_PULL_REQUEST", "false"),
            ("BUILDKITE_BUILD_URL", "u"),
            ("BUILDKITE_JOB_ID", "j"),
        ];
        assert_eq!(context(&buildkite).as_deref(), Some("u#j"));
        let circleci = [
            ("CIRCLECI", "true"),
            ("CIRCLE_PULL_REQUEST", "https://h.example/acme/web/pull/5"),
            ("CIRCLE_USERNAME", "eve"),
        ];
        assert_eq!(context(&circleci).as_deref(), Some("PR 5 by eve"));
    }

    #[test]
    fn there_is_none_outside_of_a_ci_and_never_one_that_the_server_refuses() {
        assert_eq!(context(&[]), None);
        assert_eq!(context(&[("GITLAB_CI", "true")]), None);
        let long = "ü".repeat(5_000);
        let words = context(&[("GITLAB_CI", "true"), ("CI_JOB_URL", &format!("a\u{1b}\n{long}"))]).unwrap_or_default();
        assert_eq!(words.chars().count(), 1_024);
        assert!(words.starts_with("a  ü"), "{words}");
    }
}
