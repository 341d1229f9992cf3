//! Lines that mention failures without being one: warnings, retries, counts of zero, passed tests, echoes of commands.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// The credibility of a line that matches, from 0 to 1; with several matches, the product. Log levels count only at the
/// beginning of a line: quoted text further on has its own.
const RULES: &[(&str, f64)] = &[
    // `set -x` and package managers print the commands they are about to run.
    (r"^\++ ", 0.02),
    (r"^\s*(?:\$ \S|(?-i:> [a-z@./]))", 0.3),
    (r"^#\d+ \[[^\]]+\] (?:RUN|COPY|ADD|FROM)\b", 0.1),
    // Log levels. A cluster's warning is often the reason.
    (r"^.{0,48}?(?:\bwarn(?:ing)?\b|\[w\]|\blevel=warn)", 0.4),
    (r"^.{0,40}?(?:\b(?:info|debug|trace|notice)\b|\blevel=(?:info|debug))", 0.4),
    (r"^[WI]\d{4} \d\d:\d\d:\d\d\.\d+ ", 0.4),
    (r"configuration file \S+ test (?:failed|is successful)", 0.1),
    // Nothing is wrong.
    (
        r"\b(?:0|no|without(?: any)?) (?:\w+ )?(?:errors?|failures?|failed|problems?|issues?|conflicts?|vulnerabilities)\b",
        0.1,
    ),
    (
        r"\b(?:errors?|failures?|failed)[:=] ?0\b.*\b(?:errors?|failures?|failed)[:=] ?0\b|\x22errors?\x22: ?(?:null|\[\]|0|false|\x22\x22)",
        0.1,
    ),
    (r"^\s*(?:(?:ok|PASS(?:ED)?|\[PASS\]|\[ok\])\b|✓|✔|√|☑)|\.{3} ok\s*$|\bPASSED\s*$", 0.02),
    // The program continues.
    (
        r"\bretry(?:ing|ied)?\b|\bwill (?:be )?re(?:try|tried)|\btrying (?:again|the next|another|other)\b|\bback(?:ing)? ?off\b.{0,20}\d|\bre-?attempt|\bstill waiting\b|\bnot ready yet\b|\battempt \d+(?: of |/)\d+",
        0.45,
    ),
    (
        r"\(ignored\)|\bare (?:off|disabled)\b|, (?:using|skip|will use|disabl|defaulting)|\busing (?:the )?defaults?\b|\bstarting cold\b|, waiting\b|\bignor(?:ed|ing)\b|\bnon-?fatal\b|[,;] continuing\b|^continuing\b|continuing (?:anyway|without)|\bcarrying on\b|\bfall(?:ing|s)? back\b|\bskipp(?:ed|ing)\b|\boptional\b|\bexpected (?:error|failure)|\bas expected\b|\bhandled\b|\bsimulat|\bassuming\b|\bdeprecat",
        0.35,
    ),
    // `sudo` prints this on machines that cannot resolve their own name, and continues.
    (r"^sudo: unable to resolve host", 0.1),
    (HARMLESS, 0.02),
    // Locations instead of reasons, and quoted code.
    (
        r"^[>\s]*(?:def|class|return|raise|throw|if|for|while|const|let|var|try|except|catch|func|fn|public|private|async|await)\b.*[(:;{=]|^[>\s]*(?:import .* from |from \S+ import )",
        0.3,
    ),
    (r"^\s*at \S+.*[:(]|^\s+File \x22|^\s*\d+ +\||^\s*from \S+:\d+:in ", 0.3),
    (r"^(?:hint|note|help|remote: hint|tip):", 0.4),
    // Texts by people: the subject of a commit, the title of a pull request.
    (
        r"\bHEAD is now at\b|^\[[\w./-]+ [0-9a-f]{7,}\]|\bPR #?\d+\b|^(?:Merge|commit|Author:|Subject:) |\b(?:fix|feat|chore|docs|refactor)(?:\([^)]*\))?!?: ",
        0.2,
    ),
    // Names that happen to contain such words: a download, a compiled or copied file.
    (
        r"^\s*(?:Downloading|Downloaded|Compiling|Installing|Fetching|Unpacking|Copying|Adding|creating|inflating|Building|Running|Auto-merging)\b",
        0.3,
    ),
];

