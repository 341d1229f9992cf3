//! What CIs and hosts of repositories say themselves: lost runners, time limits, permissions of the job's token, rules.

super::signature::signatures! {
    PermissionDenied 95
        hints "resource not accessible by"
        pattern r"Resource not accessible by (?P<who>integration|personal access token)"
        cause "the token of the job may not do this (it is that of an {who})"
        fix "give the job's token the permission (`permissions:` of the workflow, for instance `contents: write` or `pull-requests: write`); jobs of forks never get more than reading"
        like "HttpError: Resource not accessible by integration",
            "GraphQL: Resource not accessible by personal access token (addComment)";
    PermissionDenied 94
        hints "refusing to allow", "write_package", "installation not allowed", "id_token_request", "id-token",
            "must have push access", "must have admin rights", "saml enforcement", "saml sso"
        pattern r"refusing to allow an? .{1,40} to create or update workflow|permission_denied: \w+|installation not allowed to|ACTIONS_ID_TOKEN_REQUEST_(?:URL|TOKEN)|must have (?:push|write|admin) (?:access|rights)|SAML (?:enforcement|SSO)"
        cause "the token of the job lacks a permission or scope"
        fix "give the token the permission that the line names (in GitHub under `permissions:` of the workflow), or use one that has it"
        like "denied: permission_denied: write_package",
            "! [remote rejected] main -> main (refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission)",
            "Error: Unable to get ACTIONS_ID_TOKEN_REQUEST_URL env variable";
    PermissionDenied 93
        hints "protected branch", "rule violations", "gh006", "gh013", "hook declined", "push rules", "remote rejected"
        pattern r"protected branch hook declined|GH006|GH013|repository rule violations|not allowed to (?:force )?push code to protected|(?:commit|branch|tag).{0,40}does not follow the pattern|! \[remote rejected\] +(?P<what>\S+ -> \S+) \((?:protected branch|push declined|permission)[^)]*\)|denying non-fast-forward|prohibited by Gerrit"
        cause "the repository does not allow this push: {what|its branch is protected, or a rule of the repository forbids it}"
        fix "push to a branch of its own and open a pull request; a bot that must push there needs an exception in the repository's rules"
        like "remote: error: GH006: Protected branch update failed for refs/heads/main.",
            "remote: GitLab: You are not allowed to push code to protected branches on this project.";
    PermissionDenied 76
        hints "hook declined"
        pattern r"! \[remote rejected\] +(?P<what>\S+ -> \S+) \((?:pre-receive |update )?hook declined\)"
        cause "a hook of the repository refused this push: {what}"
        fix "read what the hook says in the lines that begin with `remote:`"
        like " ! [remote rejected] main -> main (pre-receive hook declined)";
    Killed 92
        of Java
        hints "daemon disappeared", "daemon has disappeared", "forked vm terminated", "process crashed", "the forked vm",
            "test process encountered an unexpected problem", "finished with non-zero exit value 137"
        pattern r"build daemon disappeared unexpectedly|daemon has disappeared|(?:The )?forked VM terminated without (?:properly )?saying|finished with non-zero exit value 137"
        cause "the JVM of the build disappeared: it was killed (most often because memory ran out) or crashed"
        fix "give the machine more memory or the JVM less (`org.gradle.jvmargs`, `argLine`), run fewer workers at once, and look for `hs_err_pid` files"
        like "Gradle build daemon disappeared unexpectedly (it may have been killed or may have crashed)",
            "[ERROR] The forked VM terminated without properly saying goodbye. VM crash or System.exit called?";
    OutOfMemory 94
        of Java
        hints "garbage collector is thrashing", "running out of jvm memory", "running out of jvm metaspace", "jvm heap space is exhausted",
            "insufficient memory for the java runtime", "could not reserve enough space", "jvm metaspace is exhausted",
            "gc overhead limit"
        pattern r"garbage collector is thrashing|after running out of JVM (?:memory|metaspace|heap)|JVM (?:heap space|metaspace) is exhausted|insufficient memory for the Java Runtime|Could not reserve enough space|GC overhead limit exceeded"
        cause "the JVM of the build ran out of memory"
        fix "raise its heap (`org.gradle.jvmargs=-Xmx…` in gradle.properties, `MAVEN_OPTS`) if the machine has that much, or let fewer workers run at once"
        like "The Daemon will expire immediately since the JVM garbage collector is thrashing.",
            "Daemon will be stopped at the end of the build after running out of JVM memory",
            "java.lang.OutOfMemoryError: GC overhead limit exceeded";
    Timeout 95
        hints "execution took longer than", "too long with no output", "no output has been received", "ran longer than the maximum",
            "exceeded build time limit", "exceeded the maximum execution time", "cancelling nested steps due to timeout",
            "has timed out after", "build timed out", "timeout has been exceeded", "the job exceeded the maximum",
            "build execution time has reached"
        pattern r"execution took longer than (?P<limit>[\w. ]+?)(?: seconds)?\s*$|Too long with no output|No output has been received|ran longer than the maximum|Exceeded build time limit|exceeded the maximum (?:execution )?time|Cancelling nested steps due to timeout|action '.*' has timed out after|Build timed out|Timeout has been exceeded|execution time has reached the maximum"
        cause "it did not end within its time limit ({limit|see the line})"
        fix "check what it was doing when the time was up (a prompt, a server that never ends, a test that hangs); raise the limit only if it really needs longer"
        like "ERROR: Job failed: execution took longer than 1h0m0s seconds",
            "Too long with no output (exceeded 10m0s): context deadline exceeded",
            "##[error]The action 'Run e2e' has timed out after 30 minutes.";
    Timeout 80
        hints "max attempts exceeded"
        pattern r"Waiter \w+ failed: Max attempts exceeded"
        cause "it waited for a state that was not reached in time"
        fix "check the events and the log of what it waited for; raise the limit only if it really needs longer"
        like "Waiter ServicesStable failed: Max attempts exceeded";
    Cancelled 88
        hints "operation was canceled", "build was aborted", "aborted by", "pipeline was canceled", "cancelled by user", "run was canceled",
            "higher priority waiting request", "job was cancelled", "job was canceled"
        pattern r"The operation was canceled|^(?:Build was aborted|Aborted by \S+)|Cancell?ed by user|[Cc]ancel(?:l)?ing since a higher priority waiting request|(?:job|pipeline|run|build|workflow) was cancell?ed"
        cause "it was cancelled from outside: by a person, by a newer run, or because another job failed"
        fix "nothing is broken here: look at the job that failed first, or run it again"
        like "##[error]The operation was canceled.",
            "Canceling since a higher priority waiting request for 'deploy-main' exists";
    Syntax 92
        hints "invalid workflow file", "workflow is not valid", "unrecognized named-value", "yaml invalid", "config contains unknown keys",
            "unable to parse config", "config file is invalid", "workflowscript", "script_returned_exit", "multiplecompilationerrors"
        pattern r"Invalid workflow file|workflow is not valid|Unrecognized named-value|yaml invalid|config contains unknown keys|MultipleCompilationErrorsException|WorkflowScript: \d+:"
        cause "the file that describes the jobs is not valid"
        fix "fix it at the given line; the linter of the CI checks it before a push"
        like "The workflow is not valid. .github/workflows/ci.yml (Line: 12, Col: 9): Unrecognized named-value: 'secret'",
            "WorkflowScript: 14: Expected a step @ line 14, column 13.";
    MissingFile 90
        hints "unable to download artifact", "artifact not found", "can't find 'action.yml'", "no artifacts found", "unable to find any artifacts",
            "no files were found with the provided path"
        pattern r"Unable to (?:download artifact|find any artifacts)|Artifact not found for name: (?P<name>\S+)|Can't find 'action\.yml'|No artifacts? (?:found|matched)|^(?:Error: )?No files were found with the provided path: (?P<path>[^\r\n.]+)"
        cause "an artifact or a file that an earlier job should have made does not exist: {name/path|see the line}"
        fix "check that the earlier job uploads it under that name, and that this job waits for it"
        like "Error: Unable to download artifact(s): Artifact not found for name: dist";
    Lint 91
        hints "quality gate status: failed", "quality gate failed", "hook id:", "files were modified by this hook", "uncommitted changes",
            "working tree is dirty", "is out of date, please", "oh no!", "incorrectly sorted", "are out of date"
        pattern r"QUALITY GATE STATUS: FAILED|Quality Gate failed|files were modified by this hook|(?:generated|checked.in)\b.{0,60}\b(?:out of date|outdated|stale|differ)|^Oh no! |Imports are incorrectly sorted|[Ww]orking (?:tree|directory) is dirty"
        cause "a check of the code found something to change"
        fix "run the same check or generator on your machine (`pre-commit run --all-files`), and commit what it changes"
        like "- files were modified by this hook",
            "ERROR: QUALITY GATE STATUS: FAILED - View details on https://sonar.example.com/dashboard?id=web",
            "error: generated files are out of date, run `make generate`";
    Lint 78
        hints "failed"
        pattern r"^(?P<check>[\w .()'/-]{3,60}?)\.{4,}Failed\s*$"
        cause "the check `{check}` fails"
        fix "run it on your machine (`pre-commit run --all-files`), and fix or commit what it reports"
        like "trim trailing whitespace.................................................Failed";
}
