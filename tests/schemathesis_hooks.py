"""What a schema cannot say of a good request, put right before it is sent. What is to be refused is sent as it is."""

import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    # A log to which nothing comes until somebody approves would be followed for ever.
    if isinstance(case.query, dict) and case.query.get("follow") in ("true", ["true"], True):
        del case.query["follow"]
    # What is checked is the answer, and thousands of them are awaited. What is wrong with a request may be elsewhere in it.
    for part in (case.body, case.query):
        if isinstance(part, dict):
            keep_at_most(part, "waitSeconds", 1, valid_up_to=300)
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    # A place in the history is given in one way.
    if isinstance(case.query, dict) and "page" in case.query:
        case.query.pop("offset", None)
    # A period begins before it ends, and a report is of a month at most.
    if isinstance(case.query, dict) and "from" in case.query:
        case.query.update({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"})
    # A key belongs to one request.
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    if isinstance(case.body, dict):
        # A TTL is bounded by the environment, and the environment's default by its own bound.
        keep_at_most(case.body, "ttlSeconds", 1, valid_up_to=31_622_400)
        longest = case.body.get("maxTtlSeconds", 86_400)
        if is_whole(longest):
            keep_at_most(case.body, "defaultTtlSeconds", longest, valid_up_to=31_622_400)
        # Stages have names of their own, and so have the steps of each. Whatever is taken may be deployed.
        give_own_names(case.body.get("stages"), "stage")
        make_harmless(case.body.get("stages"))
        make_takable(case.body.get("steps"), case.body.get("git"))
        # The sample has no model; and git takes fewer names of branches than a pattern can tell.
        if case.body.get("engine") == "llm":
            case.body["engine"] = "builtin"
        if isinstance(case.body.get("branch"), str):
            case.body["branch"] = "fix/own"
        if "/webhooks" in case.path:
            # Of all that looks like a URL or a secret few are one; and nobody is to be called.
            replace_text(case.body, "url", "https://receiver.invalid/hook")
            replace_text(case.body, "secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


def replace_text(part, field, text):
    if isinstance(part.get(field), str):
        part[field] = text


def keep_at_most(part, field, most, valid_up_to):
    value = part.get(field)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if is_whole(value) and most < value <= valid_up_to:
        part[field] = most


def give_own_names(entries, word):
    if not isinstance(entries, list):
        return
    for place, entry in enumerate(entries):
        if isinstance(entry, dict):
            entry["name"] = f"{word}-{place}"
            give_own_names(entry.get("steps"), "own")


def make_harmless(stages):
    for stage in stages if isinstance(stages, list) else []:
        for step in stage.get("steps", []) if isinstance(stage, dict) else []:
            if step.get("run"):
                step["run"][0] = "true"
            if "http" in step:
                step["http"]["url"] = "http://127.0.0.1:9/"
            # There is no such registry.
            if "uses" in step:
                del step["uses"]
                step.pop("with", None)
                step["run"] = ["true"]


def make_takable(steps, git):
    """What a registry is made of: a version for each step, defaults of the right type, and nothing to fetch far away."""
    for place, step in enumerate(steps if isinstance(steps, list) else []):
        if isinstance(step, dict):
            step["version"] = str(place)
            for taken in step.get("inputs", {}).values():
                taken.pop("default", None)
    if isinstance(git, dict):
        git.update(url="file:///nonexistent/steps.git", ref="main")
        git.pop("credential", None)


def is_whole(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
