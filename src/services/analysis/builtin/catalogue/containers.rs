//! Images, containers, clusters and what rolls out on them.

super::signature::signatures! {
    ImagePull 95
        hints "manifest unknown", "manifest for"
        pattern r"manifest for (?P<image>\S+) not found|manifest unknown"
        cause "the image {image|it asks for} is not in the registry"
        fix "check that the image was built and pushed under that tag before the step, and that the tag is right"
        like "Error response from daemon: manifest for acme/web:9f3c not found: manifest unknown: manifest unknown";
    ImagePull 94
        hints "pull access denied"
        pattern r"pull access denied for (?P<image>[^\s,]+)"
        cause "the image {image} does not exist, or the step is not logged in to its registry"
        fix "check the image's name; if it is private, log in to the registry first (`docker login` with a token from a secret)"
        like "Error response from daemon: pull access denied for acme/private, repository does not exist or may require 'docker login'";
    ImagePull 93
        hints "imagepullbackoff", "errimagepull", "errimageneverpull", "invalidimagename"
        pattern r#"\b(?:ImagePullBackOff|ErrImagePull|ErrImageNeverPull|InvalidImageName)\b"#
        cause "the cluster cannot pull an image"
        fix "check the image's name and tag, that it was pushed, and that the namespace has a pull secret for its registry"
        like "web-7c9d-x2x1  0/1  ImagePullBackOff  0  2m",
            "waiting for: web: ErrImagePull";
    ImagePull 94
        hints "failed to pull image", "failed to pull and unpack image", "back-off pulling image"
        pattern r#"(?:failed to pull (?:and unpack )?image|Back-off pulling image) \\?"(?P<image>[^"\\]+)"#
        cause "the image {image} cannot be pulled"
        fix "check the image's name and tag, that it was pushed, and that the namespace has a pull secret for its registry"
        like r#"Warning  Failed  12s  kubelet  Failed to pull image "acme/web:9f3": rpc error: code = NotFound"#;
    ImagePull 88
        hints "failed to resolve source metadata", "failed to resolve reference", "unable to find image",
            "error pulling image", "failed to do request: head", "name unknown", "repository name not known"
        pattern r#"failed to resolve source metadata for (?P<image>[^\s:]+\S*):|failed to resolve reference "(?P<ref>[^"]+)"|error pulling image|NAME_UNKNOWN|name unknown: |repository name not known"#
        cause "the image {image/ref} cannot be pulled from its registry"
        fix "check its name and tag, that it was pushed, and that the step has read access"
        like "ERROR: failed to solve: acme/base:3: failed to resolve source metadata for registry.example.com/acme/base:3: not found",
            r#"failed to resolve reference "images.example.com/acme/web:9": not found"#;
    ImagePull 86
        hints "no matching manifest"
        pattern r"no matching manifest for (?P<platform>\S+)"
        cause "the image was not built for {platform}"
        fix "build it for that platform too (`docker buildx build --platform`), or run it elsewhere"
        like "no matching manifest for linux/arm64/v8 in the manifest list entries";
    ImagePull 86
        hints "invalid reference format"
        pattern r"invalid reference format"
        cause "the name of an image is not valid, often because a variable in it is empty"
        fix "check the variable that supplies the image's tag"
        like "docker: invalid reference format.";

    Unhealthy 84
        hints "progress deadline", "progressdeadlineexceeded"
        pattern r#"(?:deployment "(?P<name>[^"]+)" )?exceeded its progress deadline|ProgressDeadlineExceeded|due to progress deadline"#
        cause "the new pods of {name|the deployment} did not become ready in time"
        fix "check the pods (`kubectl describe pod`, `kubectl logs --previous`): they crash, fail their probes or cannot be scheduled"
        like r#"error: deployment "api" exceeded its progress deadline"#;
    Unhealthy 88
        hints "crashloopbackoff", "back-off restarting failed container"
        pattern r"CrashLoopBackOff|Back-off restarting failed container"
        cause "a container crashes repeatedly after its start"
        fix "check its output before the crash (`kubectl logs --previous`)"
        like "web-5d7f-9x  0/1  CrashLoopBackOff  6  8m";
    Unhealthy 91
        hints "probe failed", "probe errored"
        pattern r"(?P<probe>Readiness|Liveness|Startup) probe (?:failed|errored)"
        cause "the {probe} probe of a container fails"
        fix "check that the container listens where the probe expects it, and give it time to start (`initialDelaySeconds`, a startup probe)"
        like "Warning  Unhealthy  3s (x12 over 2m)  kubelet  Readiness probe failed: Get \"http://10.1.0.9:8080/healthz\": connect: connection refused";
    Unhealthy 82
        hints "is unhealthy", "unhealthy", "health check", "healthcheck"
        pattern r#"container (?P<name>\S+) is unhealthy|health.?check\w*\b.{0,80}\b(?:failed|failing|failure|did not pass|unhealthy|never became healthy)|(?:failed|unhealthy).{0,40}health.?check|did not become (?:healthy|ready)|never became (?:healthy|ready)|is not healthy"#
        cause "the started service does not become healthy"
        fix "check the log of the started service, and run its health check by hand"
        like "dependency failed to start: container review-4-db-1 is unhealthy",
            "health check failed after 30 attempts";
    Unhealthy 72
        hints "dependency failed to start", "exited with code", "exited (", "container"
        pattern r"dependency failed to start|container \S+ exited(?: with code)? \(?(?P<code>[1-9]\d*)\)?"
        cause "a container ended unexpectedly"
        fix "check the container's own log (`docker compose logs`) for the reason"
        like "dependency failed to start: container review-db-1 exited (1)";
    Unhealthy 88
        hints "due to atomic"
        pattern r"release \S+ failed, and has been (?:rolled back|uninstalled) due to atomic"
        cause "the release did not become ready and was rolled back"
        fix "check the pods while the release runs (`kubectl describe pod`); after the rollback they are gone"
        like "Error: UPGRADE FAILED: release web failed, and has been rolled back due to atomic being set: context deadline exceeded";
    Unhealthy 80
        hints "start-limit", "failed to start", "main process exited", "control process exited"
        pattern r"(?:Job for )?(?P<unit>[\w@.-]+\.service)\b.{0,60}(?:failed because|failed with result|start-limit)|Main process exited, code=\w+"
        cause "the service {unit|it starts} does not come up"
        fix "see `systemctl status {unit|…}` and `journalctl -u {unit|…}` for the reason"
        like "Job for shop.service failed because the control process exited with error code.";

    Locked 95
        hints "another operation ("
        pattern r"another operation \(install/upgrade/rollback\) is in progress"
        cause "another Helm operation on this release is in progress, or was cut off"
        fix "wait for it; if none runs, `helm history` shows a pending revision: roll back to the one before"
        like "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress";
    Locked 95
        hints "acquiring the state lock", "error locking state", "state lock"
        pattern r"Error (?:acquiring the state lock|locking state)"
        cause "another run holds the lock of the Terraform state"
        fix "wait for the run that holds it (the lines below name it); if it is gone, `terraform force-unlock` with its ID"
        like "Error: Error acquiring the state lock";
    Locked 93
        hints "could not get lock", "unable to acquire the dpkg", "unable to lock directory"
        pattern r"Could not get lock (?P<file>\S+?)\.?(?: |$)|Unable to acquire the dpkg|Unable to lock directory"
        cause "another package manager is running on the machine"
        fix "wait for it (often unattended upgrades), for instance with `apt-get -o DPkg::Lock::Timeout=120`"
        like "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 911 (unattended-upgr)";
    Locked 90
        hints "index.lock", "another git process"
        pattern r"Unable to create '(?P<file>[^']+\.lock)': File exists|Another git process seems to be running"
        cause "another git process is working in the same repository, or was killed there"
        fix "wait for it; if none runs, remove the lock file named in the line"
        like "fatal: Unable to create '/srv/work/.git/index.lock': File exists.";
    Locked 86
        hints "lock wait timeout", "deadlock", "database is locked", "could not obtain lock",
            "canceling statement due to lock timeout", "lock timeout"
        pattern r"lock wait timeout exceeded|deadlock (?:detected|found)|database is locked|could not obtain lock|due to lock timeout"
        cause "the database is locked by something else"
        fix "find the statement that holds the lock and wait for its end; retry with a suitable lock timeout"
        like "ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction",
            "sqlite3.OperationalError: database is locked";
    Locked 84
        hints "already locked", "is locked by", "lock is held", "held by another", "already running",
            "in progress", "conflictexception", "resourceinuse", "another "
        pattern r"already locked|is locked by|lock is (?:already )?held|held by another|another (?:instance|deployment|process|run|build|update)\b.{0,30}(?:running|in progress)|(?:deployment|update|operation) (?:is )?already in progress|ResourceInUse\w*|(?:is|are) in \w*_IN_PROGRESS state"
        cause "something else is working on the same resource"
        fix "wait for the other one to end, then retry"
        like "Error: deployment already in progress for service web",
            "error: [409] Conflict: Another update is currently in progress.";
    ImagePull 90
        hints "no such image", "unable to find image"
        pattern r"No such image: (?P<image>\S+)"
        cause "the image {image} is neither present nor was it pulled"
        fix "build or pull it first, under exactly that name"
        like "Error response from daemon: No such image: shop/web:c0ffee1";
    Unhealthy 92
        hints "backofflimitexceeded", "hooks failed", "has no deployed releases", "job failed"
        pattern r"BackoffLimitExceeded|(?:pre|post)-\w+ hooks failed|has no deployed releases"
        cause "a job of the release failed, or the release never came up"
        fix "check the log of the job's pod; a release that never came up must be uninstalled before it can be installed again"
        like "Error: UPGRADE FAILED: post-upgrade hooks failed: 1 error occurred: job web-migrate failed: BackoffLimitExceeded";
    Locked 90
        hints "could not acquire change log lock", "timeout waiting to lock", "text file busy", "etxtbsy", "resource busy",
            "ebusy", "device or resource busy", "another active homebrew", "multi-attach error", "currently in use by another",
            "conflicting conditional operation", "operationaborted", "another yarn instance"
        pattern r"Could not acquire change log lock|Timeout waiting to lock|Text file busy|ETXTBSY|\bEBUSY\b|(?:Device or )?resource busy|another active Homebrew|Multi-Attach error|currently in use by another|conflicting conditional operation"
        cause "the resource is still in use by something else"
        fix "wait for the other one to end, and keep two runs from using the same directory or volume; remove the lock only if its owner is gone"
        like "Waiting for changelog lock.... Liquibase: Could not acquire change log lock.",
            "> Timeout waiting to lock journal cache (/root/.gradle/caches/journal-1). It is currently in use by another Gradle instance.";
    MissingVariable 88
        hints "createcontainerconfigerror", "parameternotfound", "can't find the specified secret"
        pattern r"CreateContainerConfigError|ParameterNotFound|can't find the specified secret"
        cause "a secret or a setting that the workload references does not exist"
        fix "create it before the rollout, or correct its name in the manifest"
        like "web-5d7f-9x  0/1  CreateContainerConfigError  0  2m";
    MissingFile 87
        hints "203/exec", "200/chdir", "217/user", "failed at step", "failed to locate executable"
        pattern r"status=(?P<status>203/EXEC|200/CHDIR|217/USER)|Failed at step (?P<step>\w+) spawning (?P<path>[^:]+): No such|Failed to locate executable (?P<program>[^:]+)"
        cause "the unit cannot start its program: {path/program/status}"
        fix "check that the program, its directory and its user of the unit exist before it is started"
        like "shop.service: Main process exited, code=exited, status=203/EXEC",
            "shop.service: Failed to locate executable /opt/shop/bin/server: No such file or directory";
    Unhealthy 86
        of Database
        hints "misconf redis", "loading redis is loading", "database system is starting up", "not currently accepting connections",
            "database system is shutting down", "in recovery mode"
        pattern r"MISCONF Redis|LOADING Redis is loading|database system is (?:starting up|shutting down|in recovery mode)|not (?:currently|yet) accepting connections"
        cause "the database is running but does not accept the work"
        fix "wait until it is ready before the step uses it; a Redis that cannot save its data needs space and write access in its directory"
        like "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "psql: error: FATAL:  the database system is starting up";
    ImagePull 90
        hints "docker: error response from daemon"
        pattern r"^docker: Error response from daemon: .*(?:unauthorized|not authorized|pull access|access .{0,60}denied|manifest|(?:repository|image).{0,80}not found)"
        cause "the image cannot be pulled"
        fix "check its name and tag; if it is private, log in to the registry first (`docker login` with a token from a secret)"
        like "docker: Error response from daemon: unauthorized: access to the requested resource is not authorized.";
    Unhealthy 88
        hints "failed to start and then listen", "failed to start and listen", "boot timeout",
            "appears to be crashing", "circuit breaker", "unable to place a task", "smoke checks for",
            "unable to consistently start"
        pattern r"failed to start and (?:then )?listen|Boot timeout|appears to be crashing|deployment circuit breaker|unable to place a task|smoke checks for \S+ failed|unable to consistently start"
        cause "the deployed software does not start"
        fix "check the log of the started service: it crashes, listens on another port than expected, or takes too long"
        like "ERROR: (gcloud.run.deploy) Revision 'web-00012' is not ready and cannot serve traffic. The user-provided container failed to start and listen on the port defined by the PORT=8080 environment variable.";
    Unhealthy 82
        hints "degraded"
        pattern r"\b(?:to|is|status:?) +Degraded\b"
        cause "the deployed software is degraded"
        fix "check the named resource and its events"
        like "application 'shop' health state has transitioned from Progressing to Degraded";
    Locked 90
        hints "locked by", "currently locked", "state is locked"
        pattern r"\b(?:is|are) (?:currently |already )?locked\b|\blocked by\b"
        cause "something else holds a required lock"
        fix "wait for the other one to end; if none is left, release its lock as described in the line"
        like "error: the stack is currently locked by 1 lock(s).";
    ImagePull 92
        hints "does not exist or no pull access", "repository does not exist"
        pattern r"does not exist or no pull access|repository does not exist"
        cause "the image does not exist, or the step has no access to it"
        fix "check the image's name; if it is private, log in to its registry first"
        like "ERROR: repository acme/tools not found: does not exist or no pull access";
    ImagePull 92
        hints "no descriptor found for reference", "name unknown", "manifest for", "no image found in"
        pattern r"no descriptor found for reference|reference .{0,80} not found in image index|no image found in (?:image index|manifest list)"
        cause "the image or its tag does not exist, or not for this platform"
        fix "check its name and tag, that it was pushed, and for which platforms"
        like "initializing source oci:img:release-7: no descriptor found for reference \"release-7\"";
    Locked 93
        hints "is in progress", "in progress for", "cannot be performed at this time", "waiting for lock held", "failed to get lock", "is running as pid", "lock held by", "already holds the lock", "state.sls"
        pattern r"(?:update|operation|deployment|change|migration|restore|build) is (?:currently |already )?in progress for|cannot be performed at this time|timed out waiting for lock|failed to get lock\b|is running as PID \d+ and was started|already holds the lock|lock held by '?\S+"
        cause "something else holds a required lock"
        fix "wait for the other one to end; if none is left, release its lock"
        like "abort: working directory of r: timed out waiting for lock held by 'otherhost:999'",
            "flock: failed to get lock",
            "    The function \"state.sls\" is running as PID 19696 and was started at 2018, Jun 11 11:15:33.081852 with jid 20180611111533081852";
}
