#!/bin/sh
# Holds an environment while a command runs. For CI jobs: copy this file into your repository.
#
#   hold.sh [--wait SECONDS] [--ttl SECONDS] [--context TEXT] [LABEL=VALUE]... -- COMMAND [ARGUMENT]...
#
# Waits for an environment with these labels and says who holds them meanwhile. While the command runs, heartbeats
# keep the lock; it is released when the command has ended, however it ended. If the lock is lost, the command is
# stopped. If this job dies, the environment is free again after --ttl seconds (60).
#
#   LOCKKEEPER_URL           the server, http://127.0.0.1:8080 if not set
#   LOCKKEEPER_TOKEN         a token of a member who may claim (developer)
#   LOCKKEEPER_PIPELINE      the pipeline, web if not set
#   LOCKKEEPER_ORGANIZATION  the organization, the token's if not set
#
# The command finds LOCKKEEPER_ENVIRONMENT, LOCKKEEPER_SESSION and LOCKKEEPER_FENCING_TOKEN in its environment.
#
# Exit codes: the command's own; 2 usage, 66 not found, 69 server out of reach, 75 refused for now, 77 denied,
# 79 the lock was lost, 124 waited in vain (--wait, an hour if not set).
set -eu

say() { echo "hold: $*" >&2; }
fail() { code=$1; shift; say "$*"; exit "$code"; }

patience=3600 ttl=60 labels='{}'
context=${CI_JOB_URL:-${BUILD_URL:-${GITHUB_RUN_ID:+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID}}}
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    --wait) patience=$2; shift 2 ;;
    --ttl) ttl=$2; shift 2 ;;
    --context) context=$2; shift 2 ;;
    -*) fail 2 "unknown option $1" ;;
    *=*) labels=$(printf '%s' "$labels" | jq -c --arg name "${1%%=*}" --arg value "${1#*=}" '.[$name] = $value'); shift ;;
    *) fail 2 "expected LABEL=VALUE or --, got $1" ;;
  esac
done
[ $# -gt 0 ] || fail 2 'no command: hold.sh [LABEL=VALUE]... -- COMMAND [ARGUMENT]...'
[ -n "${LOCKKEEPER_TOKEN:-}" ] || fail 2 'LOCKKEEPER_TOKEN is not set'
server=${LOCKKEEPER_URL:-http://127.0.0.1:8080}

# The token goes to curl in a file: arguments of programs can be seen by everybody on the machine.
private=$(umask 077 && mktemp -d)
session='' work='' beats=''
finish() {
  # A gentler signal could come before its shell is ready for one, and be lost.
  [ -z "$beats" ] || kill -KILL "$beats" 2>/dev/null || true
  # The signal may have come together with the answer to the claim.
  [ -n "$session" ] || session=$(session_path 2>/dev/null) || true
  [ -z "$session" ] || request DELETE "$session" || true
  rm -rf "$private"
}
trap finish EXIT
trap '[ -z "$work" ] || { kill "$work" 2>/dev/null; wait "$work" || true; }; exit 143' INT TERM HUP
printf 'Authorization: Bearer %s\n' "$LOCKKEEPER_TOKEN" >"$private/headers"

# request METHOD PATH [ARGUMENT OF CURL]...: the status is in $status, the answer in the file $private/answer.
request() {
  method=$1 path=$2
  shift 2
  status=$(curl -s -X "$method" "$server$path" -H "@$private/headers" -H 'Content-Type: application/json' \
    --max-time 30 --retry 50 --retry-all-errors --retry-delay 2 --retry-max-time 120 -D "$private/head" -o "$private/answer" -w '%{http_code}' "$@") ||
    { status=000; return 69; }
}
answer() { jq -r "$1" "$private/answer"; }
# Ends the script with what a refusal says.
refused() {
  case $status in
    000) fail 69 "$server cannot be reached" ;;
    400 | 422) code=2 ;;
    401 | 403) code=77 ;;
    404) code=66 ;;
    *) code=75 ;;
  esac
  fail "$code" "$(answer '"\(.code): \(.detail)"')"
}
# Of the session in the answer, if there is one.
session_path() {
  answer '.data | select(.sessionId?) | "'"$base"'/\(if .envName then .envName + "/" else "" end)sessions/\(.sessionId)"'
}
show_session() {
  session=$(session_path)
  state=$(answer .data.lockStatus)
}

