//! What shells and the programs in them say: commands, files and variables that are not there, scripts that do not parse.

super::signatures! {
    MissingCommand 95 ["command not found"] r"(?:^|[\s:])(?P<program>[^\s:]+): command not found"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "deploy.sh: line 3: kubectx: command not found";
    MissingCommand 95 ["command not found:"] r"command not found: (?P<program>\S+)"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "zsh:1: command not found: pnpm";
    MissingCommand 92 [": not found"] r"(?:^|/)(?:ba|da|a|k)?sh: (?:line )?(?:\d+: )?(?P<program>[^\s:]+): not found\s*$"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "/bin/sh: 1: envsubst: not found", "sh: yq: not found";
    MissingCommand 90 [": not found"] r"^\S+: (?:line )?\d+: (?P<program>[^\s:]+): not found\s*$"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "./deploy.sh: 14: rsync: not found";
    MissingCommand 95 ["executable file not found"] r#"exec: \\?"(?P<program>[^"\\]+)\\?": executable file not found"#
        cause "the program `{program}` is not in the PATH of where it is started"
        fix "install `{program}` there (in the image, if it is a container), or correct the name of the command"
        like r#"exec: "protoc-gen-go": executable file not found in $PATH"#;
    MissingCommand 95 ["could not be started: the program `"] r"could not be started: the program `(?P<program>[^`]+)` was not found"
        cause "the program `{program}` of the step is not installed on the machine that runs it"
        fix "install `{program}` on the machine that runs the steps, or correct `run` of the step; it is searched for in PATH only"
        like "lockkeeper: the step could not be started: the program `helmfile` was not found";
    MissingCommand 93 ["env: "] r"\benv: \W*(?P<program>[\w.+-]+?)(?:\\r)?\W*: No such file or directory"
        cause "the interpreter `{program}` that a script asks for is not installed"
        fix "install `{program}`, or correct the first line of the script (a carriage return at its end counts too)"
        like "/usr/bin/env: 'python': No such file or directory", "env: can't execute 'node': No such file or directory";
    MissingCommand 93 ["can't execute"] r"can't execute '(?P<program>[^']+)': No such file"
        cause "the interpreter `{program}` that a script asks for is not installed"
        fix "install `{program}`, or correct the first line of the script"
        like "env: can't execute 'node': No such file or directory";
    MissingCommand 92 ["no such file or directory"] r"^make(?:\[\d+\])?: (?P<program>[\w.+-]+): No such file or directory"
        cause "the command `{program}` that a Makefile calls is not installed"
        fix "install `{program}` where the step runs"
        like "make: protoc: No such file or directory";
    MissingCommand 88 ["enoent"] r"spawn (?P<program>[^\s]+) ENOENT"
        cause "the program `{program}` that Node wanted to start is not installed"
        fix "install `{program}` where the step runs"
        like "Error: spawn chromium ENOENT";
    MissingCommand 88 ["no such command", "no such subcommand"] r"no such (?:sub)?command: `(?P<program>[^`]+)`"
        cause "cargo has no command `{program}`: it is not installed"
        fix "install it (`cargo install cargo-{program}`) where the step runs"
        like "error: no such command: `nextest`";
    MissingCommand 88 ["filenotfounderror"] r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<program>[a-z][\w+-]*)'\s*$"
        cause "`{program}`, which a Python program wanted to start or to open, is not there"
        fix "install `{program}` if it is a program; if it is a file, see that it is in the working directory of the step"
        like "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'";
    MissingCommand 85 ["missing script"] r#"missing script:? "?(?P<program>[\w:.-]+)"#
        cause "package.json has no script `{program}`"
        fix "add `{program}` to the scripts of package.json, or correct the name in the step"
        like r#"npm ERR! Missing script: "build:review""#;
    MissingCommand 85 ["command \""] r#"(?:error|ERR\S*) +Command "(?P<program>[^"]+)" not found"#
        cause "the package manager finds no command `{program}`: neither a script nor an installed package has it"
        fix "add the package that has `{program}` to the dependencies, or the script to package.json"
        like r#"error Command "vite" not found."#;
    MissingCommand 60 ["not installed"] r"(?P<program>[\w.+-]+)(?: is|:) not installed(?:[.,;!]|\s+(?:or|on|in)\b|$)"
        cause "`{program}` is not installed"
        fix "install `{program}` where the step runs"
        like "deploy: kubectl is not installed";

    MissingFile 84 ["no such file or directory"] r#"(?P<path>[^\s:'"`]+)\W{0,4}: No such file or directory"#
        cause "`{path}` is not there"
        fix "see that `{path}` is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "tar: dist/app.js: Cannot stat: No such file or directory", "cp: cannot stat 'build/index.html': No such file or directory";
    MissingFile 86 ["enoent"] r"ENOENT: no such file or directory, \w+ '(?P<path>[^']+)'"
        cause "`{path}` is not there"
        fix "see that `{path}` is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "Error: ENOENT: no such file or directory, open '/srv/work/dist/manifest.json'";
    MissingFile 86 ["no such file or directory:"] r#"No such file or directory: b?['"](?P<path>[^'"]+)"#
        cause "`{path}` is not there"
        fix "see that `{path}` is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "FileNotFoundError: [Errno 2] No such file or directory: 'settings/review.toml'";
    MissingFile 86 ["filenotfoundexception", "nosuchfileexception"] r"(?:FileNotFoundException|NoSuchFileException): (?P<path>\S+)"
        cause "`{path}` is not there"
        fix "see that `{path}` is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "java.io.FileNotFoundException: conf/app.properties (No such file or directory)";
    MissingFile 78 ["no such file or directory"] r"no such file or directory"
        cause "a file or directory is not there"
        fix "see that it is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "fatal: cannot change to 'charts/web': No such file or directory";
    MissingFile 88 ["no rule to make target"] r"No rule to make target [`'](?P<path>[^']+)'"
        cause "make has neither a rule for `{path}` nor such a file"
        fix "add the target `{path}` to the Makefile, or the file to the commit; a renamed source file is the usual reason"
        like "make: *** No rule to make target 'gen/api.pb.go', needed by 'build'.  Stop.";
    MissingFile 88 ["can't open file", "could not open input file", "unable to access jarfile"] r"(?:can't open file|could not open input file:|unable to access jarfile) \W?(?P<path>[^\s':]+)"
        cause "the program to run, `{path}`, is not there"
        fix "see that `{path}` is part of the commit or made by an earlier step, and that the step runs in the directory it expects"
        like "python: can't open file '/srv/work/manage.py': [Errno 2] No such file or directory", "Error: Unable to access jarfile target/app.jar";
    MissingFile 86 ["cannot open "] r"\bcannot open (?P<path>[^\s:]+): No such file"
        cause "`{path}` is not there"
        fix "see that `{path}` is part of the commit or made by an earlier step, and that the step runs in the directory it expects"
        like "sh: 0: cannot open deploy.sh: No such file";
    MissingFile 88 ["could not find or load main class"] r"Could not find or load main class (?P<path>\S+)"
        cause "Java does not find the class `{path}`"
        fix "check the class path and the name of the main class; the build that makes the jar may not have run"
        like "Error: Could not find or load main class com.acme.Main";
    MissingFile 86 ["does not exist"] r#"the path "(?P<path>[^"]+)" does not exist"#
        cause "`{path}` is not there"
        fix "see that `{path}` is part of the commit, and that the step runs in the directory it expects"
        like r#"error: the path "overlays/review-9" does not exist"#;
    MissingFile 86 ["env file"] r"(?:env file|Couldn't find env file:?) (?P<path>\S+)(?: not found|$)"
        cause "the file of variables `{path}` is not there"
        fix "see that `{path}` is made before the step, or leave it out"
        like "env file /srv/work/.env.review not found: stat /srv/work/.env.review";
    MissingFile 72 ["does not exist", "not found", "doesn't exist"] r#"(?:file|directory|folder|path|config(?:uration)?(?: file)?)[: ]+['"`]?(?P<path>[\w.~-]*/[\w./~-]+|[\w-]+\.\w{1,5})['"`]? (?:does not exist|doesn't exist|not found|could not be found|was not found)"#
        cause "`{path}` is not there"
        fix "see that `{path}` is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "error: config file ./deploy/review.toml does not exist";

    MissingVariable 95 ["unbound variable"] r"(?P<name>\w+): unbound variable"
        cause "the variable `{name}` is not set, and the script does not go on without it"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "deploy.sh: line 14: TARGET: unbound variable";
    MissingVariable 95 ["parameter not set", "parameter null or not set"] r"(?P<name>\w+): parameter (?:null or )?not set"
        cause "the variable `{name}` is not set, and the script does not go on without it"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "./run.sh: 7: API_URL: parameter not set";
    MissingVariable 95 ["there is no variable `"] r"there is no variable `(?P<name>[^`]+)`"
        cause "the request of the step names the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret, or correct its name in the step"
        like "lockkeeper: the step could not be prepared: there is no variable `DEPLOY_TOKEN`";
    MissingVariable 92 ["environment variable", "env var", "envvar"] r#"(?:environment|env) ?var(?:iable)?s?:? [`'"$]*\{?(?P<name>[A-Z][A-Z0-9_]+)\b[`'"}]* (?:is |was |are |has )?(?:not (?:been )?(?:set|found|defined|present|provided)|missing|required|undefined|must be|empty|unset)"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "Error: environment variable STRIPE_KEY is not set";
    MissingVariable 92 ["environment variable", "env var"] r#"(?:missing|required|undefined|unset|no such|set the|please set|set)(?: the| required| mandatory)* (?:environment|env) var(?:iable)?s?:? *[(\[`'"$]*(?P<name>[A-Z][A-Z0-9_]+)"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "fatal: missing required environment variable: SENTRY_DSN";
    MissingVariable 85 ["must be set", "not set", "is required", "is missing", "is undefined", "is empty", "not defined", "must be defined", "not provided"] r#"\b(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))[`'"]? (?:must be (?:set|defined)|(?:is |was )?not (?:set|defined|provided)|is (?:required|missing|undefined|empty|unset))"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "config: DATABASE_URL must be set", "AWS_REGION is required";
    MissingVariable 84 ["please set", "please provide", "you must set", "please specify", "missing required"] r#"(?:please (?:set|provide|specify)|you must set|missing required (?:setting|config|configuration|secret|parameter|value)s?:?) (?:the )?[`'"$]*(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "please set CLOUDFLARE_API_TOKEN";
    MissingVariable 88 ["keyerror"] r"KeyError: '(?-i:(?P<name>[A-Z][A-Z0-9_]{2,}))'"
        cause "a Python program asks for the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "KeyError: 'QUEUE_URL'";
    MissingVariable 88 ["key not found"] r#"key not found: "(?P<name>[A-Z][A-Z0-9_]{2,})""#
        cause "a Ruby program asks for the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like r#"KeyError: key not found: "RAILS_MASTER_KEY""#;
    MissingVariable 92 ["no value for required variable"] r"No value for required variable"
        cause "Terraform has no value for a variable that has no default"
        fix "pass it with `-var`, a `.tfvars` file, or as a variable of the environment named `TF_VAR_…`"
        like "Error: No value for required variable";
    MissingVariable 92 ["could not resolve placeholder"] r"Could not resolve placeholder '(?P<name>[^']+)'"
        cause "the application's configuration has no value for `{name}`"
        fix "set `{name}` in its properties, or the variable of the environment that it is read from"
        like "java.lang.IllegalArgumentException: Could not resolve placeholder 'billing.url' in value \"${billing.url}\"";
    MissingVariable 92 ["is missing a value"] r"required variable (?P<name>\w+) is missing a value"
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "error while interpolating services.web.image: required variable IMAGE_TAG is missing a value: set it";
    MissingVariable 88 ["is undefined"] r"'(?P<name>\w+)' is undefined"
        cause "a template uses the variable `{name}`, which is not defined"
        fix "define `{name}` for this environment, or give it a default in the template"
        like "fatal: [web-1]: FAILED! => {\"msg\": \"The task includes an option with an undefined variable. The error was: 'db_host' is undefined\"}";
    MissingVariable 86 ["secret", "configmap"] r#"(?:secrets?|configmaps?) \\?"(?P<name>[^"\\]+)\\?" not found|couldn't find key (?P<key>\S+) in (?:Secret|ConfigMap) (?P<of>[\w./-]+)"#
        cause "a secret or a configuration that the workload refers to is not there: `{name|}{key|}`"
        fix "create it in the namespace before the rollout, or correct its name in the manifest"
        like r#"Warning  Failed  4s  kubelet  Error: secret "web-db" not found"#;
    MissingVariable 86 ["execution error at"] r"execution error at \((?P<where>[^)]+)\): (?P<what>[^\r\n]+)"
        cause "the chart wants a value that is not given: {what} ({where})"
        fix "pass the value with `--set` or in a values file of this environment"
        like "Error: execution error at (web/templates/deployment.yaml:21:20): image.tag is required";
    MissingVariable 86 ["input required and not supplied"] r"Input required and not supplied: (?P<name>\S+)"
        cause "the input `{name}` is not given"
        fix "pass `{name}`, or set the variable it is taken from"
        like "Error: Input required and not supplied: token";
    MissingVariable 84 ["the secret_key setting", "missing `secret_key_base`"] r"SECRET_KEY setting must not be empty|Missing `secret_key_base`"
        cause "the application's secret key is not set"
        fix "add it as a secret of the pipeline under the name that the application reads it from"
        like "django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.";

    Syntax 92 ["syntax error near unexpected token", "unexpected end of file", "syntax error: unexpected", "unexpected eof while looking"] r"^(?:lockkeeper: )?(?P<file>\S+?): (?:eval: |-c: )?(?:line )?(?P<line>\d+): (?:(?:\S+ )?syntax error.*|unexpected EOF.*|syntax error: unexpected end of file.*)"
        cause "the shell script {file} does not parse at line {line}"
        fix "correct {file} around line {line}: an unclosed quote, `if` or `do` above it is the usual reason; `bash -n {file}` checks it without running"
        like "ci/build.sh: line 9: syntax error near unexpected token `done'", "x.sh: line 40: unexpected EOF while looking for matching `\"'";
    Syntax 90 ["syntax error"] r#"^(?P<file>\S+?): (?:line )?(?P<line>\d+): Syntax error: "?[^"]*"? unexpected"#
        cause "the shell script {file} does not parse at line {line}"
        fix "correct {file} around line {line}; bash syntax in a script that `sh` runs is the usual reason"
        like "./run.sh: 12: Syntax error: \"(\" unexpected";
    Syntax 78 ["unknown flag", "unknown shorthand flag", "unrecognized option", "unrecognized argument", "unknown option", "invalid option", "unexpected argument", "flag provided but not defined", "illegal option"] r"(?:unknown (?:shorthand )?flag|unrecogni[sz]ed (?:option|arguments?)|unknown option|invalid option|unexpected argument|flag provided but not defined|illegal option)\S*\s*(?:--|:)?\s*[`'\x22]?(?P<flag>-{0,2}[\w-]+)?"
        cause "a program was called with an option it does not know: `{flag|see the line}`"
        fix "check the call against the version of the program that is installed: options are renamed and removed between versions"
        like "Error: unknown flag: --prune-whitelist", "tool: unrecognized option '--fast'";
    Syntax 76 ["unknown command", "unknown subcommand", "is not a git command"] r#"(?:unknown (?:sub)?command:? [`'"]?(?P<command>[\w-]+)|'(?P<git>[\w-]+)' is not a git command)"#
        cause "a program was called with a command it does not know: `{command|}{git|}`"
        fix "check the call against the version of the program that is installed"
        like r#"Error: unknown command "template2" for "helm""#;
    Syntax 74 ["arguments are required", "missing required argument", "required flag(s)", "required arguments were not provided"] r#"(?:the following arguments are required: |missing required argument\S* |required flag\(s\) |required arguments were not provided)(?P<what>[^\r\n]*)"#
        cause "a program was called without what it requires: {what|see the line}"
        fix "add it to the call in the step; an empty variable in its place is the usual reason"
        like "deploy.py: error: the following arguments are required: --region";
    MissingCommand 92 ["executable doesn't exist"] r"Executable doesn't exist at (?P<program>\S+)"
        cause "the browser {program} is not installed"
        fix "install the browsers before the tests (`npx playwright install --with-deps`)"
        like "browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium-1097/chrome-linux/chrome";
    MissingCommand 92 ["linker `"] r"linker `(?P<program>[^`]+)` not found"
        cause "the linker `{program}` is not installed"
        fix "install a C toolchain where it is built (`build-essential`)"
        like "error: linker `cc` not found";
    MissingCommand 90 ["program not found or is not executable", "no acceptable c compiler", "find python"] r"(?P<program>[\w.+-]+): program not found or is not executable|no acceptable C compiler found|gyp ERR! find Python"
        cause "a program that the build calls is not installed: {program|see the line}"
        fix "install it where the step runs"
        like "protoc-gen-go: program not found or is not executable", "configure: error: no acceptable C compiler found in $PATH";
    MissingCommand 84 ["which: no "] r"which: no (?P<program>\S+) in \("
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path"
        like "which: no docker-compose in (/usr/local/bin:/usr/bin:/bin)";
    MissingFile 93 ["cannot load certificate"] r#"cannot load certificate(?: key)? "(?P<path>[^"]+)".*No such file"#
        cause "the certificate `{path}` is not there"
        fix "put it there before the server is started or reloaded"
        like "nginx: [emerg] cannot load certificate \"/etc/ssl/web.pem\": BIO_new_file() failed (SSL: error:80000002:system library::No such file or directory)";
    MissingFile 90 ["failed to calculate checksum", "failed to compute cache key"] r#"failed to (?:calculate checksum|compute cache key).*"(?P<path>/[^"]*)": not found"#
        cause "`{path}`, which the Dockerfile copies, is not in the build context"
        fix "see that it is made before the image is built, and that `.dockerignore` does not leave it out"
        like "ERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref x: \"/dist\": not found";
    MissingFile 86 ["no configuration file provided", "unable to prepare context", "failed to open stream"] r#"no configuration file provided|unable to prepare context: path "(?P<path>[^"]+)" not found|\((?P<php>[^)]+)\): failed to open stream: No such file"#
        cause "a file or directory is not there: {path|}{php|see the line}"
        fix "see that the step runs in the directory it expects, and that the file is part of the commit"
        like "no configuration file provided: not found", "unable to prepare context: path \"services/web\" not found";
    MissingFile 84 ["error from server (notfound)", "no such container", "no such service", "no such network", "no such volume", "release: not found", "no context exists", "nosuchbucket", "resourcenotfound", "context \""] r#"Error from server \(NotFound\): (?P<what>.*) not found|no such (?:container|service|network|volume): (?P<docker>\S+)|release: not found|no context exists with the name|context "(?P<context>[^"]+)" does not exist|NoSuchBucket|ResourceNotFound\w*"#
        cause "what the step works on does not exist: {what|}{docker|}{context|see the line}"
        fix "create it before, or correct its name; the wrong cluster, account or namespace is a usual reason"
        like r#"Error from server (NotFound): namespaces "review-19" not found"#, "An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation: The specified bucket does not exist";
    MissingFile 70 ["file not found", "could not find file", "no such file", "cannot find the file", "cannot find file", "could not open", "unable to open", "cannot open", "missing file"] r"file not found|could not find (?:the )?file|no such file\b|cannot find (?:the )?file|(?:could not|unable to|cannot) open (?:file )?\W?[\w.~-]*[/.]\w|missing file"
        cause "a file is not there or cannot be opened"
        fix "see that it is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "error: template file not found";
    MissingVariable 90 ["no application encryption key", "try setting kubernetes_master"] r"No application encryption key has been specified|try setting KUBERNETES_MASTER"
        cause "a setting that the program cannot do without is not there"
        fix "set it as a variable or a secret of the pipeline: a step sees nothing else"
        like "error: no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
    MissingCommand 92 ["cannot run program", "can't exec"] r#"Cannot run program "(?P<program>[^"]+)"|Can't exec "(?P<perl>[^"]+)""#
        cause "the program `{program|}{perl|}` is not installed where the step runs"
        fix "install `{program|}{perl|}` where the step runs, or put it into the PATH"
        like "java.io.IOException: Cannot run program \"git\": error=2, No such file or directory";
    MissingCommand 88 ["in path", "in $path", "on path", "on your path", "in your path", "on $path"] r#"[`'"]?(?P<program>[\w.+-]+)[`'"]?(?: executable| binary| command)?(?: was| is|:)? (?:not found|not available|missing|could not be found|cannot be found|not)(?: found)? (?:in|on) (?:your |the )?\$?PATH|(?:cannot|could not|unable to|can't) (?:find|locate) [`'"]?(?P<other>[\w.+-]+)[`'"]? (?:in|on) (?:your |the )?\$?PATH"#
        cause "the command `{program|}{other|}` is not installed where the step runs"
        fix "install `{program|}{other|}` where the step runs, or put it into the PATH; the step sees only the PATH it is given"
        like "Error: terraform not found in PATH", "could not find `sops` on your PATH";
    MissingCommand 70 ["127"] r"(?:exit(?:ed)?(?: with)?(?: code| status)?:?|non-zero code:|returned) 127\b"
        cause "a command of the build was not found (it ended with 127)"
        fix "see which command it is and install it where it runs"
        like "The command '/bin/sh -c envsubst' returned a non-zero code: 127", "process exited with code 127";
    MissingFile 88 ["rb_sysopen", "(errno::enoent)"] r"No such file or directory @ \w+ - (?P<path>\S+)|No such file or directory - (?P<other>\S+)"
        cause "`{path|}{other|}` is not there"
        fix "see that it is made by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "config.rb:4:in `read': No such file or directory @ rb_sysopen - config/review.yml (Errno::ENOENT)";
    MissingFile 88 ["could not find `cargo.toml`", "go.mod file not found", "could not locate gemfile", "could not find a composer.json", "there is no pom", "src refspec", "could not find a package.json", "could not find a part of the path", "msb1003", "msb1009", "no makefile found"] r"could not find `Cargo\.toml`|go\.mod file not found|Could not locate Gemfile|could not find a composer\.json|there is no POM|src refspec (?P<ref>\S+) does not match any|could not find a package\.json|Could not find a part of the path|MSB100[39]|No targets specified and no makefile found"
        cause "the file that the tool starts from is not where the step runs, or the branch is not there"
        fix "let the step change to the right directory first, and see that the clone has what it needs"
        like "error: could not find `Cargo.toml` in `/srv/work` or any parent directory", "error: src refspec main does not match any";
    MissingFile 70 ["os error 2)"] r"\(os error 2\)"
        cause "a file or a program is not there"
        fix "see what it wanted to open or to start, and that it is there"
        like "Error: failed to read settings: No such file (os error 2)";
    MissingVariable 74 ["missing", "required", "not set", "undefined", "empty", "unset", "must", "provide"] r#"\b(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))\b.{0,40}\b(?:missing|required|not set|undefined|empty|unset|must be|not provided|not defined)\b|\b(?:missing|required|undefined|unset|provide|set|expected)\b.{0,40}\b(?-i:(?P<after>[A-Z][A-Z0-9]*_[A-Z0-9_]+))\b"#
        cause "the variable `{name|}{after|}` is not set"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "required key POLL_URL missing value", "Invalid environment variables: { STRIPE_SECRET_KEY: [ 'Required' ] }";
    MissingVariable 66 ["missing"] r"\bmissing (?:the )?(?:required )?(?:config\w*|settings?|parameters?|propert\w+|secrets?|env\w*|inputs?|variables?)\b"
        cause "something that the program is configured by is not set"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "fatal: missing required setting `mail.host`";
    Syntax 90 ["bad substitution", "unary operator expected", "integer expression expected", "ambiguous redirect", "missing `]'", "binary operator expected", "operand expected", "expecting primary"] r"bad substitution|unary operator expected|integer expression expected|ambiguous redirect|missing `\]'|binary operator expected|operand expected|expecting primary"
        cause "the shell cannot evaluate a line of the script, often since a variable in it is empty or it is not run by bash"
        fix "correct the line that is named: put variables in quotes, and let bash run what is written for bash"
        like "deploy.sh: line 9: [: ==: unary operator expected", "./x.sh: 12: Bad substitution";
    Syntax 88 ["sed: -e expression", "awk: ", "invalid regular expression", "invalid date"] r"sed: -e expression #\d+, char \d+: (?P<what>[^\r\n]+)|awk: (?:line \d+: |cmd\. line:\d+: )(?P<awk>[^\r\n]+)|invalid regular expression|date: invalid date"
        cause "a small program in the script does not parse: {what|}{awk|see the line}"
        fix "correct it; a slash or a quote in a value that is filled in is the usual reason"
        like "sed: -e expression #1, char 41: unknown option to `s'";
}
