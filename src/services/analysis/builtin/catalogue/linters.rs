//! Linters, formatters, spell checkers and policy checks beyond the usual ones of each language.

super::signature::signatures! {
    Lint 90
        hints "(check: ", "| p:", "unknown word (", "issues found: ", "failed for resource", "failed checks: ", "not compliant with version",
            "minimum: ", "total: ", "mistakes found"
        pattern r"on line \d+ \(check: \w+\)|^L: +\d+ \| P: +\d+ \| +\w+ \||Unknown word \(\S+\)|CSpell: .*Issues found: [1-9]|^\s+FAILED for resource: |Failed checks: [1-9]|is not compliant with version \S+ of the REUSE|RESULT: FAILED \(minimum: |^Total: [1-9]\d* warnings? / \d+ errors?|^total: [1-9]\d* errors?, \d+ warnings?, \d+ lines checked"
        cause "a linter or a policy check refused the sources: see the lines around"
        fix "fix what the lines list, or add an exception to the configuration of the check"
        like "ERROR: tab character found on line 2 (check: hard_tabs)",
            "L:   1 | P:  10 | CP01 | Keywords must be consistently upper case.",
            "d.md:1:10 - Unknown word (recieve) fix: (receive)",
            "	FAILED for resource: DaemonSet.logging.log-agent",
            "total: 1 errors, 3 warnings, 41 lines checked";
    Lint 86
        hints "unused ", "accessing ", "setting ", "line is too long", "trailing whitespace", "line contains", "undefined variable", "missing docstring",
            "shadowing ", "inconsistent indentation", "whitespace", "% confidence)"
        pattern r"^\s*[\w./-]+\.\w{1,6}:\d+:(?:\d+:)?\s+(?:\(?[A-Z]\d+\)? )?(?:unused (?:variable|argument|function|import|loop|class|method|attribute)|accessing undefined|accessing uninitialized|setting (?:non-standard|undefined|read-only)|line is too long|trailing whitespace|line contains (?:only )?(?:trailing )?whitespace|shadowing |inconsistent indentation|value assigned to .{1,60} is (?:unused|overwritten))|\(\d+% confidence\)"
        cause "a linter found problems in the sources: see the line"
        fix "fix what the lines list"
        like "    m.lua:2:8: accessing undefined variable 'foo'",
            "shop/cart.py:14: unused function 'total' (60% confidence)";
    Lint 84
        hints "possible bashism in", "perhaps:", "severity: ", "[whitespace/", "[build/", "[readability/", "[runtime/", "[legal/", "wrong indent",
            "final newline expected", "[style]", "should be `", " ==> ", "violation", "offenses", "issues found.", "body-leading", "title exceeds",
            "title has trailing", "mixed spaces and tabs", "is not gofmt"
        pattern r"^possible bashism in |^Perhaps:\s*$|\[(?:whitespace|build|readability|runtime|legal)/\w+\] +\[\d\]|Wrong indent(?:ation| style)|Final newline expected|^error: `[^`]+` should be `|^\S+:\d+: \w+ ==> \w+|^\d+: [A-Z]+\d+ (?:Title|Body|Line) |^\d+ issues? found\.(?:\s|$)|File is not `?gofmt|[1-9]\d* (?:style|code style|checkstyle|PMD|lint|policy|detekt|ktlint|formatting) (?:violations?|issues?|errors?|problems?)"
        cause "a linter or a spell checker found problems: see the line"
        fix "fix what the lines list, or add an exception to the configuration of the check"
        like "possible bashism in deploy.sh line 3 (alternative test command ([[ foo ]] should be [ foo ])):",
            "src/cart.cc:14:  Missing space after ,  [whitespace/comma] [3]",
            "error: `recieve` should be `receive`",
            "docs/intro.md:14: teh ==> the",
            "1: T1 Title exceeds max length (91>72): \"add a page\"";
    Lint 84
        hints "not formatted", "unformatted", "would be reformatted", "formatting check failed", "differs from", "is not well formatted", "run the formatter",
            "format check", "wrongly formatted", "formatting issues", "formatting differences", "unformatted files", "fmt --check", "fmt -check", "needs to be formatted", "need to be formatted"
        pattern r"^\S+ (?:is|was) not (?:well |properly |correctly )?formatted|unformatted (?:files?|code)|[Ff]ormat(?:ting)? check failed|(?:files?|sources?|code) (?:with|has|have|contain\w*) (?:formatting|style) (?:issues?|differences|errors?|violations?)|(?:need|needs) to be (?:re)?formatted|would be (?:re)?formatted|is wrongly formatted"
        cause "files are not formatted as the check wants them"
        fix "run the formatter on your machine and commit the result"
        like "lib/cart.dart is not formatted correctly",
            "3 files need to be formatted";
    Lint 84
        of Scanner, Kubernetes, Infrastructure, Linter
        hints "policy", "policies", "fail - ", "deny", "violation", "constraint"
        pattern r"^FAIL - \S+ - |[1-9]\d* (?:tests?|policies|rules?|resources?), .{0,40}[1-9]\d* (?:failures?|failed|violations?)|(?:policy|policies|rule|constraint)s? .{0,80}\b(?:violat\w+|failed|not satisfied|not met)\b|polic(?:y|ies) (?:check|validation) failed|admission webhook .{0,80} denied the request"
        cause "a policy refuses what is described: see the line"
        fix "change it as the policy wants, or ask for an exception"
        like "FAIL - deployment.yaml - main - Containers must not run as root";
    Lint 83
        hints "coverage", "quality gate", "gate: "
        pattern r"\bcoverage\b.{0,60}\b(?:below|less than|under|does not meet|not met|lower than|is too low|fail-under|threshold not)\b|(?:fail-under|minimum coverage|coverage threshold)\b.{0,60}\b(?:not|fail\w*)|quality gate (?:\w+ )?(?:failed|error|not passed)|^\s*(?:ERROR|FAILED) +new_\w+ |^gate: (?:ERROR|FAILED)"
        cause "the coverage or another measure of quality is below its threshold"
        fix "add tests for the new code, or fix what the gate counts"
        like "FAIL Required test coverage: coverage of 71% is below the minimum of 80%",
            "ERROR: Coverage for lines (71.2%) does not meet global threshold (80%)",
            "  ERROR new_coverage               actual=0.0  threshold=80";
}