if [ -z "${LOCKKEEPER_ORGANIZATION:-}" ]; then
  request GET /api/v1/whoami --retry 2 && [ "$status" = 200 ] || refused
  LOCKKEEPER_ORGANIZATION=$(answer .data.organization.id)
fi
base=/api/v1/organizations/$LOCKKEEPER_ORGANIZATION/pipelines/${LOCKKEEPER_PIPELINE:-web}/ephemeral-environments

# An answer that is lost on the way does not strand a lock: the same request under the same key has its effect once.
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
claim=$(jq -cn --argjson labels "$labels" --arg context "$context" --argjson ttl "$ttl" \
  '{labels: $labels, context: $context, ttlSeconds: $ttl}')
request POST "$base/sessions" -H "Idempotency-Key: $key" -d "$claim" || refused
if [ "$status" = 409 ]; then
  say "waiting for an environment with $labels:"
  answer '.holders // [] | .[] | "  \(.envName): \(.user.name) since \(.claimedAt), \(.expiresAt // "never" | "expires \(.)")  \(.context // "")"' >&2
  request POST "$base/sessions" -H "Idempotency-Key: $key-queue" -d "$(printf '%s' "$claim" | jq -c '.queue = true')" || refused
fi
case $status in 201 | 202) show_session ;; *) refused ;; esac

# A queued session keeps its place as long as it is polled at least once a minute. With its ETag, the answer waits until it
# has changed, and no change between two requests is missed.
deadline=$(($(date +%s) + patience)) place='' etag=''
while [ "$state" = queued ]; do
  left=$((deadline - $(date +%s)))
  [ "$left" -gt 0 ] || fail 124 "waited $patience seconds"
  if [ -n "$etag" ]; then
    request GET "$session?waitSeconds=$((left < 20 ? left : 20))" -H "If-None-Match: $etag" || refused
  else
    request GET "$session" || refused
  fi
  case $status in 200) ;; 304) etag=''; continue ;; *) refused ;; esac
  etag=$(sed -n 's/^[Ee][Tt][Aa][Gg]: *//p' "$private/head" | tail -n 1 | tr -d '\r')
  show_session
  [ "$state" != queued ] || [ "$(answer .data.queuePosition)" = "$place" ] ||
    { place=$(answer .data.queuePosition); say "place $place in the queue"; }
done
[ "$state" = active ] || fail 79 "the session is $state"

LOCKKEEPER_ENVIRONMENT=$(answer .data.envName)
LOCKKEEPER_SESSION=$(answer .data.sessionId)
LOCKKEEPER_FENCING_TOKEN=$(answer .data.fencingToken)
export LOCKKEEPER_ENVIRONMENT LOCKKEEPER_SESSION LOCKKEEPER_FENCING_TOKEN
say "holding $LOCKKEEPER_ENVIRONMENT, fencing token $LOCKKEEPER_FENCING_TOKEN"

exec 3<&0
"$@" <&3 &
work=$!

# Stops the command when the server says that the lock is lost, or has not been heard for as long as the lock lasts.
lost() { say "$1: stopping the command"; : >"$private/lost"; kill "$work" 2>/dev/null; exit; }
beat() {
  heard=$(date +%s)
  while sleep $((ttl > 3 ? ttl / 4 : 1)) >/dev/null 2>&1; do
    kill -0 $$ 2>/dev/null || exit      # this script was killed: the lock must not outlive it
    began=$(date +%s)
    request POST "$session/heartbeat" --retry 0 --max-time $((ttl > 8 ? ttl / 4 : 2)) || true
    case $status in
      200) heard=$began ;;
      409 | 404 | 401 | 403) lost "$(answer .detail)" ;;
      *) [ $(($(date +%s) - heard)) -lt "$ttl" ] || lost 'no heartbeat was answered in time' ;;
    esac
  done
}
beat 3<&- &
beats=$!

code=0
wait "$work" || code=$?
[ ! -e "$private/lost" ] || code=79
exit "$code"