/// Complaints of installs, checkouts and caches that nearly every log of a container has, whether it fails or not.
const HARMLESS: &str = concat!(
    r"^(?:debconf: |invoke-rc\.d: |update-alternatives: |dpkg-preconfigure: |locale: Cannot set |(?:perl|bash): warning: (?:setlocale|setting locale)|perl: warning: )",
    r"|apt-utils is not installed|policy-rc\.d|apt does not have a stable CLI|running pip as the 'root' user|new release of pip|pip version \S+ is available",
    r"|^\s*\d+ (?:(?:low|moderate|high|critical)\b.{0,60} )?(?:severity )?vulnerabilit(?:y|ies)(?: \(.*\))?\s*$|^\s*found \d+ vulnerabilit\w+ in \d+ scanned|npm audit fix|npm audit. for details|npm fund",
    r"|^npm (?:warn|notice)\b|packages? (?:is|are) looking for funding|requires a peer of \S+ but none is installed",
    r"|cache (?:not found|miss)\b|no cache (?:found|is found)|failed to (?:restore|save).{0,20}\bcache\b|no URL provided, cache will not|cache will not be saved|unable to (?:restore|find) cache",
    r"|advice\.detachedHead|you are in 'detached HEAD' state|default name for the (?:new|initial) branch|init\.defaultBranch",
    r"|no files (?:were )?found with the provided path|kubernetes configuration file is (?:group|world)-readable|illegal reflective access|SLF4J: |sun\.misc\.Unsafe|System::setSecurityManager",
    r"|the input device is not a TTY|mesg: ttyname failed|variable is not set\. Defaulting to a blank string|attribute .?version.? is obsolete|browserslist: caniuse-lite is outdated|caniuse-lite is outdated",
    r"|no previously-included files|setup\.py install is deprecated|legacy-(?:build|install)|without a tty|TERM environment variable not set"
);

/// Lines that a CI, a wrapper or a cleanup writes around any step: how it ended, and never why.
const ROUTINE: &str = concat!(
    r"^\s*(?:\[Pipeline\]|\[WS-CLEANUP\]|Finished: |section_(?:start|end):|travis_(?:fold|time):|##\[(?:end)?group\]|~~~ |\^\^\^ \+\+\+|-{3,}\s*$|={3,}\s*$|\*{3,}\s*$|[\W_]*$)",
    r"|^\W*(?:ERROR: |Error: |error: )?(?:script returned exit code|Job failed|Build step .* marked build as failure|The command exited with status|The command \x22.*\x22 exited with|Process completed with exit code|(?:Bash|PowerShell) exited with code|Exited with code exit status|CircleCI received exit code|user command error: exit status|Command failed with exit code|Command failed with exit status|job failed with|process exited with|exit(?:ed with)?(?: code| status)?:? \d+\s*$|exit status \d+\s*$)",
    r"|^(?:Post job cleanup|Cleaning up |Cleaned up |Finishing: |Finalize Job|Terminate orphan process|Uploading artifacts|Running (?:after_script|global pre-exit hook|global post)|Saving cache|Stopping (?:containers|services)|Aborting on container exit|Gracefully stopping|Job (?:succeeded|completed)|Done\. Your build exited|Deleting project workspace|Executing \x22\w+\x22 stage|Evaluating |shell: |git version )",
    r"|^\[command\]|^\s*Container \S+ +(?:Stopp\w+|Remov\w+|Creat\w+|Start\w+)|^\S+ exited with code \d+\s*$|^g?make(?:\[\d+\])?: \*\*\* \[[^\]]*\] Error \d+|^g?make(?:\[\d+\])?: (?:Leaving|Entering|\*\*\* Waiting)|^==> .*(?:failed|cleaning)|\$ rm -rf |hooks/pre-exit|^info Visit http|^npm (?:ERR!|error) (?:A complete log|    )|A complete log of this run|^Note: (?:Some|Recompile)",
    r"|^(?:Run with|> Run with|> Get more help|\* Try:|\* Get more help|\* Exception is:)|full (?:log|error) can be found|^BUILD FAILED|^\[ERROR\] (?:\[Help|Re-run Maven|To see the full|For more information|After correcting|\s*$)|see the report at"
);

/// The end of retrying: then the line is the reason after all.
const GIVES_UP: &str = r"giv(?:ing|en?) up|gave up|no more retries|retries (?:exhausted|exceeded)|max(?:imum)? (?:number of )?(?:retries|attempts)|out of (?:retries|attempts)|after \d+ (?:attempts|retries|tries)|attempt (?:3/3|5/5|10/10)|Retry\(total=0";
/// Events and states of a cluster, where `Warning` and `Back-off` belong to the report.
const OF_A_CLUSTER: &str = r"^\s*(?:\S+ +)?Warning {2,}|^\s*\S+\s+Warning\s+\w+\s+\S+/|^\s*> .*(?:Exception|Error)\b|^Warning\s+\w+\s|Back-off (?:pulling|restarting)|[A-Za-z]+BackOff\b";

