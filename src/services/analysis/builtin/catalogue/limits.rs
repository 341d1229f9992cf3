//! Limits other than memory, disk and rates: files, processes, connections, sizes, quotas, capacity.

super::signature::signatures! {
    ResourceLimit 97
        hints "file watchers", "inotify"
        pattern r"limit for number of file watchers reached|(?:user )?limit .{0,40}inotify|inotify (?:watch|instance)\w* .{0,40}(?:limit|reached|exhausted)|inotify_(?:init|add_watch)\w*.{0,40}(?:failed|too many|no space)|Failed to (?:add|create) inotify|too many inotify"
        cause "the machine's limit of watched files is reached"
        fix "do not watch files in CI (run the build once, without its watch mode), or have an operator raise `fs.inotify.max_user_watches`"
        like "Error: ENOSPC: System limit for number of file watchers reached, watch '/srv/work/src'",
            "Failed to create inotify object: Too many open files";
    ResourceLimit 93
        hints "resource temporarily unavailable", "too many open files", "emfile", "enfile", "can't start new thread",
            "unable to create native thread", "unable to create new native thread", "too many processes", "fork: retry",
            "failed to create new os thread", "pthread_create failed", "thread creation failed",
            "process limit"
        pattern r"fork: (?:retry: )?resource temporarily unavailable|pthread_create(?:\(\))? failed|failed to create new OS thread|(?:thread|os).{0,40}resource temporarily unavailable|too many open files|\bEMFILE\b|\bENFILE\b|can't start new thread|unable to create (?:new )?native thread|process limit (?:reached|exceeded)"
        cause "a limit of processes, threads or open files is reached"
        fix "let it use fewer at once (fewer parallel jobs or workers); if it needs that many, raise the limit of the step (`ulimit -n`, `ulimit -u`, the container's pids limit)"
        like "accept4: too many open files",
            "bash: fork: Resource temporarily unavailable",
            "runtime: failed to create new OS thread (have 2048 already; errno=11)";
    ResourceLimit 92
        hints "argument list too long", "e2big"
        pattern r"Argument list too long|\bE2BIG\b"
        cause "a command was called with more arguments than the system allows, often by a pattern with very many files"
        fix "pass the files in portions (`find … -exec … +`, `xargs`) or in a file of arguments"
        like "/bin/sh: /usr/bin/rm: Argument list too long";
    ResourceLimit 91
        hints "too many connections", "connection slots are reserved", "too many clients", "max_user_connections",
            "maxclients", "max number of clients", "maximum number of connections"
        pattern r"too many connections|connection slots are reserved|too many clients|max_user_connections|max number of clients reached|maximum number of connections .{0,30}(?:reached|exceeded)"
        cause "the database has no connection left to give"
        fix "close what holds connections, use a pool or fewer workers, or raise the database's limit"
        like "FATAL:  sorry, too many clients already",
            "ERR max number of clients reached";
    ResourceLimit 90
        hints "max_locks_per_transaction", "max_allowed_packet", "stack depth limit", "sort_buffer", "remaining connection",
            "row size too large", "too many columns", "too many sql variables", "specified key was too long"
        pattern r"max_locks_per_transaction|max_allowed_packet|stack depth limit exceeded|Row size too large|too many columns|too many SQL variables|Specified key was too long"
        cause "a statement needs more than the database's settings allow"
        fix "do it in smaller portions, or raise the setting that the line names"
        like "ERROR:  out of shared memory HINT:  You might need to increase max_locks_per_transaction.",
            "ERROR 1071 (42000) at line 14: Specified key was too long; max key length is 767 bytes";
    ResourceLimit 91
        hints "request entity too large", "payload too large", "requestentitytoolarge", "entity too large",
            "content too large", "body exceeded", "413"
        pattern r"(?:Request Entity|Payload|Content|Entity) Too Large|RequestEntityTooLarge\w*|(?:status(?: code)?:?|error:?|HTTP(?:/[\d.]+)?|returned|code)\s+\(?413\b|request body exceeded"
        cause "what is sent is larger than the other side accepts"
        fix "send less (leave out what is not needed, compress, split), or raise the limit of the server or the proxy before it"
        like "error parsing HTTP 413 response body: invalid character '<' looking for beginning of value: \"413 Request Entity Too Large\"",
            "An error occurred (RequestEntityTooLargeException) when calling the UpdateFunctionCode operation: Request must be smaller than 70167211 bytes";
    ResourceLimit 90
        hints "unzipped size must be", "code storage limit", "exceeds the maximum", "larger than the maximum",
            "exceeds maximum", "exceeded maximum", "maximum allowed", "exceeds the limit", "exceeded the limit", "size limit",
            "exceeding the", "too large", "exceeds github's file size", "large files detected", "over the max",
            "exceeded the maximum", "maximum size"
        pattern r"Unzipped size must be smaller|Code storage limit exceeded|(?:size|length|file|bundle|package|artifact|image|archive|function|payload|template|chunk|asset)s?\b.{0,80}\b(?:exceed(?:s|ed|ing)|larger than|over|bigger than) (?:the |its |a )?(?:maximum|limit|max|allowed|size limit|budget|quota)|exceeds GitHub's file size limit|Large files detected|maximum (?:allowed )?(?:size|length) .{0,40}(?:exceeded|of)|budgets?,? .{0,40}(?:exceeded maximum|was not met)"
        cause "something is larger than allowed"
        fix "make it smaller (leave out what is not needed; large files belong into storage or Git LFS), or raise the limit if it is yours"
        like "An error occurred (InvalidParameterValueException) when calling the CreateFunction operation: Unzipped size must be smaller than 262144000 bytes",
            "remote: error: File data/dump.sql is 312.41 MB; this exceeds GitHub's file size limit of 100.00 MB",
            "Error: bundle initial exceeded maximum budget. Budget 1.00 MB was not met by 201.12 kB with a total of 1.20 MB.";
    ResourceLimit 92
        of Kubernetes
        hints "exceeded quota", "exceeded its quota", "must specify limits", "maximum cpu usage", "maximum memory usage"
        pattern r"exceeded quota: (?P<quota>[^\s,]+)|maximum (?:cpu|memory) usage per \w+ is (?P<most>\S+)|failed quota: (?P<failed>[^\s:]+)"
        cause "the quota or limit `{quota/most/failed}` of the namespace does not allow it"
        fix "delete unused resources in the namespace, lower the requests, or have the quota raised"
        like "pods \"web-1\" is forbidden: exceeded quota: compute, requested: limits.memory=2Gi, used: limits.memory=7Gi, limited: limits.memory=8Gi";
    ResourceLimit 88
        of Kubernetes, Containers, Infrastructure
        hints "failedscheduling", "nodes are available", "insufficient cpu", "insufficient memory", "insufficient nvidia",
            "too many pods", "unschedulable"
        pattern r"\d+/\d+ nodes are available|FailedScheduling|Insufficient (?:cpu|memory|nvidia\S*)|Too many pods|Unschedulable"
        cause "the cluster has no node for the pods: not enough capacity, or none that fits"
        fix "lower their requests, free capacity, add nodes, or correct what they ask of a node (selectors, taints, volumes)"
        like "0/6 nodes are available: 6 Insufficient cpu. preemption: 0/6 nodes are available";
    ResourceLimit 91
        hints "quota", "limitexceeded", "limit exceeded", "servicequota", "insufficientinstancecapacity",
            "insufficient capacity", "stockout", "zone_resource_pool_exhausted", "skunotavailable",
            "does not have enough resources"
        pattern r"\bquota(?: '?[\w.-]+'?)? (?:has been |was |is )?exceeded|QuotaExceeded|QUOTA_EXCEEDED|\w*LimitExceeded(?:Exception|Fault)?\b|exceeded (?:your|the) (?:current |service )?quota|ServiceQuotaExceeded\w*|InsufficientInstanceCapacity|ZONE_RESOURCE_POOL_EXHAUSTED|SkuNotAvailable|does not have enough resources available|exceeding approved \S+ (?:\w+ )?quota|insufficient quota"
        cause "a quota of the account, or the capacity of the cloud, is used up"
        fix "free what counts against it, use another region or size, or ask for a higher quota"
        like "An error occurred (VcpuLimitExceeded) when calling the RunInstances operation",
            "ERROR: (gcloud.compute.instances.create) Could not fetch resource: - Quota 'CPUS' exceeded.  Limit: 24.0 in region europe-west1.";
    ResourceLimit 86
        hints "maximum", "limit", "cannot exceed"
        pattern r"(?:reached|exceed\w*|hit) (?:the |your |its )?(?:maximum|limit|max)\b.{0,20}(?:number of|of \d|for)|(?:maximum|max) number of .{0,60}(?:reached|exceeded)|cannot exceed (?:the )?(?:quota|limit|maximum) (?:of|for)|Cannot exceed quota"
        cause "a limit is reached"
        fix "free what counts against it, or have the limit raised"
        like "An error occurred (LimitExceeded): Cannot exceed quota for PoliciesPerRole: 10",
            "plan: the maximum number of apps has been reached";
    ResourceLimit 90
        hints "spending limit", "payments have failed", "minutes", "out of credits", "insufficient credits", "usage limit",
            "billing account", "billing is disabled"
        pattern r"spending limit needs to be increased|account payments have failed|(?:used|exceeded) (?:all|up|your) .{0,40}(?:minutes|credits|usage limit)|out of (?:build )?(?:credits|minutes)|insufficient credits|no more .{0,20}minutes available|[Bb]illing (?:is|has been|account.{0,40}) disabled"
        cause "the account of the CI or cloud has used up what it pays for"
        fix "have its owner raise the limit or check the payment"
        like "The job was not started because recent account payments have failed or your spending limit needs to be increased.";
    ResourceLimit 88
        hints "step log exceeded", "log exceeded", "job's log exceeded", "exceeded limit of", "maximum log length", "too many levels",
            "maxbuffer length exceeded", "recursion limit"
        pattern r"log (?:length )?(?:has )?exceeded (?:the )?(?:limit|maximum)|maximum log length|maxBuffer length exceeded"
        cause "it wrote more output than allowed"
        fix "let it write less: fewer debug messages, the rest into a file"
        like "Job's log exceeded limit of 4194304 bytes.";
    ResourceLimit 91
        hints "vm.max_map_count", "is too low, increase to at least", "is too large (max", "too large (max", "may not exceed", "increase in quota", "exceeded quota", "capacity exceeded",
            "limit exceeded:", "can have at most", "only supports up to", "cannot be larger than", "must be smaller than", "must be less than or equal to", "too many "
        pattern r"is too low, increase to at least|(?:is|was) too (?:large|big|long) \(?(?:max|limit|the limit)|\w+ may not exceed \d|requesting an increase in quota|forbidden: exceeded quota|capacity exceeded|(?:subscriber|account|service|project) limit exceeded|can have at most \d|only supports up to \d|cannot be larger than \d|must be smaller than \d|too many (?:rules|instances|pods|nodes|volumes|apps|projects|services|secrets|tags|layers|arguments on the command line|jobs (?:are )?(?:running|queued))"
        cause "a limit on a number or a size is exceeded"
        fix "use less of what the line names, or have the limit raised"
        like "[1]: max virtual memory areas vm.max_map_count [65530] is too low, increase to at least [262144]",
            "remote:  !     Compiled slug size: 500.1M is too large (max is 500M).",
            "For the specified value, maxScale may not exceed 10.";
}
