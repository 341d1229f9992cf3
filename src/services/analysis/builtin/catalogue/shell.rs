//! Messages of shells and programs: missing commands, scripts and calls that do not parse.

super::signature::signatures! {
    MissingCommand 95
        hints "command not found"
        pattern r"(?:^|[\s:])(?P<program>[^\s:]+): command not found"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "deploy.sh: line 3: kubectx: command not found";
    MissingCommand 95
        hints "command not found:"
        pattern r"command not found: (?P<program>\S+)"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "zsh:1: command not found: pnpm";
    MissingCommand 92
        hints ": not found"
        pattern r"(?:^|/)(?:ba|da|a|k)?sh: (?:line )?(?:\d+: )?(?P<program>[^\s:]+): not found\s*$"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "/bin/sh: 1: envsubst: not found",
            "sh: yq: not found";
    MissingCommand 90
        hints ": not found"
        pattern r"^\S+: (?:line )?\d+: (?P<program>[^\s:]+): not found\s*$"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path; the step sees only the PATH it is given"
        like "./deploy.sh: 14: rsync: not found";
    MissingCommand 95
        hints "executable file not found"
        pattern r#"exec: \\?"(?P<program>[^"\\]+)\\?": executable file not found"#
        cause "the program `{program}` is not in the PATH"
        fix "install `{program}` there (in the image, if it is a container), or correct the name of the command"
        like r#"exec: "protoc-gen-go": executable file not found in $PATH"#;
    MissingCommand 95
        hints "could not be started: the program `"
        pattern r"could not be started: the program `(?P<program>[^`]+)` was not found"
        cause "the program `{program}` of the step is not installed on the machine that runs it"
        fix "install `{program}` on the machine that runs the steps, or correct `run` of the step; it is searched for in PATH only"
        like "lockkeeper: the step could not be started: the program `helmfile` was not found";
    MissingCommand 93
        hints "env: "
        pattern r"\benv: \W*(?P<program>[\w.+-]+?)(?:\\r)?\W*: No such file or directory"
        cause "the interpreter `{program}` of a script is not installed"
        fix "install `{program}`, or correct the first line of the script (a carriage return at its end counts too)"
        like "/usr/bin/env: 'python': No such file or directory",
            "env: can't execute 'node': No such file or directory";
    MissingCommand 93
        hints "can't execute"
        pattern r"can't execute '(?P<program>[^']+)': No such file"
        cause "the interpreter `{program}` of a script is not installed"
        fix "install `{program}`, or correct the first line of the script"
        like "env: can't execute 'node': No such file or directory";
    MissingCommand 92
        hints "no such file or directory"
        pattern r"^make(?:\[\d+\])?: (?P<program>[\w.+-]+): No such file or directory"
        cause "the command `{program}` that a Makefile calls is not installed"
        fix "install `{program}` where the step runs"
        like "make: protoc: No such file or directory";
    MissingCommand 88
        hints "enoent"
        pattern r"spawn (?P<program>[^\s]+) ENOENT"
        cause "the program `{program}` that Node tried to start is not installed"
        fix "install `{program}` where the step runs"
        like "Error: spawn chromium ENOENT";
    MissingCommand 88
        hints "no such command", "no such subcommand"
        pattern r"no such (?:sub)?command: `(?P<program>[^`]+)`"
        cause "cargo has no command `{program}`: it is not installed"
        fix "install it (`cargo install cargo-{program}`) where the step runs"
        like "error: no such command: `nextest`";
    MissingCommand 88
        hints "filenotfounderror"
        pattern r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<program>[a-z][\w+-]*)'\s*$"
        cause "`{program}`, which a Python program tried to start or open, does not exist"
        fix "install `{program}` if it is a program; if it is a file, check that it is in the working directory of the step"
        like "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'";
    MissingCommand 85
        hints "missing script"
        pattern r#"missing script:? "?(?P<program>[\w:.-]+)"#
        cause "package.json has no script `{program}`"
        fix "add `{program}` to the scripts of package.json, or correct the name in the step"
        like r#"npm ERR! Missing script: "build:review""#;
    MissingCommand 85
        hints "command \""
        pattern r#"(?:error|ERR\S*) +Command "(?P<program>[^"]+)" not found"#
        cause "the package manager finds no command `{program}`: neither a script nor an installed package provides it"
        fix "add the package that provides `{program}` to the dependencies, or the script to package.json"
        like r#"error Command "vite" not found."#;
    MissingCommand 60
        hints "not installed"
        pattern r"(?P<program>[\w.+-]+)(?: is|:) not installed(?:[.,;!]|\s+(?:or|on|in)\b|$)"
        cause "`{program}` is not installed"
        fix "install `{program}` where the step runs"
        like "deploy: kubectl is not installed";
    Syntax 92
        hints "syntax error near unexpected token", "unexpected end of file", "syntax error: unexpected",
            "unexpected eof while looking"
        pattern r"^(?:lockkeeper: )?(?P<file>\S+?): (?:eval: |-c: )?(?:line )?(?P<line>\d+): (?:(?:\S+ )?syntax error.*|unexpected EOF.*|syntax error: unexpected end of file.*)"
        cause "the shell script {file} does not parse at line {line}"
        fix "fix {file} around line {line}: an unclosed quote, `if` or `do` above it is the usual reason; `bash -n {file}` checks it without running"
        like "ci/build.sh: line 9: syntax error near unexpected token `done'",
            "x.sh: line 40: unexpected EOF while looking for matching `\"'";
    Syntax 90
        hints "syntax error"
        pattern r#"^(?P<file>\S+?): (?:line )?(?P<line>\d+): Syntax error: "?[^"]*"? unexpected"#
        cause "the shell script {file} does not parse at line {line}"
        fix "fix {file} around line {line}; bash syntax in a script that `sh` runs is the usual reason"
        like "./run.sh: 12: Syntax error: \"(\" unexpected";
    Syntax 78
        hints "unknown flag", "unknown shorthand flag", "unrecognized option", "unrecognized argument",
            "unknown option", "invalid option", "unexpected argument", "flag provided but not defined",
            "illegal option"
        pattern r"(?:unknown (?:shorthand )?flag|unrecogni[sz]ed (?:option|arguments?)|unknown option|invalid option|unexpected argument|flag provided but not defined|illegal option)\S*\s*(?:--|:)?\s*[`'\x22]?(?P<flag>-{0,2}[\w-]+)?"
        cause "a program was called with an unknown option: `{flag|see the line}`"
        fix "check the call against the installed version of the program: options are renamed and removed between versions"
        like "Error: unknown flag: --prune-whitelist",
            "tool: unrecognized option '--fast'";
    Syntax 76
        hints "unknown command", "unknown subcommand", "is not a git command"
        pattern r#"(?:unknown (?:sub)?command:? [`'"]?(?P<command>[\w-]+)|'(?P<git>[\w-]+)' is not a git command)"#
        cause "a program was called with an unknown command: `{command/git}`"
        fix "check the call against the installed version of the program"
        like r#"Error: unknown command "template2" for "helm""#;
    Syntax 74
        hints "arguments are required", "missing required argument", "required flag(s)",
            "required arguments were not provided"
        pattern r#"(?:the following arguments are required: |missing required argument\S* |required flag\(s\) |required arguments were not provided)(?P<what>[^\r\n]*)"#
        cause "a program was called without a required argument: {what|see the line}"
        fix "add it to the call in the step; the usual reason is an empty variable"
        like "deploy.py: error: the following arguments are required: --region";
    MissingCommand 92
        hints "executable doesn't exist"
        pattern r"Executable doesn't exist at (?P<program>\S+)"
        cause "the browser {program} is not installed"
        fix "install the browsers before the tests (`npx playwright install --with-deps`)"
        like "browserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium-1097/chrome-linux/chrome";
    MissingCommand 92
        hints "linker `"
        pattern r"linker `(?P<program>[^`]+)` not found"
        cause "the linker `{program}` is not installed"
        fix "install a C toolchain where it is built (`build-essential`)"
        like "error: linker `cc` not found";
    MissingCommand 90
        hints "program not found or is not executable", "no acceptable c compiler", "find python"
        pattern r"(?P<program>[\w.+-]+): program not found or is not executable|no acceptable C compiler found|gyp ERR! find Python"
        cause "a program that the build calls is not installed: {program|see the line}"
        fix "install it where the step runs"
        like "protoc-gen-go: program not found or is not executable",
            "configure: error: no acceptable C compiler found in $PATH";
    MissingCommand 95
        hints "is not recognized as"
        pattern r#"['"]?(?P<program>[^\s'"]+)['"]? is not recognized as (?:an internal or external command|(?:the|a) name of a cmdlet)"#
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path"
        like "'pnpm' is not recognized as an internal or external command,",
            "pwsh: The term 'az' is not recognized as a name of a cmdlet, function, script file, or executable program.";
    MissingCommand 90
        hints "executable not found", "missing the dependency", "could not find chrome", "requires xcode", "binary not found",
            "executable was not found", "program not found", "unable to find utility"
        pattern r"(?P<program>[\w.+-]+) (?:executable|binary|program) (?:was )?not found|missing the dependency: (?P<dependency>\S+)|Could not find Chrome|requires Xcode|unable to find utility \x22(?P<utility>[^\x22]+)\x22"
        cause "a program is not installed where the step runs: {program/dependency/utility|see the line}"
        fix "install it before the step, in the image or with the package manager"
        like "Error: pg_config executable not found.",
            "Your system is missing the dependency: Xvfb";
    MissingCommand 84
        hints "which: no "
        pattern r"which: no (?P<program>\S+) in \("
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` where the step runs, or call it by its full path"
        like "which: no docker-compose in (/usr/local/bin:/usr/bin:/bin)";
    MissingCommand 92
        hints "cannot run program", "can't exec"
        pattern r#"Cannot run program "(?P<program>[^"]+)"|Can't exec "(?P<perl>[^"]+)""#
        cause "the program `{program/perl}` is not installed where the step runs"
        fix "install `{program/perl}` where the step runs, or put it into the PATH"
        like "java.io.IOException: Cannot run program \"git\": error=2, No such file or directory";
    MissingCommand 88
        hints "in path", "in $path", "on path", "on your path", "in your path", "on $path"
        pattern r#"[`'"]?(?P<program>[\w.+-]+)[`'"]?(?: executable| binary| command)?(?: was| is|:)? (?:not found|not available|missing|could not be found|cannot be found|not)(?: found)? (?:in|on) (?:your |the )?\$?PATH|(?:cannot|could not|unable to|can't) (?:find|locate) [`'"]?(?P<other>[\w.+-]+)[`'"]? (?:in|on) (?:your |the )?\$?PATH"#
        cause "the command `{program/other}` is not installed where the step runs"
        fix "install `{program/other}` where the step runs, or put it into the PATH; the step sees only the PATH it is given"
        like "Error: terraform not found in PATH",
            "could not find `sops` on your PATH";
    MissingCommand 70
        hints "127"
        pattern r"(?:exit(?:ed)?(?: with)?(?: code| status)?:?|non-zero code:|returned) 127\b"
        cause "a command of the build was not found (it ended with 127)"
        fix "find out which command it is and install it where it runs"
        like "The command '/bin/sh -c envsubst' returned a non-zero code: 127",
            "process exited with code 127";
    Syntax 90
        hints "bad substitution", "unary operator expected", "integer expression expected", "ambiguous redirect",
            "missing `]'", "binary operator expected", "operand expected", "expecting primary"
        pattern r"bad substitution|unary operator expected|integer expression expected|ambiguous redirect|missing `\]'|binary operator expected|operand expected|expecting primary"
        cause "the shell cannot evaluate a line of the script, often because a variable in it is empty or it is not run by bash"
        fix "fix the given line: put variables in quotes, and use bash for bash scripts"
        like "deploy.sh: line 9: [: ==: unary operator expected",
            "./x.sh: 12: Bad substitution";
    Syntax 88
        hints "sed: -e expression", "awk: ", "invalid regular expression", "invalid date"
        pattern r"sed: -e expression #\d+, char \d+: (?P<what>[^\r\n]+)|awk: (?:line \d+: |cmd\. line:\d+: )(?P<awk>[^\r\n]+)|invalid regular expression|date: invalid date"
        cause "a small program in the script does not parse: {what/awk|see the line}"
        fix "correct it; the usual reason is a slash or a quote in a substituted value"
        like "sed: -e expression #1, char 41: unknown option to `s'";
    MissingCommand 93
        hints "unable to execute"
        pattern r"unable to execute '?(?P<program>[\w.+-]+)'?: No such file"
        cause "the program `{program}` that a build calls is not installed"
        fix "install `{program}` where it is built (`build-essential` has the compilers)"
        like "    unable to execute 'gcc': No such file or directory";
    MissingCommand 92
        hints "no such file or directory"
        pattern r"^(?:xargs|env|nice|nohup|time|watch|setsid|strace|parallel|find|chroot|stdbuf|ionice|taskset|unshare|setpriv|gosu|su-exec|tini|dumb-init)(?:: (?:failed to (?:run|execute) (?:command )?|exec \w+ failed: |cannot run ))?:? ?(?:\xE2\x80\x98|['`\x22])?(?P<program>[\w.+-]+)(?:\xE2\x80\x99|['`\x22])?: No such file or directory|^(?:timeout|nice|chroot): failed to run command (?:\xE2\x80\x98|['`])(?P<run>[\w.+-]+)(?:\xE2\x80\x99|'): No such"
        cause "the command `{program/run}` is not installed where the step runs"
        fix "install `{program/run}` in the image or on the machine, or correct its name"
        like "xargs: frobnicate: No such file or directory",
            "timeout: failed to run command 'frobnicate': No such file or directory";
    MissingFile 94
        hints "no such file or directory"
        pattern r"^g?make(?:\[\d+\])?: (?P<file>\S*(?:\.mk|[Mm]akefile\S*)): No such file or directory"
        cause "the makefile {file} does not exist"
        fix "check its path, and that it is part of the commit"
        like "make: Nope.mk: No such file or directory";
    Syntax 87
        hints "can't find string terminator", "requires explicit package name", "missing right curly", "unknown predicate", "unmatched ", "expaterror", "xmlsyntaxerror", "saxparseexception",
            "not well-formed", "mismatched tag", "parser error :", "unterminated", "invalid preceding regular", "unbalanced parenthesis", "unclosed "
        pattern r"Can't find string terminator|requires explicit package name|Missing right curly|unknown predicate|\bUnmatched (?:[\[({]|\\|\w+ )|ExpatError|XMLSyntaxError|SAXParseException|not well-formed|mismatched tag|: parser error : |unterminated (?:string|address|quoted|`|comment|heredoc)|Invalid preceding regular expression|unbalanced parenthesis|unclosed (?:string|bracket|quote|tag|block|delimiter)"
        cause "a script, a pattern or a document does not parse: see the line"
        fix "fix it at the location given in the line"
        like "Can't find string terminator '\"' anywhere before EOF at bad.pl line 1.",
            "find: unknown predicate `-nmae'",
            "xml.parsers.expat.ExpatError: mismatched tag: line 1, column 8";
    Unknown 80
        hints "not in gzip format", "look like a tar archive", "eof in archive", "unexpected end of file", "end-of-central-directory", "crc error", "crc failed", "invalid compressed data", "cannot find zipfile",
            "file format not recognized", "not a bzip2 file", "compressed data is corrupt", "badzipfile", "not a zip file", "unexpected end of input", "unrecognized archive format"
        pattern r"not in gzip format|does not look like a tar archive|Unexpected EOF in archive|(?:gzip|bzip2|xz|zstd|lz4|unzip)\b.{0,60}unexpected end of (?:file|input)|End-of-central-directory signature not found|crc error|invalid compressed data|not a bzip2 file|compressed data is corrupt|BadZipFile|is not a zip file|unrecognized archive format"
        cause "an archive is damaged, incomplete or of another format"
        fix "check how it was made and transferred: its size, its checksum, and whether it is an error page instead"
        like "gzip: stdin: not in gzip format",
            "tar: Unexpected EOF in archive";
    Syntax 82
        hints "option", "flags cannot be placed"
        pattern r"\boption:? (?:--?|['`\x22]--?)[\w-]+['`\x22]? (?:is )?(?:not recogni[sz]ed|unknown|not known|ambiguous|not supported|requires an? (?:argument|value))|[\x22'`]?--[\w-]+[\x22'`]? option (?:does not exist|is not (?:supported|valid|recogni[sz]ed))|flags cannot be placed before"
        cause "a program was called with an option that it does not have"
        fix "check the call against the installed version of the program"
        like "hg: option --fooo not recognized",
            "  The \"--fooo\" option does not exist.  ";
    MissingCommand 93
        hints "no such file or directory - "
        pattern r"in [`'](?:\w+[.#])?(?:exec|spawn|system|popen\w*|`)': No such file or directory - (?P<program>[\w.+-]+)"
        cause "the command `{program}` is not installed where the step runs"
        fix "install `{program}` in the image or on the machine, or correct its name"
        like "-e:1:in `exec': No such file or directory - frob (Errno::ENOENT)";
    MissingFile 86
        hints "name not matched", "is not a working copy", "failed opening required", "could not open `", "could not open '", "e155007", "e160013", "failed to open stream: no such"
        pattern r"zip warning: name not matched: (?P<zip>\S+)|(?P<svn>\S+) is not a working copy|Failed opening required '(?P<php>[^']+)'|could not open [`'](?P<file>[^'`]+)['`]|E160013|Failed to open stream: No such"
        cause "a file or directory does not exist: {zip/svn/php/file|see the line}"
        fix "check its path, and that it is created before or is part of the commit"
        like "PHP Fatal error:  Uncaught Error: Failed opening required 'nope.php' (include_path='.:/usr/share/php') in Command line code:1",
            "svn: E155007: '/srv/work/nope' is not a working copy";
    Timeout 92
        hints "maximum execution time of"
        pattern r"Maximum execution time of (?P<limit>\d+) seconds? exceeded"
        cause "PHP reached its time limit of {limit} s"
        fix "check what took so long; raise `max_execution_time` only if it really needs longer"
        like "PHP Fatal error:  Maximum execution time of 30 seconds exceeded in /srv/work/import.php on line 14";
}