struct Rules {
    set: RegexSet,
    gives_up: usize,
    of_a_cluster: usize,
}

static COMPILED: LazyLock<Rules> = LazyLock::new(|| {
    let patterns = RULES.iter().map(|(pattern, _)| *pattern).chain([GIVES_UP, OF_A_CLUSTER]);
    let set = RegexSetBuilder::new(patterns).unicode(false).case_insensitive(true).build();
    let set = set.expect("the patterns are constants, which a test compiles");
    Rules { set, gives_up: RULES.len(), of_a_cluster: RULES.len() + 1 }
});

/// From 0 (meaningless) to 1 (the line means what it says).
pub(super) fn credibility(line: &str) -> f64 {
    let found = COMPILED.set.matches(line.as_bytes());
    if found.matched(COMPILED.gives_up) || found.matched(COMPILED.of_a_cluster) {
        return 1.0;
    }
    found.iter().filter_map(|index| RULES.get(index)).map(|(_, share)| share).product()
}

/// Whether the line says that there will be no further attempt.
pub(super) fn gives_up(line: &str) -> bool {
    GIVEN_UP.is_match(line.as_bytes())
}

static GIVEN_UP: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = RegexBuilder::new(GIVES_UP).unicode(false).case_insensitive(true).build();
    pattern.expect("the pattern is a constant, which a test compiles")
});

/// Commands that are run after a failure: to clean up, and to show more of it.
const AFTERWARDS: &str = r"^(?:rm|echo|printf|exit|return|cat|tail|head|kill|pkill|trap|true|false|test|\[+|umount|wait|sleep|cleanup|popd|cd|ls|df|free|dmesg|journalctl|unset|local|export|set|sync|read|(?:\S+ )?docker(?:[ -]compose)?(?: \S+)* (?:down|stop|rm|logs|ps|kill|prune|inspect)|kubectl(?: \S+)* (?:logs|describe|get|delete)|helm(?: \S+)* (?:uninstall|rollback|history|status)|systemctl(?: \S+)* (?:status|stop)|terraform (?:destroy|force-unlock)|git (?:status|diff|clean|version|config|log)|curl .*(?:slack|hooks|notify)|\w+=\S*$|\S*(?:cleanup|notify|report|upload|teardown|pre-exit|post-|debug|dump)\S*)(?:\s|;|$)";

/// Whether a command belongs to the time after a failure.
pub(super) fn comes_after_a_failure(command: &str) -> bool {
    AFTER.is_match(command.as_bytes())
}

static AFTER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = RegexBuilder::new(AFTERWARDS).unicode(false).build();
    pattern.expect("the pattern is a constant, which a test compiles")
});

/// Whether the line is the dress of a log: written around any step by a CI or a wrapper, or a complaint without effect.
pub(super) fn is_routine(line: &str) -> bool {
    DRESS.is_match(line.as_bytes())
}

static DRESS: LazyLock<RegexSet> = LazyLock::new(|| {
    let set = RegexSetBuilder::new([ROUTINE, HARMLESS]).unicode(false).case_insensitive(true).build();
    set.expect("the patterns are constants, which a test compiles")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_failure_have_little_credibility() {
        for line in [
            "+ grep -q 'connection refused' out.log",
            "WARN db: connection refused",
            "##[warning]The process '/usr/bin/git' failed with exit code 128",
            "12:00 [INFO] last error: connection refused",
            "redis: connection refused, retrying in 2s",
            "finished with 0 errors",
            "✓ answers 401 without a token",
            "test connection_refused_is_reported ... ok",
            "rm: cannot remove 'x': No such file or directory (ignored)",
            "mirror 1: timed out, trying the next one",
            "HEAD is now at 9be17d0 fix: no crash when the disk is full",
        ] {
            assert!(credibility(line) <= 0.45, "{line}: {}", credibility(line));
        }
    }

    #[test]
    fn failures_are_credible() {
        for line in [
            "psql: error: connection refused",
            "connection refused after 5 attempts, giving up",
            "  Warning  Failed   4s   kubelet  Error: ImagePullBackOff",
            "ERROR in ./src/retryPolicy.ts",
        ] {
            assert!(credibility(line) > 0.9, "{line}: {}", credibility(line));
        }
    }
}
