//! What is to be created and exists already: versions, tags, branches, resources, names, files.

super::signature::signatures! {
    AlreadyExists 95
        of Npm, Node
        hints "cannot publish over", "previously published version", "epublishconflict"
        pattern r"cannot publish over (?:the )?(?:previously published versions?|existing version)(?:: (?P<version>[\w.+-]+))?|EPUBLISHCONFLICT"
        cause "the registry already has this version of the package: {version|see the line}"
        fix "raise the version in package.json before it is published; a published version cannot be replaced"
        like "npm error 403 403 Forbidden - PUT https://registry.example.com/@acme%2fui - You cannot publish over the previously published versions: 1.4.0.";
    AlreadyExists 94
        hints "file already exists", "already been uploaded", "this filename has already been used"
        pattern r"HTTPError: 400 .*(?:File already exists|filename has already been used)|File already exists\. See|this filename has already been used"
        cause "the index already has this file of the package"
        fix "raise the version before it is published, or upload with `--skip-existing`"
        like "HTTPError: 400 Bad Request from https://upload.example.org/legacy/ File already exists. See https://example.org/help/#file-name-reuse";
    AlreadyExists 94
        of Rust
        hints "is already uploaded", "already exists on"
        pattern r"crate (?:version )?`?(?P<version>[^`\s]+)`? is already uploaded|crate (?P<crate>\S+) already exists on"
        cause "the registry already has this version of the crate: {version/crate}"
        fix "raise the version in Cargo.toml before it is published"
        like "error: failed to publish: crate version `0.3.1` is already uploaded";
    AlreadyExists 92
        hints "already published", "already been published", "already been released", "version already exists"
        pattern r"(?:is|was|has) already (?:been )?(?:published|released)|version (?:\S+ )?already exists"
        cause "this version is published already"
        fix "raise the version before it is published; released versions are not replaced"
        like "Error: Failed to publish: version 1.4.0 of package shop is already published";
    AlreadyExists 93
        hints "already been pushed", "does not allow updating assets", "409 conflict", "status code: 409",
            "response status code does not indicate success: 409", "status code 409", "cannot be overwritten",
            "updating existing", "tag is immutable", "is immutable"
        pattern r"already been pushed|does not allow updating assets|(?:Failed to deploy artifacts|Could not (?:PUT|transfer)|deploy:deploy|Pushing|push).{0,200}\b409\b|does not indicate success: 409|tag is immutable|cannot be overwritten because the (?:tag|repository) is immutable|ImageTagAlreadyExists"
        cause "the repository already has this version"
        fix "raise the version before it is published; released versions are not replaced"
        like "[ERROR] Failed to execute goal org.apache.maven.plugins:maven-deploy-plugin:3.1.1:deploy (default-deploy) on project web: Failed to deploy artifacts: Could not transfer artifact com.acme:web:jar:1.0 from/to releases: status code: 409, reason phrase: Conflict (409)",
            "tag invalid: The image tag 'v1.2' already exists in the 'web' repository and cannot be overwritten because the tag is immutable.";
    AlreadyExists 93
        hints "already exists"
        pattern r"(?:fatal: )?(?:tag '(?P<tag>[^']+)' already exists|a branch named '(?P<branch>[^']+)' already exists)|\[rejected\] +(?P<pushed>\S+) -> \S+ \(already exists\)|(?:Release|Reference|tag_name|Tag name)\b.{0,40}already.?exists"
        cause "the tag or branch `{tag/branch/pushed|of the line}` already exists"
        fix "use another name or version, or delete the old one if it is a leftover of an earlier run"
        like "fatal: tag 'v1.4.0' already exists",
            " ! [rejected]        v1.4.0 -> v1.4.0 (already exists)",
            "HTTP 422: Validation Failed: Release.tag_name already exists";
    AlreadyExists 93
        hints "already exists and is not an empty directory"
        pattern r"destination path '(?P<path>[^']+)' already exists and is not an empty directory"
        cause "git cannot clone into `{path}`, which exists and is not empty"
        fix "clone into another directory, or update the clone that is there"
        like "fatal: destination path 'web' already exists and is not an empty directory.";
    AlreadyExists 93
        of Kubernetes
        hints "error from server (alreadyexists)", "already exists"
        pattern r#"Error from server \(AlreadyExists\)(?:: (?P<what>.*) already exists)?|(?P<kind>[\w.]+) "(?P<name>[^"]+)" already exists"#
        cause "the cluster already has {what/name|it}"
        fix "use `kubectl apply` instead of `create`, or delete the leftover of an earlier run first"
        like r#"Error from server (AlreadyExists): namespaces "review-7" already exists"#;
    AlreadyExists 94
        hints "cannot re-use a name", "invalid ownership metadata", "exists and cannot be imported"
        pattern r"cannot re-use a name that is still in use|(?P<what>\S+ \S+)? ?in namespace \S+ exists and cannot be imported|invalid ownership metadata"
        cause "the release or a resource of it already exists and belongs to something else"
        fix "use `helm upgrade --install`; a resource that was made by hand must be deleted or adopted (labels and annotations of Helm) first"
        like "Error: INSTALLATION FAILED: cannot re-use a name that is still in use",
            "Error: rendered manifests contain a resource that already exists. Unable to continue with install: Service \"web\" in namespace \"shop\" exists and cannot be imported into the current release: invalid ownership metadata";
    AlreadyExists 94
        hints "is already in use by container", "network with name", "already exists in network", "with that name already exists"
        pattern r#"container name "/?(?P<name>[^"]+)" is already in use|is already in use by container|network with name (?P<network>\S+) already exists|already exists in network|with that name already exists"#
        cause "a container or network with this name already exists: {name/network|see the line}"
        fix "remove the leftover of an earlier run at the start of the step (`docker rm -f`), or use a name per run"
        like "docker: Error response from daemon: Conflict. The container name \"/web\" is already in use by container \"9f3c\". You have to remove (or rename) that container to be able to reuse that name.";
    AlreadyExists 92
        hints "alreadyexists", "already_exists", "alreadyownedbyyou", "entityalreadyexists", "resourceexists",
            "invalidgroup.duplicate", "repositoryalreadyexists", "resourceconflictexception", "duplicateresource"
        pattern r"\b(?:\w*AlreadyExists\w*|ALREADY_EXISTS|BucketAlreadyOwnedByYou|ResourceExists\w*|InvalidGroup\.Duplicate|DuplicateResource\w*)\b"
        cause "the cloud already has the resource that is to be created"
        fix "import it into the state, use another name, or delete it if it is a leftover"
        like "An error occurred (EntityAlreadyExists) when calling the CreateRole operation: Role with name ci already exists.",
            "Error: creating S3 Bucket (acme-logs): BucketAlreadyExists";
    AlreadyExists 90
        of Infrastructure
        hints "already exists", "to be managed via terraform"
        pattern r"A resource with the ID \S+ already exists|Resource already exists|already exists - to be managed via Terraform|(?:name|Name) .{0,60}already exists|already exists in state"
        cause "the resource exists already and is not in the state"
        fix "import it (`terraform import`), or give the new one another name"
        like "│ Error: A resource with the ID \"/subscriptions/1/resourceGroups/web\" already exists - to be managed via Terraform this resource needs to be imported into the State.";
    AlreadyExists 90
        of Database
        hints "already exists", "database exists"
        pattern r#"database "(?P<name>[^"]+)" already exists|role "(?P<role>[^"]+)" already exists|Can't create database '(?P<mysql>[^']+)'; database exists"#
        cause "the database or role `{name/role/mysql}` already exists"
        fix "create it only if it is missing (`IF NOT EXISTS`), or drop the leftover of an earlier run first"
        like r#"createdb: error: database creation failed: ERROR:  database "shop_test" already exists"#;
    AlreadyExists 88
        hints "file exists", "eexist", "already exists. stop", "fileexistserror", "filealreadyexistsexception"
        pattern r#"(?P<path>[^\s:'"`]+)\W{0,4}: File exists|EEXIST: file already exists, \w+ '(?P<node>[^']+)'|\bEEXIST\b|FileExistsError: .*'(?P<python>[^']+)'|FileAlreadyExistsException: (?P<java>\S+)"#
        cause "`{path/node/python/java|a file}` exists already"
        fix "remove it at the start of the step, or write to a place that is new in each run"
        like "mkdir: cannot create directory 'dist': File exists",
            "npm error code EEXIST",
            "FileExistsError: [Errno 17] File exists: 'out/report'";
    AlreadyExists 76
        hints "already exist"
        pattern r"(?:error|fail\w*|cannot|could not|unable|conflict|refus\w+)\b.{0,160}\balready exists?\b|\balready exists?\b.{0,80}\b(?:fail\w*|abort\w*|error)\b"
        cause "what is to be created exists already"
        fix "use another name or version, create it only if it is missing, or remove the leftover of an earlier run"
        like "Error: could not create app: name shop-review already exists";
}
