//! Missing files and directories.

super::signature::signatures! {
    MissingFile 84
        hints "no such file or directory"
        pattern r#"(?P<path>[^\s:'"`]+)\W{0,4}: No such file or directory"#
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "tar: dist/app.js: Cannot stat: No such file or directory",
            "cp: cannot stat 'build/index.html': No such file or directory";
    MissingFile 86
        hints "enoent"
        pattern r"ENOENT: no such file or directory, \w+ '(?P<path>[^']+)'"
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "Error: ENOENT: no such file or directory, open '/srv/work/dist/manifest.json'";
    MissingFile 86
        hints "no such file or directory:"
        pattern r#"No such file or directory: b?['"](?P<path>[^'"]+)"#
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "FileNotFoundError: [Errno 2] No such file or directory: 'settings/review.toml'";
    MissingFile 86
        hints "filenotfoundexception", "nosuchfileexception"
        pattern r"(?:FileNotFoundException|NoSuchFileException): (?P<path>\S+)"
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "java.io.FileNotFoundException: conf/app.properties (No such file or directory)";
    MissingFile 78
        hints "no such file or directory"
        pattern r"no such file or directory"
        cause "a file or directory does not exist"
        fix "check that it is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "fatal: cannot change to 'charts/web': No such file or directory";
    MissingFile 88
        hints "no rule to make target"
        pattern r"No rule to make target [`'](?P<path>[^']+)'"
        cause "make has neither a rule for `{path}` nor such a file"
        fix "add the target `{path}` to the Makefile, or the file to the commit; a renamed source file is the usual reason"
        like "make: *** No rule to make target 'gen/api.pb.go', needed by 'build'.  Stop.";
    MissingFile 88
        hints "can't open file", "could not open input file", "unable to access jarfile"
        pattern r"(?:can't open file|could not open input file:|unable to access jarfile) \W?(?P<path>[^\s':]+)"
        cause "the program to run, `{path}`, does not exist"
        fix "check that `{path}` is part of the commit or created by an earlier step, and that the step runs in the directory it expects"
        like "python: can't open file '/srv/work/manage.py': [Errno 2] No such file or directory",
            "Error: Unable to access jarfile target/app.jar";
    MissingFile 86
        hints "cannot open "
        pattern r"\bcannot open (?P<path>[^\s:]+): No such file"
        cause "`{path}` does not exist"
        fix "check that `{path}` is part of the commit or created by an earlier step, and that the step runs in the directory it expects"
        like "sh: 0: cannot open deploy.sh: No such file";
    MissingFile 88
        hints "could not find or load main class"
        pattern r"Could not find or load main class (?P<path>\S+)"
        cause "Java does not find the class `{path}`"
        fix "check the class path and the name of the main class; the build that makes the jar may not have run"
        like "Error: Could not find or load main class com.acme.Main";
    MissingFile 86
        hints "does not exist"
        pattern r#"the path "(?P<path>[^"]+)" does not exist"#
        cause "`{path}` does not exist"
        fix "check that `{path}` is part of the commit, and that the step runs in the directory it expects"
        like r#"error: the path "overlays/review-9" does not exist"#;
    MissingFile 86
        hints "env file"
        pattern r"(?:env file|Couldn't find env file:?) (?P<path>\S+)(?: not found|$)"
        cause "the file of variables `{path}` does not exist"
        fix "check that `{path}` is created before the step, or leave it out"
        like "env file /srv/work/.env.review not found: stat /srv/work/.env.review";
    MissingFile 72
        hints "does not exist", "not found", "doesn't exist"
        pattern r#"(?:file|directory|folder|path|config(?:uration)?(?: file)?)[: ]+['"`]?(?P<path>[\w.~-]*/[\w./~-]+|[\w-]+\.\w{1,5})['"`]? (?:does not exist|doesn't exist|not found|could not be found|was not found)"#
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "error: config file ./deploy/review.toml does not exist";
    MissingFile 93
        hints "cannot load certificate"
        pattern r#"cannot load certificate(?: key)? "(?P<path>[^"]+)".*No such file"#
        cause "the certificate `{path}` does not exist"
        fix "create it before the server is started or reloaded"
        like "nginx: [emerg] cannot load certificate \"/etc/ssl/web.pem\": BIO_new_file() failed (SSL: error:80000002:system library::No such file or directory)";
    MissingFile 90
        hints "failed to calculate checksum", "failed to compute cache key"
        pattern r#"failed to (?:calculate checksum|compute cache key).*"(?P<path>/[^"]*)": not found"#
        cause "`{path}`, which the Dockerfile copies, is not in the build context"
        fix "check that it is created before the image is built, and that `.dockerignore` does not exclude it"
        like "ERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref x: \"/dist\": not found";
    MissingFile 86
        hints "no configuration file provided", "unable to prepare context", "failed to open stream"
        pattern r#"no configuration file provided|unable to prepare context: path "(?P<path>[^"]+)" not found|\((?P<php>[^)]+)\): failed to open stream: No such file"#
        cause "a file or directory does not exist: {path/php|see the line}"
        fix "check that the step runs in the directory it expects, and that the file is part of the commit"
        like "no configuration file provided: not found",
            "unable to prepare context: path \"services/web\" not found";
    MissingFile 84
        hints "error from server (notfound)", "no such container", "no such service", "no such network",
            "no such volume", "release: not found", "no context exists", "nosuchbucket", "resourcenotfound",
            "context \""
        pattern r#"Error from server \(NotFound\): (?P<what>.*) not found|no such (?:container|service|network|volume): (?P<docker>\S+)|release: not found|no context exists with the name|context "(?P<context>[^"]+)" does not exist|NoSuchBucket|ResourceNotFound\w*"#
        cause "the target of the step does not exist: {what/docker/context|see the line}"
        fix "create it first, or correct its name; often the cluster, account or namespace is wrong"
        like r#"Error from server (NotFound): namespaces "review-19" not found"#,
            "An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation: The specified bucket does not exist";
    MissingFile 70
        hints "file not found", "could not find file", "no such file", "cannot find the file", "cannot find file",
            "could not open", "unable to open", "cannot open", "missing file"
        pattern r"file not found|could not find (?:the )?file|no such file\b|cannot find (?:the )?file|(?:could not|unable to|cannot) open (?:file )?\W?[\w.~-]*[/.]\w|missing file"
        cause "a file does not exist or cannot be opened"
        fix "check that it is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "error: template file not found";
    MissingFile 88
        hints "rb_sysopen", "(errno::enoent)"
        pattern r"No such file or directory @ \w+ - (?P<path>\S+)|No such file or directory - (?P<other>\S+)"
        cause "`{path/other}` does not exist"
        fix "check that it is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "config.rb:4:in `read': No such file or directory @ rb_sysopen - config/review.yml (Errno::ENOENT)";
    MissingFile 88
        hints "could not find `cargo.toml`", "go.mod file not found", "could not locate gemfile",
            "could not find a composer.json", "there is no pom", "src refspec", "could not find a package.json",
            "could not find a part of the path", "msb1003", "msb1009", "no makefile found"
        pattern r"could not find `Cargo\.toml`|go\.mod file not found|Could not locate Gemfile|could not find a composer\.json|there is no POM|src refspec (?P<ref>\S+) does not match any|could not find a package\.json|Could not find a part of the path|MSB100[39]|No targets specified and no makefile found"
        cause "the file that the tool starts from is not where the step runs, or the branch does not exist"
        fix "change to the right directory first, and check that the clone is complete"
        like "error: could not find `Cargo.toml` in `/srv/work` or any parent directory",
            "error: src refspec main does not match any";
    MissingFile 93
        hints "cannot find module '/"
        pattern r"Cannot find module '(?P<path>/[^']+)'"
        cause "the program to run, `{path}`, does not exist"
        fix "check that the build that makes it has run before, and that the step runs in the directory it expects"
        like "Error: Cannot find module '/app/dist/main.js'";
    MissingFile 88
        of Native
        hints "no such target", "no such package"
        pattern r"no such (?:target|package) '(?P<target>[^'@][^']*)'"
        cause "Bazel does not know `{target}`"
        fix "correct its label, or add it to the BUILD file of its package"
        like "ERROR: no such target '//web:bundle': target 'bundle' not declared in package 'web'";
    MissingFile 70
        hints "os error 2)"
        pattern r"\(os error 2\)"
        cause "a file or a program does not exist"
        fix "check what it tried to open or start, and that it exists"
        like "Error: failed to read settings: No such file (os error 2)";
    MissingFile 87
        hints "no such file or directory"
        pattern r"^\S+: (?P<path>[^\s:]+): (?:cannot|can't|could not) \w+: No such file or directory"
        cause "`{path}` does not exist"
        fix "check that `{path}` is created by an earlier step or is part of the commit, and that the step runs in the directory it expects"
        like "tar: dist/app.tar.gz: Cannot open: No such file or directory";
    MissingFile 88
        hints " is missing", "could not open file or uri", "cannot load certificate", "could not read certificate", "file not found:", "bio_new_file"
        pattern r"\bFile (?P<file>[\w./-]+\.\w+) is missing|Could not open file or uri for loading .* from (?P<uri>\S+)|cannot load certificate(?: key)? \x22(?P<certificate>[^\x22]+)\x22.*No such file|Could not (?:read|find) (?:private key|certificate\w*).* from (?P<key>[^\s<]+)"
        cause "the file {file/uri/certificate/key} does not exist"
        fix "check that it is created before, or is part of the commit"
        like "> File google-services.json is missing. The Google Services Plugin cannot function without it.",
            "Could not open file or uri for loading private key from deploy.key";
}
