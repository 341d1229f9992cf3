//! Variables, secrets and parameters that are not set.

super::signature::signatures! {
    MissingVariable 95
        hints "unbound variable"
        pattern r"(?P<name>\w+): unbound variable"
        cause "the variable `{name}` is not set, and the script requires it"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "deploy.sh: line 14: TARGET: unbound variable";
    MissingVariable 95
        hints "parameter not set", "parameter null or not set"
        pattern r"(?P<name>\w+): parameter (?:null or )?not set"
        cause "the variable `{name}` is not set, and the script requires it"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "./run.sh: 7: API_URL: parameter not set";
    MissingVariable 95
        hints "there is no variable `"
        pattern r"there is no variable `(?P<name>[^`]+)`"
        cause "the request of the step names the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret, or correct its name in the step"
        like "lockkeeper: the step could not be prepared: there is no variable `DEPLOY_TOKEN`";
    MissingVariable 92
        hints "environment variable", "env var", "envvar"
        pattern r#"(?:environment|env) ?var(?:iable)?s?:? [`'"$]*\{?(?P<name>[A-Z][A-Z0-9_]+)\b[`'"}]* (?:is |was |are |has )?(?:not (?:been )?(?:set|found|defined|present|provided)|missing|required|undefined|must be|empty|unset)"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "Error: environment variable STRIPE_KEY is not set";
    MissingVariable 92
        hints "environment variable", "env var"
        pattern r#"(?:missing|required|undefined|unset|no such|set the|please set|set)(?: the| required| mandatory)* (?:environment|env) var(?:iable)?s?:? *[(\[`'"$]*(?P<name>[A-Z][A-Z0-9_]+)"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "fatal: missing required environment variable: SENTRY_DSN";
    MissingVariable 85
        hints "must be set", "not set", "is required", "is missing", "is undefined", "is empty", "not defined",
            "must be defined", "not provided"
        pattern r#"\b(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))[`'"]? (?:must be (?:set|defined)|(?:is |was )?not (?:set|defined|provided)|is (?:required|missing|undefined|empty|unset))"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "config: DATABASE_URL must be set",
            "AWS_REGION is required";
    MissingVariable 84
        hints "please set", "please provide", "you must set", "please specify", "missing required"
        pattern r#"(?:please (?:set|provide|specify)|you must set|missing required (?:setting|config|configuration|secret|parameter|value)s?:?) (?:the )?[`'"$]*(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))"#
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "please set CLOUDFLARE_API_TOKEN";
    MissingVariable 88
        hints "keyerror"
        pattern r"KeyError: '(?-i:(?P<name>[A-Z][A-Z0-9_]{2,}))'"
        cause "a Python program needs the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "KeyError: 'QUEUE_URL'";
    MissingVariable 88
        hints "key not found"
        pattern r#"key not found: "(?P<name>[A-Z][A-Z0-9_]{2,})""#
        cause "a Ruby program needs the variable `{name}`, which is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like r#"KeyError: key not found: "RAILS_MASTER_KEY""#;
    MissingVariable 92
        hints "no value for required variable"
        pattern r"No value for required variable"
        cause "Terraform has no value for a variable that has no default"
        fix "pass it with `-var`, a `.tfvars` file, or as a variable of the environment named `TF_VAR_…`"
        like "Error: No value for required variable";
    MissingVariable 92
        hints "could not resolve placeholder"
        pattern r"Could not resolve placeholder '(?P<name>[^']+)'"
        cause "the application's configuration has no value for `{name}`"
        fix "set `{name}` in its properties, or the variable of the environment that it is read from"
        like "java.lang.IllegalArgumentException: Could not resolve placeholder 'billing.url' in value \"${billing.url}\"";
    MissingVariable 92
        hints "is missing a value"
        pattern r"required variable (?P<name>\w+) is missing a value"
        cause "the variable `{name}` is not set"
        fix "set `{name}` as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "error while interpolating services.web.image: required variable IMAGE_TAG is missing a value: set it";
    MissingVariable 88
        hints "is undefined"
        pattern r"'(?P<name>\w+)' is undefined"
        cause "a template uses the variable `{name}`, which is not defined"
        fix "define `{name}` for this environment, or give it a default in the template"
        like "fatal: [web-1]: FAILED! => {\"msg\": \"The task includes an option with an undefined variable. The error was: 'db_host' is undefined\"}";
    MissingVariable 86
        hints "secret", "configmap"
        pattern r#"(?:secrets?|configmaps?) \\?"(?P<name>[^"\\]+)\\?" not found|couldn't find key (?P<key>\S+) in (?:Secret|ConfigMap) (?P<of>[\w./-]+)"#
        cause "a secret or a configuration that the workload references does not exist: `{name/key}`"
        fix "create it in the namespace before the rollout, or correct its name in the manifest"
        like r#"Warning  Failed  4s  kubelet  Error: secret "web-db" not found"#;
    MissingVariable 86
        hints "execution error at"
        pattern r"execution error at \((?P<where>[^)]+)\): (?P<what>[^\r\n]+)"
        cause "the chart requires a value that is not given: {what} ({where})"
        fix "pass the value with `--set` or in a values file of this environment"
        like "Error: execution error at (web/templates/deployment.yaml:21:20): image.tag is required";
    MissingVariable 86
        hints "input required and not supplied"
        pattern r"Input required and not supplied: (?P<name>\S+)"
        cause "the input `{name}` is not given"
        fix "pass `{name}`, or set the variable it is taken from"
        like "Error: Input required and not supplied: token";
    MissingVariable 84
        hints "the secret_key setting", "missing `secret_key_base`"
        pattern r"SECRET_KEY setting must not be empty|Missing `secret_key_base`"
        cause "the application's secret key is not set"
        fix "add it as a secret of the pipeline under the name that the application reads"
        like "django.core.exceptions.ImproperlyConfigured: The SECRET_KEY setting must not be empty.";
    MissingVariable 90
        hints "no application encryption key", "try setting kubernetes_master"
        pattern r"No application encryption key has been specified|try setting KUBERNETES_MASTER"
        cause "a required setting of the program is missing"
        fix "set it as a variable or a secret of the pipeline: a step sees nothing else"
        like "error: no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
    MissingVariable 90
        hints "validation error for", "validation errors for", "notpresent", "not defined at compile time", "you must specify a region",
            "no default region", "region is missing", "missing region", "sdk location not found", "is not set and could not be found"
        pattern r"validation errors? for \w*(?:Settings|Config\w*|Env\w*)\b|Err` value: NotPresent|environment variable `(?P<name>\w+)` not defined at compile time|You must specify a region|Missing region in config|SDK location not found"
        cause "a required setting of the program is missing: {name|see the lines below}"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings",
            "called `Result::unwrap()` on an `Err` value: NotPresent";
    MissingVariable 74
        hints "missing", "required", "not set", "undefined", "empty", "unset", "must", "provide", "set a ",
            "set the ", "expected"
        pattern r#"\b(?-i:(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+))\b.{0,40}\b(?:missing|required|not set|undefined|empty|unset|must be|not provided|not defined)\b|\b(?:missing|required|undefined|unset|provide|set|expected)\b.{0,40}\b(?-i:(?P<after>[A-Z][A-Z0-9]*_[A-Z0-9_]+))\b"#
        cause "the variable `{name/after}` is not set"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "required key POLL_URL missing value",
            "Invalid environment variables: { STRIPE_SECRET_KEY: [ 'Required' ] }";
    MissingVariable 66
        hints "missing"
        pattern r"\bmissing (?:the )?(?:required )?(?:config\w*|settings?|parameters?|propert\w+|secrets?|env\w*|inputs?|variables?)\b"
        cause "a setting of the program is not set"
        fix "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else"
        like "fatal: missing required setting `mail.host`";
}
