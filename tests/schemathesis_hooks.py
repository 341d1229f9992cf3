"""Makes valid requests satisfy rules that the schema cannot express. Requests that must be refused are sent unchanged."""

import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    # A log that waits for an approval would be followed indefinitely.
    if isinstance(case.query, dict) and case.query.get("follow") in ("true", ["true"], True):
        del case.query["follow"]
    # Only the answer is checked, and thousands of them are awaited. The fault of an invalid request may be in another
    # part.
    for part in (case.body, case.query):
        if isinstance(part, dict):
            keep_at_most(part, "waitSeconds", 1, valid_up_to=300)
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    # A position in the history is given in one of two ways.
    if isinstance(case.query, dict) and "page" in case.query:
        case.query.pop("offset", None)
    # A period must begin before it ends, and a report covers at most a month.
    if isinstance(case.query, dict) and "from" in case.query:
        case.query.update({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"})
    # A key identifies one request.
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    if isinstance(case.body, dict):
        # A TTL is limited by the environment, and the environment's default by its own maximum.
        keep_at_most(case.body, "ttlSeconds", 1, valid_up_to=31_622_400)
        longest = case.body.get("maxTtlSeconds", 86_400)
        if is_whole(longest):
            keep_at_most(case.body, "defaultTtlSeconds", longest, valid_up_to=31_622_400)
        # Stages and the steps of each need unique names. Any accepted pipeline may be deployed.
        give_own_names(case.body.get("stages"), "stage")
        make_harmless(case.body.get("stages"))
        make_takable(case.body.get("steps"), case.body.get("git"))
        # The sample has no model; and git accepts fewer branch names than a pattern can express.
        if case.body.get("engine") == "llm":
            case.body["engine"] = "builtin"
        if isinstance(case.body.get("branch"), str):
            case.body["branch"] = "fix/own"
        if "/webhooks" in case.path:
            # Few random texts are valid URLs or secrets; and no real host may be contacted.
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
            # No such registry exists.
            if "uses" in step:
                del step["uses"]
                step.pop("with", None)
                step["run"] = ["true"]


def make_takable(steps, git):
    """Makes a registry valid: a version for each step, defaults of the right type, and no remote repository."""
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
