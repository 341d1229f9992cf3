//! Scanners: known vulnerabilities in packages and images, secrets in the code.

super::signature::signatures! {
    Vulnerability 93
        hints "npm audit report", "packages audited", "vulnerabilities found", "vulnerability found", "severity:"
        pattern r"^# npm audit report|[1-9]\d* vulnerabilit(?:y|ies) found(?: - Packages audited|!|\s*$)|^\s*Severity: .*(?:high|critical|moderate)"
        cause "an audit found vulnerable packages"
        fix "update the listed packages (`npm audit fix`, `yarn up`, overrides for transitive ones), or record an exception for those that do not affect you"
        like "# npm audit report",
            "14 vulnerabilities found - Packages audited: 1210",
            "error: 1 vulnerability found!";
    Vulnerability 93
        hints "known vulnerabilit", "security vulnerability advisor", "vulnerabilities found!", "is affected by", "rustsec-",
            "advisories found", "error[vulnerability]", "ghsa-", "known_vulnerab"
        pattern r"Found [1-9]\d* known vulnerabilit|Found [1-9]\d* security vulnerability advisor|^Vulnerabilities found!|Your code is affected by [1-9]\d* vulnerabilit|error\[vulnerability\]|^ID: +RUSTSEC-\S+|has (?:a|\d+) known (?:\w+ )?(?:severity )?vulnerabilit"
        cause "an audit found vulnerable packages"
        fix "update the listed packages to a version with the fix, or record an exception for those that do not affect you"
        like "Found 2 known vulnerabilities in 1 package",
            "Your code is affected by 1 vulnerability from 1 module.",
            "error[vulnerability]: Use after free in openssl",
            "error NU1903: Warning As Error: Package 'Newtonsoft.Json' 12.0.1 has a known high severity vulnerability, https://example.com/advisories/GHSA-5crp";
    Vulnerability 92
        hints "total: ", "severity threshold", "severity vulnerabilit", "for known issues", "cvss", "vulnerabilities:",
            "vulnerable path"
        pattern r"Total: [1-9]\d* \((?:\w+: \d+,? ?)+\)|vulnerabilities at or above the severity threshold|(?:✗|×) (?:Low|Medium|High|Critical) severity vulnerability|for known (?:issues|vulnerabilities), found [1-9]\d*|CVSS score (?:of|greater)|were identified with (?:known )?vulnerabilities"
        cause "a scan found vulnerabilities"
        fix "update the listed packages or the base image; what does not affect you belongs into the scanner's list of exceptions, with a reason"
        like "Total: 3 (HIGH: 2, CRITICAL: 1)",
            "✗ High severity vulnerability found in lodash",
            "One or more dependencies were identified with vulnerabilities that have a CVSS score greater than or equal to '7.0':";
    Vulnerability 93
        hints "leaks found", "secrets detected", "push cannot contain secrets", "found verified", "secret detected", "gh009",
            "potential secret", "hardcoded"
        pattern r"leaks found: [1-9]\d*|Secrets detected|Push cannot contain secrets|Found verified (?:result|secret)|(?:potential )?secrets? (?:was |were )?(?:detected|found) in"
        cause "a scan found a secret in the code"
        fix "revoke that secret first, then remove it from the history and keep the new one as a secret of the pipeline"
        like "WRN leaks found: 2",
            "remote: - Push cannot contain secrets";
    Vulnerability 84
        hints "vulnerabilit", "cve-"
        pattern r"(?:scan|policy|check|audit|image|gate)\b.{0,60}\b(?:fail|exceed|violat|reject|block)\w*.{0,80}(?:vulnerabilit|\bCVE-\d)|(?:vulnerabilit\w+|CVE-[\d-]+).{0,80}\b(?:fail\w*|exceed\w*|violat\w*|threshold|policy|blocked|rejected)\b"
        cause "a scan found vulnerabilities that its policy does not allow"
        fix "update the listed packages or the base image, or record an exception with a reason"
        like "image scan failed: 2 critical vulnerabilities (CVE-2026-0727, CVE-2026-0729) exceed policy";
    Vulnerability 50
        hints "vulnerabilit", "security issue"
        pattern r"(?:found|with) [1-9]\d* (?:\w+ )?(?:severity )?vulnerabilit|^[1-9]\d* (?:\w+ )?(?:severity )?vulnerabilit(?:y|ies)\b|[1-9]\d* security issues?"
        cause "packages with known vulnerabilities are installed"
        fix "update the listed packages, or add exceptions to the scanner's configuration"
        like "found 12 vulnerabilities (3 moderate, 9 high)";
    Vulnerability 91
        hints "licens"
        pattern r"licen[cs]e .{0,60}(?:not in allow|was found for package|(?:is|are) (?:not allowed|forbidden|denied|disallowed|not permitted|not approved|incompatible))|(?:not allowed|forbidden|disallowed|unapproved|incompatible|restricted|denied) licen[cs]es?\b|rejected: licen[cs]e|error\[(?:rejected|unlicensed)\]|unknown or forbidden licen[cs]e|dependencies that need approval|licen[cs]e (?:policy|check) (?:violat\w+|failed)"
        cause "a licence is not allowed: see the line"
        fix "replace the package, or have its licence added to the allowed ones"
        like "license Apache-2.0 not in allow-only licenses was found for package lazy-importer:0.1.0",
            "Library example.com/x has unknown or forbidden license";
    Vulnerability 86
        of Scanner
        hints "ruleid:", "rule id:", "secret:", "detector type:"
        pattern r"^\s*Rule ?ID: +\S|^\s*Detector Type: "
        cause "a scan found a secret in the code"
        fix "revoke the secret, and remove it from the history"
        like "RuleID:      sidekiq-secret";
}
