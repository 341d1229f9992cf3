//! Permissions and credentials: files, clusters, clouds, registries, databases, repositories.

super::signature::signatures! {
    PermissionDenied 84
        hints "permission denied"
        pattern r#"(?P<path>[^\s:'"`(]+)\W{0,3}: Permission denied\s*$"#
        cause "this user has no permission for `{path}`"
        fix "make `{path}` executable or accessible to the user that runs the step (`git update-index --chmod=+x` for a script)"
        like "bash: ./gradlew: Permission denied",
            "mkdir: cannot create directory '/opt/app': Permission denied";
    PermissionDenied 78
        hints "permission denied", "eacces"
        pattern r#"permission denied|EACCES"#
        cause "this user lacks the permission"
        fix "give the user that runs the step the permission, or write to the step's working directory instead"
        like "npm ERR! Error: EACCES: permission denied, mkdir '/usr/lib/node_modules/serve'",
            "open /var/lib/app/state.db: permission denied";
    PermissionDenied 93
        of Containers, Kubernetes
        hints "permission denied"
        pattern r#"exec: \\?"(?P<program>[^"\\]+)\\?": permission denied"#
        cause "`{program}`, which the container is to run, is not executable"
        fix "make it executable before the image is built (`git update-index --chmod=+x`, or `COPY --chmod=755`)"
        like "docker: Error response from daemon: OCI runtime create failed: unable to start container process: exec: \"./start.sh\": permission denied: unknown.";
    PermissionDenied 92
        hints "may not be executed"
        pattern r"could not be started: the program `(?P<path>[^`]+)` may not be executed"
        cause "the program `{path}` of the step is not executable"
        fix "make `{path}` executable for the user that runs the steps (`chmod +x`, and commit it)"
        like "lockkeeper: the step could not be started: the program `./deploy.sh` may not be executed";
    PermissionDenied 93
        hints "docker daemon socket", "docker.sock"
        pattern r"permission denied while trying to connect to the docker (?:daemon socket|API)|docker\.sock: connect: permission denied"
        cause "the user that runs the step has no access to the Docker daemon"
        fix "put that user into the group `docker`, or use a rootless daemon"
        like "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock";
    PermissionDenied 95
        hints "cannot "
        pattern r#"User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<what>[^"]+)""#
        cause "`{user}` is not allowed to {verb} `{what}` in the cluster"
        fix "give `{user}` a role that allows it to {verb} `{what}`, or have somebody with that permission do it once"
        like r#"Error from server (Forbidden): pods is forbidden: User "ci" cannot list resource "pods" in API group "" in the namespace "prod""#;
    PermissionDenied 93
        hints "not authorized to perform"
        pattern r"(?:User: )?(?P<user>\S*)(?: is)? not authorized to perform:? (?P<what>[\w:*]+)"
        cause "the step's role in the cloud lacks the permission `{what}`"
        fix "add `{what}` on that resource to the policy of the role"
        like "An error occurred (AccessDenied) when calling the PutObject operation: User: arn:aws:iam::1:user/ci is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::x\"";
    PermissionDenied 88
        hints "accessdenied", "access denied", "permission_denied", "authorizationfailed",
            "does not have permission", "insufficient permission", "does not have authorization",
            "required permission"
        pattern r"\bAccessDenied(?:Exception)?\b|PERMISSION_DENIED|AuthorizationFailed|does not have (?:the )?(?:permissions?|authorization)|insufficient permissions?|required permission"
        cause "the step's account is known but lacks the permission"
        fix "give that account the permission the line names, or use another one"
        like "ERROR: (gcloud.run.deploy) PERMISSION_DENIED: Permission 'run.services.get' denied on resource",
            "An error occurred (AccessDenied) when calling the ListBuckets operation: Access Denied";
    PermissionDenied 88
        hints "permission denied for"
        pattern r"permission denied for (?:table|schema|relation|database|sequence|function|view) (?P<what>\S+)"
        cause "the database user has no permission for `{what}`"
        fix "grant it to the user that the step connects as"
        like "ERROR:  permission denied for schema billing";
    PermissionDenied 90
        hints "denied to"
        pattern r"Permission to (?P<what>\S+) denied to (?P<user>[^.\s]+)"
        cause "`{user}` has no write access to the repository {what}"
        fix "give that user or deploy key write access, or use another one"
        like "remote: Permission to acme/web.git denied to acme-bot.";
    PermissionDenied 88
        hints "insufficient_scope", "insufficient scope", "higher privileges", "lacks the required", "missing scope", "missing required scope"
        pattern r"insufficient[_ ]scope|higher privileges than provided|lacks the required (?:scope|permission)|missing (?:required )?scopes?\b"
        cause "the token of the step lacks a scope"
        fix "use a token with the scope that the line names"
        like "403 {error: insufficient_scope}, {error_description: The request requires higher privileges than provided by the access token.}";
    PermissionDenied 88
        hints "access to the path", "is disabled on this system", "protected mode", "read only replica", "is in protected mode"
        pattern r"Access to the path '(?P<path>[^']+)' is denied|running scripts is disabled on this system|DENIED Redis is running in protected mode|READONLY You can't write against a read only replica"
        cause "it is not allowed: {path|see the line}"
        fix "give the account of the step the permission, or use a place where it may write"
        like "System.UnauthorizedAccessException: Access to the path '/app/data' is denied.",
            "READONLY You can't write against a read only replica.";
    PermissionDenied 80
        hints "operation not permitted", "eperm"
        pattern r"(?P<path>[^\s:']+)\W{0,3}: Operation not permitted|\bEPERM\b"
        cause "the operating system does not allow it for this user or in this container"
        fix "avoid the privileged operation (changing owners, mounting, binding low ports), or grant the privilege to the step"
        like "chown: changing ownership of 'data': Operation not permitted";
    PermissionDenied 86
        hints "read-only file system", "erofs"
        pattern r"(?P<path>[^\s:']+)\W{0,3}: Read-only file system|EROFS"
        cause "it writes to a read-only file system"
        fix "write to the working directory or a mounted volume instead"
        like "touch: cannot touch '/etc/app.conf': Read-only file system";
    PermissionDenied 86
        hints "dubious ownership"
        pattern r"detected dubious ownership in repository at '(?P<path>[^']+)'"
        cause "git refuses to use the repository {path} because it belongs to another user"
        fix "clone and use it as the same user, or allow it for the call (`git -c safe.directory=…`)"
        like "fatal: detected dubious ownership in repository at '/srv/work'";
    PermissionDenied 78
        hints "403 forbidden", "403", "forbidden"
        pattern r"\b(?:HTTP(?:/[\d.]+)?|status(?: code)?:?|error:?|returned|answered(?: with status)?|with)\s+\(?403\b|\b403 Forbidden|\bForbidden\b.*\b403\b"
        cause "a server knows the caller and denies the request (403)"
        fix "check the account of the request and its permissions; the usual reason is a token that is expired or lacks a scope"
        like "npm ERR! 403 403 Forbidden - PUT https://npm.example.com/@acme%2fweb - You may not perform that action with these credentials.",
            "curl: (22) The requested URL returned error: 403";

    Authentication 95
        hints "permission denied ("
        pattern r"Permission denied \((?P<how>[^)]*(?:publickey|password|keyboard)[^)]*)\)"
        cause "the SSH server does not accept the credentials of the step (it accepts: {how})"
        fix "check that the private key is a secret of this pipeline, that it is loaded, and that its public key is authorized there"
        like "git@github.com: Permission denied (publickey).";
    Authentication 92
        hints "host key verification failed"
        pattern r"Host key verification failed"
        cause "the SSH server's host key is unknown or has changed"
        fix "keep the checked key of the host in a file of the commit or in a secret, and pass it (`-o UserKnownHostsFile=…`); if it changed, find out why"
        like "Host key verification failed.";
    Authentication 95
        hints "password authentication failed"
        pattern r#"password authentication failed for user \\?"(?P<user>[^"\\]+)"#
        cause "the database does not accept the password of user `{user}`"
        fix "update the secret that holds the password of `{user}`; it may have been rotated"
        like r#"FATAL:  password authentication failed for user "app""#;
    Authentication 93
        hints "access denied for user"
        pattern r"Access denied for user '(?P<user>[^']*)'@'[^']*' \(using password: (?P<used>\w+)\)"
        cause "the database does not accept user `{user}` (password given: {used})"
        fix "update the secret that holds the password of `{user}`, or set it if none was given"
        like "ERROR 1045 (28000): Access denied for user 'shop'@'10.0.0.7' (using password: YES)";
    Authentication 93
        hints "ora-01017", "ora-28000", "login failed for user", "logon denied", "authentication plugin"
        pattern r"ORA-01017|ORA-28000|Login failed for user '(?P<user>[^']*)'|logon denied"
        cause "the database does not accept the user {user|of the step} or its password"
        fix "update the secret that holds the password; the account may also be locked"
        like "ORA-01017: invalid username/password; logon denied",
            "Sqlcmd: Error: Microsoft ODBC Driver 18 for SQL Server : Login failed for user 'shop'.";
    Authentication 90
        hints "noauth", "wrongpass"
        pattern r"\b(?:NOAUTH|WRONGPASS)\b"
        cause "the Redis password is missing or wrong"
        fix "set the secret that holds the password of Redis"
        like "NOAUTH Authentication required.";
    Authentication 90
        hints "could not read username", "could not read password", "authentication failed for",
            "terminal prompts disabled"
        pattern r"could not read (?:Username|Password) for '(?P<url>[^']+)'|Authentication failed for '(?P<at>[^']+)'|terminal prompts disabled"
        cause "git has no valid credentials for {url/at}"
        fix "give the step a token for it as a secret, and configure git to use it (a credential helper, or `insteadOf`)"
        like "fatal: Authentication failed for 'https://git.acme.example/shop/web.git/'",
            "fatal: could not read Username for 'https://github.com': terminal prompts disabled";
    Authentication 90
        hints "http basic: access denied", "invalid username or password", "invalid username or token",
            "incorrect username or password", "bad credentials", "invalid credentials"
        pattern r"HTTP Basic: Access denied|(?:invalid|incorrect) username or (?:password|token)|Bad credentials|invalid credentials"
        cause "user name and password or token are not accepted"
        fix "update the secret that holds them; they may have expired or been revoked"
        like "remote: HTTP Basic: Access denied. The provided password or token is incorrect",
            "Error response from daemon: login attempt failed: incorrect username or password";
    Authentication 88
        hints "no basic auth credentials", "unauthorized: authentication required",
            "requested access to the resource is denied", "insufficient_scope"
        pattern r"no basic auth credentials|unauthorized: authentication required|denied: requested access to the resource is denied|authorization failed.*insufficient_scope|insufficient_scope: authorization failed"
        cause "the registry denies access: the step is not logged in, or has no access to that repository"
        fix "log in to the registry first (`docker login` with a token from a secret), with an account that has access"
        like "denied: requested access to the resource is denied",
            "unauthorized: authentication required";
    Authentication 90
        hints "expiredtoken", "token has expired", "token is expired", "token expired", "credentials have expired",
            "session has expired", "jwt expired", "expired token"
        pattern r"ExpiredToken(?:Exception)?|(?:token|credentials?|session)(?: included in the request)? (?:has|have|is) expired|(?:token|jwt) expired|expired token"
        cause "the credentials have expired"
        fix "renew them before the step, or use ones that stay valid for a whole deployment"
        like "An error occurred (ExpiredToken) when calling the AssumeRole operation: The security token included in the request is expired";
    Authentication 90
        hints "unable to locate credentials", "could not load credentials", "no valid credential sources",
            "could not find default credentials", "nocredentialproviders", "credentials could not be loaded",
            "no credentials found", "please run 'az login'", "gcloud auth login"
        pattern r"Unable to locate credentials|could not load credentials|no valid credential sources|could not find default credentials|NoCredentialProviders|credentials could not be loaded|no credentials found|az login|gcloud auth login"
        cause "the step has no credentials for the cloud"
        fix "add them as secrets of the pipeline, under the names that the tool reads (a step does not see the server's environment)"
        like "Unable to locate credentials. You can configure credentials by running \"aws configure\".";
    Authentication 90
        hints "invalidclienttokenid", "signaturedoesnotmatch", "unrecognizedclientexception", "invalidaccesskeyid",
            "authfailure"
        pattern r"InvalidClientTokenId|SignatureDoesNotMatch|UnrecognizedClientException|InvalidAccessKeyId|\bAuthFailure\b"
        cause "the cloud does not accept the access key"
        fix "update the secrets that hold the key's id and secret; both must be from the same key"
        like "An error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token included in the request is invalid.";
    Authentication 92
        of Npm, Node
        hints "eneedauth", "e401", "incorrect or missing password", "unable to authenticate", "fetch_401", "yn0041", "eotp"
        pattern r"\bENEEDAUTH\b|\bE401\b|\bEOTP\b|ERR_PNPM_FETCH_401|YN0041|Incorrect or missing password|Unable to authenticate"
        cause "the npm registry does not accept the step's token"
        fix "set the token as a secret and reference it in `.npmrc`; it may have expired"
        like "npm ERR! code E401";
    Authentication 88
        hints "you must be logged in", "not logged in", "login required", "please log in",
            "the server has asked for the client to provide credentials"
        pattern r"You must be logged in to the server|the server has asked for the client to provide credentials|not logged in(?:to)?\b|login required|please log in"
        cause "the server requires a login"
        fix "add credentials as secrets and log in first; existing ones may have expired"
        like "error: You must be logged in to the server (Unauthorized)";
    Authentication 78
        hints "401", "unauthorized", "unauthenticated"
        pattern r"\b(?:HTTP(?:/[\d.]+)?|status(?: code)?:?|error:?|returned|answered(?: with status)?|with|code)\s+\(?401\b|\b401 (?:Unauthorized|Client Error)|\bUnauthorized\b|\bUnauthenticated\b"
        cause "a server does not accept the caller's credentials (401)"
        fix "check the token of the request: it is missing, wrong or expired"
        like "Error: failed to push chart: server responded with status 401 Unauthorized",
            "HTTP/1.1 401 Unauthorized";
    Authentication 92
        hints "non-existent authentication information", "check the user token", "required token could not be found",
            "have you run firebase login", "specified token is not valid", "failed to fetch oauth token", "failed to authorize",
            "no signing certificate", "requires a development team", "no profiles for", "proxy authentication required",
            "authorization token is invalid", "invalid x-api-key", "incorrect api key", "sasl authentication"
        pattern r"non-existent authentication information|Not authorized\. Please check the user token|Required token could not be found|have you run firebase login|specified token is not valid|failed to (?:authorize: )?(?:failed to )?fetch (?:oauth|anonymous) token.*\b40[13]\b|No signing certificate|requires a development team|No profiles for '[^']+' were found|Proxy Authentication Required|invalid x-api-key|Incorrect API key|SASL authentication failed"
        cause "credentials are missing or not accepted"
        fix "update the secret that holds them, and check that the step gets it under the name that the tool reads"
        like "HTTPError: 403 Forbidden from https://upload.example.org/legacy/ Invalid or non-existent authentication information.",
            "ERROR: Not authorized. Please check the user token in the property 'sonar.token'";
    Authentication 80
        hints "authentication fail", "authentication error", "invalid api key", "invalid token", "login failed",
            "invalid_grant", "api key is invalid", "authentication required", "auth fail"
        pattern r"authentication (?:failed|failure|error|required)|invalid (?:api.?key|(?:access |auth )?token)\b|login failed|invalid_grant|api key is invalid|\bauth fail"
        cause "credentials are not accepted"
        fix "update the secret that holds them; they may be wrong, expired or revoked"
        like "Error: invalid_grant: Invalid JWT Signature.",
            "sentry-cli: error: API request failed: Invalid token (http status: 401)";
    Authentication 88
        hints "decrypt", "no secret key", "mac mismatch"
        pattern r"gpg: decryption failed: No secret key|(?:error|failed|could not|cannot|unable to)\b.*\bdecrypt(?:ing|ed)?\b.*\b(?:key|file|data|secret)|bad decrypt|MAC mismatch"
        cause "a file cannot be decrypted: the key for it is missing or the wrong one"
        fix "add the key that it was encrypted for as a secret of the pipeline"
        like "gpg: decryption failed: No secret key";
    PermissionDenied 88
        hints "eacces"
        pattern r"EACCES: permission denied, \w+ '(?P<path>[^']+)'"
        cause "this user has no permission for `{path}`"
        fix "write where the step's user has access (its working directory, its own prefix), or give that user the permission"
        like "npm error Error: EACCES: permission denied, mkdir '/usr/local/lib/node_modules/serve'";
    PermissionDenied 90
        hints "sudo:"
        pattern r"sudo: (?:a (?:password|terminal) is required|\S+ is not in the sudoers|no tty present)"
        cause "the step calls `sudo`, which asks for a password"
        fix "avoid `sudo`, or allow the user to run exactly that command without a password"
        like "sudo: a password is required";
    PermissionDenied 90
        hints "admission webhook"
        pattern r#"admission webhook "(?P<hook>[^"]+)" denied the request"#
        cause "a policy of the cluster ({hook}) does not allow it"
        fix "change the manifest as the policy's message says, or have an exception added"
        like r#"Error from server: admission webhook "validate.kyverno.svc" denied the request: resource Deployment was blocked"#;
    PermissionDenied 90
        hints "are too open", "unprotected private key", "bad owner or permissions"
        pattern r"are too open|UNPROTECTED PRIVATE KEY FILE|Bad owner or permissions"
        cause "SSH refuses a key file that others can read"
        fix "write the key with mode 600 (`umask 077` before) in the step"
        like "Permissions 0644 for '/srv/work/id_ed25519' are too open.";
    PermissionDenied 72
        hints "not allowed", "not permitted", "not authorized", "not authorised", "is denied", "forbidden"
        pattern r"not (?:allowed|permitted|authori[sz]ed) to (?:access|push|pull|read|write|create|delete|update|modify|change|merge|perform|execute|run|use|view|deploy|publish|download|upload|assume|list|get|approve|do)\b|access (?:to .{1,120} )?is denied|\bis forbidden\b"
        cause "the step's account lacks the permission"
        fix "give that account the permission, or use another one"
        like "GitLab: You are not allowed to push code to protected branches on this project.";
    Authentication 90
        hints "too many authentication failures", "invalid format", "error in libcrypto",
            "remote host identification has changed"
        pattern r"Too many authentication failures|Load key \x22[^\x22]+\x22: (?:invalid format|error in libcrypto)|REMOTE HOST IDENTIFICATION HAS CHANGED"
        cause "the SSH key cannot be used, or the server's host key has changed"
        fix "check the secret that holds the key (line breaks are lost easily), and the known key of the host"
        like "Load key \"/srv/work/id_rsa\": error in libcrypto";
    Authentication 88
        hints "role \""
        pattern r#"role "(?P<user>[^"]+)" does not exist"#
        cause "the database has no user `{user}`"
        fix "create `{user}`, or correct the user name the step connects with"
        like r#"FATAL:  role "shop" does not exist"#;
    Authentication 90
        hints "active account selected", "aadsts", "no active account"
        pattern r"do not currently have an active account selected|AADSTS\d+"
        cause "the step is not logged in to the cloud"
        fix "log in first, with credentials from secrets"
        like "ERROR: (gcloud.container.clusters.get-credentials) You do not currently have an active account selected.";
    PermissionDenied 82
        hints "read only", "read-only"
        pattern r"\b(?:is|as|marked|are) (?:\w+ )?read[- ]only\b|read-only (?:transaction|mode|user|access)"
        cause "this account, or this location, has read access only"
        fix "use an account, a key or a location with write access"
        like "ERROR: The key you are authenticating with has been marked as read only.",
            "ERROR:  cannot execute INSERT in a read-only transaction";
    PermissionDenied 95
        hints "are you root?", "could not open lock file", "must be run as root", "must be root", "need to be root", "requires root", "superuser privileges", "root privileges"
        pattern r"are you root\?|Could not open lock file .{0,80}Permission denied|(?:must|need to|has to) be (?:run as )?(?:the )?root\b|(?:requires?|need) (?:root|superuser)(?: privileges| access)?|superuser privileges|This command has to be run"
        cause "it needs the rights of root, which the step does not have"
        fix "run it with `sudo` or as root in the image, or use a place that needs no such rights"
        like "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
            "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?",
            "Error: This command has to be run with superuser privileges (under the root user on most systems).";
    Authentication 93
        hints "unable to authenticate", "authentication error when trying to connect via ssh", "no supported methods remain", "attempted methods", "too many authentication failures"
        pattern r"ssh: (?:handshake failed: ssh: )?unable to authenticate|authentication error when trying to connect via SSH|no supported methods remain|Too many authentication failures"
        cause "the SSH server does not accept the credentials of the step"
        fix "check the user name and that the private key of the step belongs to a key that is authorized there"
        like "ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey], no supported methods remain";
    Authentication 91
        hints "secret key parts are not available", "no secret key", "no default secret key", "signing failed", "failed to sign", "signing certificate", "provisioning profile",
            "code signing", "errsecinternalcomponent", "no signing", "codesign", "keystore was tampered", "no identity found", "no valid code", "no matching profiles",
            "inappropriate ioctl"
        pattern r"secret key parts are not available|gpg: .*(?:No secret key|no default secret key|signing failed)|gpg failed to sign|Signing certificate (?:is invalid|.{0,80}not valid|.{0,60}(?:revoked|expired))|No (?:signing certificate|profiles? for|matching profiles)|Provisioning profile .{0,120}(?:expired|doesn't include|not found|doesn't match)|requires a provisioning profile|Code signing is required|errSecInternalComponent|Keystore was tampered with|no (?:valid code.signing )?identit(?:y|ies) found|code object is not signed"
        cause "the key or certificate that signs is missing, expired or not usable"
        fix "add the key or certificate (with its password) as a secret of the pipeline, or renew it"
        like "gpg: secret key parts are not available",
            "error: gpg failed to sign the data",
            "error: Signing certificate is invalid. Signing certificate \"iPhone Distribution: Example Ltd\", serial number \"1C\", is not valid for code signing.",
            "keystore load: Keystore was tampered with, or password was incorrect";
    Authentication 86
        hints "credential not found", "credentials not found", "no credentials", "not logged in", "you must log in", "need to log in", "please log in", "please login", "login required",
            "authentication required", "requires authentication", "must be authenticated", "unauthenticated", "invalid api key", "invalid token", "invalid access token", "api key is invalid",
            "token is invalid", "invalid_grant", "invalid_client", "bad token", "incorrect api key"
        pattern r"Credentials? not found for|no credentials (?:for|available|provided|configured)|(?:you are |you're )?not (?:currently )?logged in|(?:must|need to|please|have to) log ?in\b|login required|authentication (?:is )?required|requires authentication|must be authenticated|\bunauthenticated\b|(?:invalid|incorrect|bad) (?:api |access |auth\w* )?(?:key|token)\b(?: provided)?|(?:api key|token) is (?:invalid|not valid)|\binvalid_(?:grant|client)\b"
        cause "credentials are missing or not accepted"
        fix "add valid credentials as a secret of the pipeline, under the name that the tool reads"
        like "ERROR    NonInteractive: Credential not found for username.",
            "Error: not logged in",
            "oauth2: \"invalid_grant\" \"Token has been revoked.\"";
}
