//! Unspecific words, for programs that no other table covers. They weigh less than all others and lead to low confidence.

super::signature::signatures! {
    DependencyResolution 63
        hints "package", "dependenc", "module", "librar", "plugin", "artifact", "cookbook", "provider"
        pattern r"(?:error|fail\w*|cannot|can't|could not|couldn't|unable)\b.*\b(?:packages?|dependenc\w+|modules?|librar\w+|plugins?|artifacts?|cookbooks?|providers?)\b|\b(?:packages?|dependenc\w+|modules?|librar\w+|plugins?|artifacts?|cookbooks?|providers?)\b.*\b(?:not found|missing|unavailable|not available|could not be found|cannot be found|unresolved|incompatible|don't exist|do not exist)\b"
        cause "a package or module is not available, or does not fit"
        fix "check its name, its version and where it comes from"
        like "error: could not install plugin shop/theme",
            "Unable to find package Acme.Logging";
    Authentication 62
        hints "credential", "api key", "access key", "token", "login", "log in", "authenticat"
        pattern r"(?:error|fail\w*|invalid|missing|bad|wrong|rejected|no|expired|cannot|unable)\b.{0,60}\b(?:credentials?|api key|access key|token|log ?in|authenticat\w+)\b|\b(?:credentials?|api key|access key|token|log ?in|authenticat\w+)\b.{0,60}\b(?:fail\w*|invalid|missing|rejected|expired|refused|denied)\b"
        cause "credentials are missing or not accepted"
        fix "check the secret that they come from"
        like "error: no credentials for registry acme";
    Syntax 60
        hints "invalid", "malformed", "unexpected", "unsupported", "unknown", "unrecogni"
        pattern r"(?:invalid|malformed|unexpected|unsupported|unknown|unrecogni[sz]ed) (?:\w+ )?(?:arguments?|parameters?|options?|values?|fields?|keys?|propert\w+|configuration|config|types?|format|directives?|attributes?|syntax|newline|character|input|statement|expression|block|version)\b"
        cause "a program does not accept its input"
        fix "fix the setting named in the line, in the step or in the file that it reads"
        like "error: invalid value 'yes' for 'replicas'";
    TestFailure 63
        hints "fail"
        pattern r"\b(?:tests?|specs?|assertions?|checks?|scenarios?|examples?|expectations?|suites?)\b.{0,60}\bfail(?:ed|ure|ures|ing)\b|\bfail(?:ed|ures?|ing)[:!]? *[1-9]\d*\b|\b[1-9]\d* (?:\w+ )?fail(?:ed|ures?|ing)\b|\[FAIL(?:ED)?\]\s*$"
        cause "tests or checks fail"
        fix "run the listed tests alone, and fix them or the code they test"
        like "Failed!  - Failed:     1, Passed:    88, Skipped:     0",
            "verify: 3 checks failed";
    MigrationFailed 62
        hints "migrat"
        pattern r"(?:error|fail\w*|cannot|could not)\b.{0,80}\bmigrat\w+|\bmigrat\w+.{0,80}\b(?:fail\w*|error|aborted|rolled back)\b"
        cause "a migration failed"
        fix "fix it according to the surrounding lines, and check what was already applied"
        like "schema: could not migrate to 41";
    Tls 62
        hints "certificate", "tls", "ssl"
        pattern r"(?:error|fail\w*|invalid|bad|cannot|could not|unable)\b.{0,80}\b(?:certificates?|tls|ssl)\b|\b(?:certificates?|tls|ssl)\b.{0,80}\b(?:fail\w*|error|invalid|rejected|not trusted|untrusted|mismatch)\b"
        cause "a secure connection could not be established"
        fix "check the certificate and its issuer"
        like "push: server certificate rejected";
    OutOfMemory 62
        hints "memory", "heap"
        pattern r"\b(?:memory|heap)\b.{0,40}\b(?:exceeded|exhausted|ran out|limit reached)\b|(?:exceeded|ran out of|insufficient|not enough)\b.{0,30}\b(?:memory|heap)\b"
        cause "memory ran out"
        fix "raise the memory limit of the process, or make it use less"
        like "worker: not enough memory for the index";
    Locked 61
        hints "lock"
        pattern r"\block(?:ed|file)?\b.{0,60}\b(?:held|another|exists|owned|busy)\b|(?:cannot|could not|unable to|failed to) (?:acquire|obtain|get|take) (?:\w+ ){0,3}lock\b"
        cause "something else holds a required lock"
        fix "wait for the other one to end; if none is left, remove the lock"
        like "deploy: could not acquire the release lock";
    Unhealthy 61
        hints "health", "ready", "readiness", "start"
        pattern r"\b(?:not|never|isn't) (?:\w+ )?(?:healthy|ready)\b|\b(?:health|readiness|liveness)\b.{0,60}\b(?:fail\w*|timed out|bad)\b|\b(?:application|service|server|app|process|container)\b.{0,40}\b(?:failed to start|did not start|could not be started|crashed)\b"
        cause "the started service does not come up"
        fix "check the log of the started service"
        like "ERROR: service web failed to start",
            "rollout: web is not ready";
    ConnectionFailed 61
        hints "connect", "socket", "network", "unreachable"
        pattern r"\b(?:connect(?:ion|ing)?|socket|network)\b.{0,60}\b(?:fail\w*|error|refused|reset|lost|closed|dropped)\b|\bunreachable\b"
        cause "a connection failed"
        fix "check that the other side runs and is reachable from the step"
        like "queue: connection lost";
    ImagePull 62
        hints "pull", "image"
        pattern r"(?:fail\w*|error|cannot|could not|unable)\b.{0,40}\b(?:pull\w*|image)\b|\bimage\b.{0,60}\b(?:not found|does not exist|missing|denied)\b"
        cause "an image cannot be pulled"
        fix "check its name and tag, that it was pushed, and that the step has read access"
        like "nomad: failed to pull acme/web:9";
    ResourceLimit 61
        hints "limit", "quota", "allowance", "too many"
        pattern r"\b(?:limit|quota|allowance)\b.{0,40}\b(?:exceeded|reached|used up)\b|\bexceed(?:s|ed|ing)\b.{0,40}\b(?:limit|quota|maximum)\b|(?:error|fail\w*)\b.{0,40}\btoo many\b"
        cause "a limit is reached"
        fix "free what counts against it, use less at once, or have the limit raised"
        like "plan: the allowance of apps is used up";
    AlreadyExists 62
        hints "already", "duplicate"
        pattern r"\balready (?:exists|in use|taken|registered|defined)\b|\bduplicate (?:name|key|entry|resource|version)\b"
        cause "what is to be created exists already"
        fix "use another name or version, or remove the leftover of an earlier run"
        like "error: app shop-review is already registered";
    MissingFile 60
        hints "not found", "does not exist", "doesn't exist", "missing", "cannot find", "could not find",
            "unable to find", "can't find", "couldn't find", "no such ", "unknown "
        pattern r"\b(?:not found|does not exist|doesn't exist)\b|\bno such \w+|\berror\b.{0,40}\bunknown (?:app|project|service|environment|branch|host|resource|target|stack|repository)\b|\b(?:cannot|can't|could not|couldn't|unable to) (?:find|locate)\b"
        cause "something required does not exist"
        fix "check that it is created before, or is part of the commit"
        like "error: stack review-7 not found";
    PermissionDenied 61
        hints "denied", "forbidden", "not allowed", "not permitted", "authori"
        pattern r"\b(?:denied|forbidden|not authori[sz]ed)\b|\b(?:user|account|role|you|token|client|caller|bot)\b.{0,60}\bnot (?:allowed|permitted)\b"
        cause "the step lacks a permission"
        fix "give the account or user of the step the permission"
        like "publish: denied by policy";
    DiskFull 62
        hints "disk", "space", "storage", "volume", "device"
        pattern r"\b(?:disk|volume|storage|device)\b.{0,40}\b(?:full|exhausted|exceeded)\b|\b(?:out of|no|not enough|insufficient) (?:\w+ )?(?:space|storage)\b"
        cause "the disk is full"
        fix "free space where it writes"
        like "backup: volume /data is full";
    Compile 65
        hints "error", "compil"
        pattern r"(?P<file>[\w./@+-]+\.[a-z]{1,5}):(?P<line>\d+)(?::\d+)?:? (?:fatal |syntax |type )?error\b[: ](?P<what>[^\r\n]*)|\bcompil\w+ (?:errors?|failed)\b"
        cause "code does not compile: {what|see the line} ({file|…})"
        fix "fix it at the location given in the line"
        like "lib/cart.nim:41:9: Error: undeclared identifier: 'total'";
}
