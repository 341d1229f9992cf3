//! Phrases that most programs use for the same failure, whatever they are: more telling than the unspecific words of
//! `vague`, less than the wording of one tool.

super::signature::signatures! {
    AlreadyExists 74
        hints "already exist", "already been ", "already taken", "is taken", "eexist", "file exists", "alreadyexists", "already registered", "must be unique", "already a ", "already published",
            "previously published", "already present", "already uploaded", "already defined", "is not empty", "not an empty directory", "already has a", "already associated", "already owned", "resourceexists"
        pattern r"\balready exists?\b|\balready been (?:taken|used|published|registered|created|released|uploaded|pushed|claimed|added)|\bname\b.{0,40}\b(?:is|already) taken\b|\bEEXIST\b|: File exists\b|\w*AlreadyExists\w*|ResourceExists\w*|is already (?:a |an )?(?:registered|published|present|uploaded|owned|associated|attached)|over the previously published|must be unique|not an empty directory|already has an? \w+ (?:named|called|with)"
        cause "what is to be created exists already"
        fix "use another name or version, or remove the leftover of an earlier run"
        like "error: release v1.4.0 has already been published",
            "mkdir: cannot create directory 'out': File exists",
            "Error: a bucket with the name shop-review is already owned by another account";
    HttpStatus 73
        hints "400", "404", "405", "406", "409", "410", "415", "422", "500", "501", "502", "503", "504", "520", "521", "522", "523", "525", "530"
        pattern r"\b(?:http|https|status|status_?code|response(?: code)?|error(?: code)?|returned|received|responded(?: with)?|answered|unexpected|request failed)\b[^\w\r\n]{0,4}(?:(?:error|status|code|with|server|response|is|was|a|an|http|the)[^\w\r\n]{1,3}){0,4}(?:4(?:00|04|05|06|09|10|15|22)|5(?:0[0-4]|2[0-7]|30))\b(?:[^\d.\w/-]|$|\. )|\b(?:400 Bad Request|404 Not Found|405 Method Not Allowed|406 Not Acceptable|410 Gone|415 Unsupported Media|422 Unprocessable|500 Internal|501 Not Implemented|502 Bad Gateway|503 Service|504 Gateway)"
        cause "a request was answered with a status that is not expected"
        fix "check the URL and what was answered, and the other side's own log at that time"
        like "Error: Request failed with status code 502",
            "upload: server responded with HTTP 503",
            "Response status code does not indicate success: 404 (Not Found).";
    HttpStatus 68
        hints "bad gateway", "service unavailable", "internal server error", "temporarily unavailable", "upstream connect error", "backend fetch failed"
        pattern r"\bBad Gateway\b|\bService (?:Temporarily )?Unavailable\b|\bInternal Server Error\b|upstream connect error|Backend fetch failed"
        cause "a server answered with an error of its own"
        fix "check the other side's own log at that time; run it again if it was a moment"
        like "publish: Service Unavailable";
    Syntax 72
        hints "parse", "parsing", "decode", "unmarshal", "deserial", "not a valid", "must be one of", "must be a ", "must be of type", "not a recogni", "no such option", "unexpected argument",
            "unexpected token", "unknown key", "unknown field", "unknown property", "unknown option", "unknown flag", "unknown directive", "unknown attribute", "unknown argument", "unrecognized ",
            "unrecognised ", "invalid config", "did not find expected", "invalid option", "invalid argument", "malformed", "syntax error", "unexpected end of", "invalid json", "invalid yaml", "bad option"
        pattern r"\b(?:could not|cannot|can't|failed to|unable to|failed|error|couldn't)(?: while| in| when)? (?:be )?(?:pars(?:e|ed|ing)|decod(?:e|ed|ing)|unmarshal\w*|deseriali[sz]\w+)\b|\bpars(?:e|er|ing) (?:error|failed|failure)|is not a valid (?:\w+ ){0,3}(?:value|option|key|name|identifier|type|configuration|yaml|json|url|version|argument|flag|format|boolean|integer|number|setting|field|property|expression)|must be (?:one of|of type|an? (?:valid|string|number|integer|boolean|list|map|object|array|positive))\b|not a recogni[sz]ed|no such option|unexpected (?:argument|token|end of (?:input|json|stream|line))|unknown (?:key|field|property|option|flag|directive|attribute|argument|parameter|setting|keyword|tag)s?\b|unrecogni[sz]ed (?:key|field|property|option|flag|directive|attribute|argument|parameter|setting|token)s?\b|invalid (?:config\w*|json|yaml|toml|xml|option|syntax|directive|flag)\b|did not find expected|\bmalformed\b|syntax error"
        cause "a program does not accept its configuration, its input or its command line: see the line"
        fix "fix the setting named in the line, in the step or in the file that it reads"
        like "error: failed to parse config.toml: expected `=`",
            "Error: \"replicas\" must be of type number",
            "tool: no such option: --fast",
            "error: unknown field `imagee`";
    Crashed 88
        hints "stack smashing", "double free", "free(): ", "malloc(): ", "corrupted ", "heap corruption", "sigabrt", "sigbus", "sigill", "sigfpe", "floating point exception", "unexpected signal",
            "stack overflow", "stackoverflowerror", "stack level too deep", "maximum call stack", "maximum recursion depth", "pure virtual", "kernel pid terminated", "init terminating", "stack exhausted", "bug: "
        pattern r"stack smashing detected|double free or corruption|(?:free|malloc|realloc|munmap_chunk)\(\): (?:invalid|corrupted|unaligned|memory)|corrupted (?:size|double-linked|unsorted)|heap corruption|\bSIG(?:ABRT|BUS|ILL|FPE|TRAP)\b|floating point exception|fatal error: unexpected signal|StackOverflowError|has overflowed its stack|stack level too deep|Maximum call stack size exceeded|maximum recursion depth exceeded|pure virtual method called|Kernel pid terminated|init terminating in do_boot"
        cause "a program crashed in its own code"
        fix "follow its last lines to the code that did it; run it with a debugger or a sanitizer on the same input"
        like "*** stack smashing detected ***: terminated",
            "free(): invalid pointer",
            "RangeError: Maximum call stack size exceeded";
    Crashed 72
        hints "crashed", "unexpectedly", "unhandled", "uncaught", "internal error", "exit code 139", "exit code 134", "exit status 139", "exit status 134", "code: 139", "code 139", "code 134", "abnormally"
        pattern r"\b(?:has|have|process|worker|plugin|server|compiler|browser|page|target|program|daemon|application|tool) (?:has |was |have )?(?:crashed|terminated abnormally|(?:quit|exited|stopped|terminated|died) unexpectedly)\b|\bunhandled (?:exception|error|promise rejection|rejection)\b|\buncaught (?:exception|error)\b|^(?:fatal )?internal (?:compiler |tool )?error\b|exit(?:ed)?(?: with)? (?:code|status):? (?:139|134|132|136)\b"
        cause "a program crashed"
        fix "follow its last lines to the code that did it"
        like "Error: the renderer process has crashed",
            "worker exited unexpectedly";
    PermissionDenied 73
        hints "not authorized to", "not allowed to", "not permitted to", "access denied", "access is denied", "forbidden", "insufficient privileges", "insufficient rights", "insufficient permission",
            "don't have permission", "do not have permission", "does not have permission", "don't have access", "do not have access", "no permission", "missing permission", "lacks permission", "not have the required", "read-only"
        pattern r"\bnot (?:authori[sz]ed|allowed|permitted) to \w+|\baccess (?:is |was |to .{1,60} )?(?:denied|forbidden)\b|\bforbidden\b[:!.]|insufficient (?:privileges?|rights|permissions?|access)|(?:do not|don't|does not|doesn't) have (?:the )?(?:\w+ )?(?:permissions?|access|privileges?|rights)\b|(?:no|missing|lacks?) (?:the )?(?:\w+ )?permissions? (?:to|for|on)|\bread-only (?:file ?system|mode|transaction|database|replica)"
        cause "the step lacks a permission"
        fix "give the account or user of the step the permission that the line names"
        like "Error: the deploy key is not allowed to push to this repository",
            "ERROR: you do not have access to project shop";
    MissingVariable 72
        hints "is required", "is not set", "not configured", "must be provided", "must provide", "not specified", "must specify", "is missing", "was not provided", "not provided", "missing input", "missing secret", "is not defined", "undefined variable"
        pattern r"\b(?:environment variable|env var|variable|secret|input|parameter|setting|region|property|config(?:uration)? (?:value|key|option))s?\b.{0,50}\b(?:is|are|was|must be) (?:required|not set|missing|not (?:provided|configured|specified|defined)|empty|provided|specified)\b|\b(?:must|please) (?:provide|specify|set) (?:an? |the |your )?(?:\w+ ){0,2}(?:variable|secret|region|parameter|setting|project id)\b"
        cause "a setting that the program needs is not given"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "error: the secret for signing is not set",
            "You must specify a region";
    Timeout 74
        hints "timed out", "time limit", "timeout", "deadline", "took too long", "took longer than", "no response within", "not respond in time", "within the allotted", "exceeded the allowed time"
        pattern r"\b(?:time limit|timeout|deadline)\b.{0,30}\b(?:exceeded|reached|elapsed|expired|hit|passed)\b|\b(?:exceeded|reached|hit) (?:the |its |a )?(?:maximum |overall |allowed )?(?:time ?limit|timeout|deadline|run ?time|execution time)|took (?:too long|longer than)|no response within|did not (?:respond|finish|complete|start|become \w+) (?:in time|within)|within the allotted"
        cause "it did not happen in time"
        fix "check what it waited for; raise the limit only if it really needs longer"
        like "job: the deadline of 20 minutes was reached",
            "step took longer than 600 s";
    Locked 76
        hints "lock", "in progress", "is busy", "in use by", "already running", "being used by", "being modified", "pending operation", "try again later", "concurrent"
        pattern r"\b(?:could not|cannot|can't|unable to|failed to|couldn't) (?:acquire|obtain|get|take|create|lock)\b.{0,40}\block\b|\block(?:file)?\b.{0,40}\b(?:is held|held by|exists|already (?:taken|held|exists))|(?:another|a concurrent|an existing|a different) (?:\w+ ){0,3}(?:is|was)? ?(?:already |currently )?(?:in progress|running|pending|active)|(?:is|are) (?:currently )?(?:in use|being used|being modified|being updated) by (?:another|other|process|a)|already (?:running|in progress)\b|process cannot access the file"
        cause "something else is working on the same thing"
        fix "wait for the other one to end, then retry; if none is left, release its lock"
        like "Another operation (install/upgrade/rollback) is in progress",
            "The process cannot access the file because it is being used by another process";
    ImagePull 76
        hints "image", "manifest"
        pattern r"\b(?:image|manifest|tag)\b.{0,80}\b(?:not found|does not exist|could not be (?:found|pulled)|unknown|no matching)\b|(?:failed|unable|cannot|could not|error)\b.{0,20}\b(?:pull\w*|fetch\w*|resolv\w+)\b.{0,40}\bimage\b|no match for platform in manifest"
        cause "an image cannot be pulled"
        fix "check its name and tag, that it was pushed and for which platforms, and that the step has read access"
        like "Error: image registry.example.com/shop/web:41 could not be found";
    DiskFull 80
        hints " is full", "no space", "disk space", "out of space", "disk is full", "storage is full", "not enough space", "no free space", "out of disk", "out of storage", "space available"
        pattern r"\b(?:no|out of|not enough|insufficient|low|too little|lack of) (?:free |available |disk |storage ){0,2}(?:space|disk|storage)\b|\b(?:disk|storage|volume|partition|filesystem|drive) (?:\S+ )?(?:is |was )?full\b|space (?:available|left|remaining):? 0\b"
        cause "the disk is full"
        fix "free space where it writes: old images, caches and working directories first"
        like "backup: out of disk space on /data",
            "error: the volume data is full";
    Vulnerability 76
        hints "vulnerab", "cve-", "secret", "leak", "ghsa-", "malware", "virus"
        pattern r"\b[1-9]\d* (?:\w+ ){0,3}(?:vulnerabilit(?:y|ies)|leaks?|secrets?|CVEs?)\b.{0,20}\b(?:found|detected|exceed\w*)|\b(?:found|detected|contains?|has) (?:\w+ ){0,3}[1-9]?\d* ?(?:\w+ ){0,2}(?:vulnerabilit(?:y|ies)|leaked secrets?|hard-?coded (?:secret|password|credential)s?|malware|virus)\b"
        cause "a scan found a vulnerability or a secret"
        fix "update what is listed, or remove and revoke the secret; add exceptions to the scanner's configuration where it is wrong"
        like "3 critical vulnerabilities found",
            "scan: the archive contains malware";
}
