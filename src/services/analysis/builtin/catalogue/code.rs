//! Languages of configuration and of programs: what does not parse.

super::signature::signatures! {
    Syntax 90
        hints "syntaxerror"
        pattern r"\bSyntaxError: (?P<what>[^\r\n]+)"
        cause "code does not parse: {what}"
        fix "fix it at the location shown in the surrounding lines; often the syntax is too new for the installed version"
        like "SyntaxError: Unexpected token '}'",
            "SyntaxError: invalid syntax";
    Syntax 88
        hints "indentationerror", "taberror"
        pattern r"\b(?:IndentationError|TabError): (?P<what>[^\r\n]+)"
        cause "Python code does not parse: {what}"
        fix "fix the indentation at the location shown above"
        like "IndentationError: unexpected indent";
    Syntax 90
        hints "parse error"
        pattern r"PHP Parse error: +(?P<what>[^\r\n]+)|^Parse error: +(?P<also>[^\r\n]+)"
        cause "PHP code does not parse: {what/also}"
        fix "fix it at the given file and line; often the syntax is too new for the installed PHP"
        like "PHP Parse error:  syntax error, unexpected token \"{\" in /srv/work/src/Kernel.php on line 31";
    Syntax 88
        hints "syntax error, unexpected", "syntax error found"
        pattern r"(?P<file>[\w./-]+):(?P<line>\d+): syntax errors?(?: found|,)"
        cause "{file} does not parse at line {line}"
        fix "fix {file} around line {line}"
        like "app/models/order.rb:14: syntax error, unexpected end-of-input, expecting `end'";
    Syntax 92
        hints "[emerg]"
        pattern r"\[emerg\].{0,20}? (?P<what>(?:unknown directive|unexpected|invalid|directive|duplicate|no \W|\S+ directive|unknown \S+|conflicting|could not build).*?)(?: in (?P<file>\S+):(?P<line>\d+))?\s*$"
        cause "nginx does not accept its configuration: {what} ({file}:{line})"
        fix "fix the configuration at that line; `nginx -t` checks it"
        like "nginx: [emerg] unexpected \"}\" in /etc/nginx/conf.d/web.conf:12";
    Syntax 90
        hints "error parsing", "error converting yaml", "yaml:", "yaml.", "yamlexception", "did not find expected",
            "mapping values are not allowed"
        pattern r"error converting YAML|yaml: (?:line \d+|unmarshal|did not|mapping|found)|yaml\.(?:scanner|parser|constructor)\.\w+Error|YAMLException|did not find expected|mapping values are not allowed|YAML parse error|error parsing \S+\.ya?ml"
        cause "a YAML file does not parse"
        fix "fix it at the given line: indentation, a tab, or a value with `:` or `#` that needs quotes are the usual reasons"
        like "error: error parsing deploy.yaml: error converting YAML to JSON: yaml: line 14: mapping values are not allowed in this context",
            "yaml.scanner.ScannerError: while scanning for the next token";
    Syntax 88
        hints "json"
        pattern r"JSONDecodeError|Unexpected (?:token|end of JSON|non-whitespace character).*JSON|invalid character .{1,12} (?:looking for|after|in)|is not valid JSON|EJSONPARSE|(?:error|failed|unable|cannot|could not)\b.{0,30}\bpars(?:e|ing)\b.{0,40}\bJSON|parse error: (?:Invalid|Expected|Unfinished)"
        cause "invalid JSON"
        fix "check the input: an extra comma or quote, or an error page instead of JSON"
        like "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "parse error: Invalid numeric literal at line 1, column 10 (while parsing JSON)";
    Syntax 88
        hints "toml parse error", "tomldecodeerror", "failed to parse manifest", "invalid toml"
        pattern r"TOML parse error|TOMLDecodeError|failed to parse manifest at `(?P<file>[^`]+)`|invalid TOML"
        cause "a TOML file does not parse"
        fix "fix it at the given line"
        like "error: failed to parse manifest at `/srv/work/Cargo.toml`";
    Syntax 90
        hints "dockerfile parse error", "unknown instruction"
        pattern r"Dockerfile parse error|unknown instruction: (?P<what>\S+)"
        cause "the Dockerfile does not parse"
        fix "fix it at the given line"
        like "ERROR: failed to solve: dockerfile parse error on line 9: unknown instruction: COPPY";
    Syntax 88
        of Infrastructure
        hints "unsupported argument", "invalid expression", "unsupported block type",
            "argument or block definition required", "invalid reference", "reference to undeclared",
            "unsupported attribute", "missing required argument", "unclosed configuration block",
            "invalid multi-line string"
        pattern r"^\W*Error: (?P<what>Unsupported argument|Invalid expression|Unsupported block type|Argument or block definition required|Invalid reference|Reference to undeclared [\w ]+|Unsupported attribute|Missing required argument|Unclosed configuration block|Invalid multi-line string)"
        cause "the Terraform configuration is not valid: {what}"
        fix "fix it at the file and line below; `terraform validate` checks it"
        like "│ Error: Unsupported argument";
    Syntax 88
        hints "parse error at (", "template:", "error calling", "function \""
        pattern r#"parse error at \((?P<where>[^)]+)\)|template: (?P<at>[\w./-]+:\d+(?::\d+)?).*(?:error calling|executing|function "\w+" not defined|unexpected)|TemplateSyntaxError"#
        cause "a template cannot be rendered: {where/at|see the line}"
        fix "fix the template there; `helm template` renders it without a cluster"
        like "Error: parse error at (web/templates/ingress.yaml:12): unclosed action",
            "Error: template: web/templates/svc.yaml:4:14: executing \"web/templates/svc.yaml\" at <.Values.svc.port>: nil pointer evaluating interface {}.port";
    Syntax 86
        hints "unknown field", "additional propert", "is not allowed to be", "must be one of", "should be equal to one of",
            "is not a valid", "does not match the ", "schema validation", "must match exactly one"
        pattern r#"unknown field "(?P<field>[^"]+)"|[Aa]dditional propert(?:y|ies) .{0,80}not allowed|"?(?P<name>[\w.\[\]]+)"? is not allowed to be \w+|(?:schema|config\w*)\b.{0,40}(?:validation (?:failed|error)|does not match)|does not match the (?:API |config\w* )?schema"#
        cause "a schema does not accept what is given: {field/name|see the line}"
        fix "fix the field that the line names, in the file or the request that has it"
        like "json: unknown field \"replica\"",
            "Invalid configuration object. Webpack has been initialized using a configuration object that does not match the API schema.",
            "Additional properties are not allowed ('imagee' was unexpected)";
    Syntax 90
        of Kubernetes
        hints "error validating", "unknown field", "is invalid", "no matches for kind", "strict decoding error",
            "ensure crds are installed"
        pattern r#"error validating (?:data|"[^"]+")|unknown field "(?P<field>[^"]+)"|no matches for kind "(?P<kind>[^"]+)"|strict decoding error|^The \S+ "[^"]+" is invalid|ensure CRDs are installed"#
        cause "the cluster does not accept the manifest: {field/kind|see the line}"
        fix "fix the manifest; an unknown kind needs its CRD installed first, or another API version"
        like r#"error: resource mapping not found for name: "web" namespace: "" from "deploy.yaml": no matches for kind "Ingress" in version "extensions/v1beta1""#,
            "The Deployment \"web\" is invalid: spec.template.spec.containers[0].image: Required value";
    Syntax 84
        hints "syntax error at or near", "you have an error in your sql syntax"
        pattern r#"syntax error at or near "(?P<near>[^"]*)"|You have an error in your SQL syntax"#
        cause "an SQL statement does not parse"
        fix "fix it at the location given in the line; often it is written for another database system"
        like r#"ERROR:  syntax error at or near "TABEL""#;
    Syntax 88
        hints "mapping values", "error! we were unable to read", "syntax error while loading yaml",
            "conflicting action statements"
        pattern r"Syntax Error while loading YAML|unable to read either as JSON nor YAML|conflicting action statements"
        cause "an Ansible playbook does not parse"
        fix "fix it at the given line; `ansible-playbook --syntax-check` checks it"
        like "ERROR! Syntax Error while loading YAML.";
    Syntax 84
        hints "missing separator"
        pattern r"(?P<file>\S+):(?P<line>\d+): \*\*\* missing separator"
        cause "{file} does not parse at line {line}: a recipe begins with a tab"
        fix "indent the recipe at line {line} with a tab"
        like "Makefile:22: *** missing separator.  Stop.";
    Syntax 84
        hints "invalid command", "ah00526", "syntax error on line"
        pattern r"AH00526: Syntax error|Syntax error on line (?P<line>\d+) of (?P<file>[^\s:]+)"
        cause "a configuration file does not parse: {file|see the line}"
        fix "fix it at the given line"
        like "AH00526: Syntax error on line 31 of /etc/apache2/sites-enabled/web.conf:";
    Syntax 78
        hints "invalid configuration", "configuration is invalid", "invalid config", "invalid compose",
            "config error", "configuration error", "validating /", "error in config"
        pattern r"invalid (?:compose|configuration|config)\b|configuration is invalid|(?:config|configuration) error\b|validating /\S+: |error in config"
        cause "a configuration is not valid"
        fix "fix the setting named in the line"
        like "validating /srv/work/docker-compose.yml: services.web additional properties 'imagee' not allowed";
    Syntax 84
        hints "has neither an image", "depends on undefined", "refers to undefined", "undefined volume",
            "undefined network"
        pattern r"has neither an image nor a build context|(?:depends on|refers to) undefined (?P<what>[^\r\n]+)"
        cause "the compose file is not valid: {what|see the line}"
        fix "fix the service named in the line"
        like "service \"web\" refers to undefined volume cache: invalid compose project";
    Syntax 62
        hints "unexpected token", "unexpected character", "unterminated", "invalid syntax", "syntax error",
            "parse error", "parsing error", "parseerror", "parseexception"
        pattern r"unexpected (?:token|character)|unterminated (?:string|quoted)|invalid syntax|syntax error|pars(?:e|ing) ?(?:error|exception)"
        cause "something does not parse"
        fix "fix it at the location given in the line"
        like "config.hcl:4: parse error: expected `}`";
    Syntax 80
        of Infrastructure
        hints "error: "
        pattern r"^\W*Error: (?P<what>(?:Missing|Invalid|Unsupported|Duplicate|Unclosed|Unterminated|Incorrect|Extra|Unexpected|Inconsistent|Too (?:many|few)) (?:\w+ )*(?:newline|arguments?|blocks?|attributes?|expressions?|characters|references?|values?|template|string|name|label|operator|configuration|syntax|item|key)\b[^\r\n]*)"
        cause "a configuration is not valid: {what}"
        fix "fix it at the file and line below; `terraform validate` checks it"
        like "│ Error: Missing newline after argument";
    Syntax 86
        hints "parser error", "not well-formed", "xml document structures", "unrecognized directive",
            "unknown keyword", "bad configuration option", "doesn't have a resource type", "unexpected end of input",
            "unbalanced"
        pattern r"parser error :|not well-formed|XML document structures|unrecognized directive|unknown keyword|Bad configuration option|doesn't have a resource type|unexpected end of (?:input|JSON)|unbalanced (?:parenthes|brace|quot)"
        cause "a configuration or markup file does not parse"
        fix "fix it at the location given in the line"
        like "[ALERT] (1) : config : parsing [/etc/haproxy.cfg:14] : unknown keyword 'frontendd'",
            "Error: adapting config using caddyfile: unrecognized directive: reverse_proxi";
}
