#!/bin/sh
# Holds an environment while something runs. For CI jobs without the program `lockkeeper`: this needs a shell, curl and
# jq. Copy it into your repository.
#
#   lockkeeper.sh run [OPTION]... ENVIRONMENT|LABEL=VALUE... -- COMMAND [ARGUMENT]...
#
# Waits for the environment, or for any with these labels, and reports its holder meanwhile. While the command runs,
# heartbeats keep the lock; it is released when the command has ended, for whatever reason. If the lock is lost, the
# command and its children are stopped, at the latest when the lease ends. If this job dies, the environment is free
# again after --ttl seconds.
#
# For CIs whose jobs have several parts:
#
#   eval "$(lockkeeper.sh claim [OPTION]... ENVIRONMENT|LABEL=VALUE...)" || exit
#                                       waits, claims, and prints the variables below; `false` if it fails
#   lockkeeper.sh keep [--stop PID]     heartbeats until the release; if the lock is lost it stops this process and its children
#   lockkeeper.sh release               always 0 if nothing is held
#
# Options: --wait DURATION (3600), --ttl DURATION (60), each as 600, 90s, 10m or 1h30m, --context TEXT (by default the
# URL of the job, if the CI provides it).
#
#   LOCKKEEPER_URL           the server, http://127.0.0.1:8080 if not set
#   LOCKKEEPER_TOKEN         a token of a member who may claim (developer); or, without a secret, an identity token of the CI:
#   LOCKKEEPER_IDENTITY_TOKEN, LOCKKEEPER_IDENTITY_TOKEN_FILE, or that of GitHub Actions (permission `id-token: write`),
#                            which the server exchanges for a token; then LOCKKEEPER_ORGANIZATION must be set
#   LOCKKEEPER_AUDIENCE      the audience of GitHub's identity token, LOCKKEEPER_URL if not set
#   LOCKKEEPER_ORGANIZATION  the organization, the token's if not set
#   LOCKKEEPER_PIPELINE      the pipeline, web if not set
#   LOCKKEEPER_STATE         for claim, keep and release: a directory that they create and share, with owner-only rights
#
# The command finds LOCKKEEPER_ENVIRONMENT, LOCKKEEPER_SESSION and LOCKKEEPER_FENCING_TOKEN in its environment.
#
# Exit codes: the command's own; 2 usage, 66 not found, 69 server unreachable, 75 temporarily refused, 77 denied, 79 the
# lock was lost, 124 timed out while waiting.
set -eu

# A shell evaluates the output of `claim`, and evaluating an empty text succeeds: so every failure prints `false`.
refuse() { [ "$1" = 0 ] || [ -z "$evaluated" ] || echo false; evaluated=''; }
case ${1:-} in run | keep | release) evaluated='' ;; *) evaluated=yes ;; esac
trap 'refuse $?' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

say() { echo "lockkeeper: $*" >&2; }
fail() { code=$1; shift; say "$*"; exit "$code"; }
# Seconds of a clock that cannot be set.
now() { if read -r up _ 2>/dev/null </proc/uptime; then echo "${up%%.*}"; else date +%s; fi; }

server=${LOCKKEEPER_URL:-http://127.0.0.1:8080}
server=${server%/}
patience=3600 ttl=60 labels='{}' named='' stop=''
context=${CI_JOB_URL:-${BUILD_URL:-${BUILDKITE_BUILD_URL:-${CIRCLE_BUILD_URL:-}}}}
context=${context:-${GITHUB_RUN_ID:+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID}}
state='' mine='' calling='' session='' asked='' work='' keeper='' noticing=''

# --- requests -------------------------------------------------------------------------------------------------------------

# request METHOD PATH [ARGUMENT OF CURL]...: puts the status into $status, and the answer into the file $mine/answer.
# curl reads the token from a file, since everybody on the machine can see the arguments of programs. In the background,
# since a shell that waits for a program in the foreground does not react to signals.
request() {
  method=$1 path=$2 headers=$state/headers
  shift 2
  [ "$path" = "${path%/exchange}" ] || headers=$mine/form
  curl -s -X "$method" "$server$path" -H "@$headers" --connect-timeout 10 --max-time 30 --retry 50 --retry-all-errors \
    --retry-delay 2 --retry-max-time 120 -D "$mine/head" -o "$mine/answer" -w '%{http_code}' "$@" \
    >"$mine/status" 2>/dev/null </dev/null &
  calling=$!
  status=000
  if wait "$calling"; then status=$(cat "$mine/status"); fi
  calling=''
  [ "$status" != 000 ] || return 69
}
answer() { jq -r "$1" "$mine/answer"; }
# Ends the script with the message of a refusal.
refused() {
  case $status in
    000) fail 69 "$server cannot be reached" ;;
    400 | 422) code=2 ;;
    401 | 403) code=77 ;;
    404) code=66 ;;
    *) code=75 ;;
  esac
  [ "$(answer .code 2>/dev/null)" != invalid_grant ] || code=77
  fail "$code" "$(answer '"\(.code): \(.detail)"' 2>/dev/null || echo "$server answers $status, and not as Lockkeeper does")"
}

# --- the token ------------------------------------------------------------------------------------------------------------

# Puts the header with the token into $state/headers. An exchanged token is renewed after three quarters of its
# lifetime.
sign_in() {
  token=${LOCKKEEPER_TOKEN:-}
  if [ -z "$token" ]; then
    identity_token || return
    printf 'Content-Type: application/x-www-form-urlencoded\n' >"$mine/form"
    request POST "/api/v1/organizations/$LOCKKEEPER_ORGANIZATION/tokens/exchange" \
      -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
      -d subject_token_type=urn:ietf:params:oauth:token-type:id_token --data-urlencode "subject_token@$mine/identity" || return
    [ "$status" = 200 ] || return
    token=$(answer .access_token)
    echo $(($(now) + $(answer .expires_in) * 3 / 4)) >"$state/renew"
    rm -f "$mine/identity" "$mine/answer"
  fi
  printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$token" >"$mine/headers"
  mv "$mine/headers" "$state/headers"
}
# Puts the identity token of this job into $mine/identity.
identity_token() {
  if [ -n "${LOCKKEEPER_IDENTITY_TOKEN:-}" ]; then
    printf %s "$LOCKKEEPER_IDENTITY_TOKEN" >"$mine/identity"
  elif [ -n "${LOCKKEEPER_IDENTITY_TOKEN_FILE:-}" ]; then
    tr -d '\r\n' <"$LOCKKEEPER_IDENTITY_TOKEN_FILE" >"$mine/identity"
  else
    printf 'Authorization: Bearer %s\n' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" >"$mine/actions"
    audience=$(jq -rn --arg audience "${LOCKKEEPER_AUDIENCE:-$server}" '$audience | @uri')
    curl -sS --fail --max-time 30 --retry 5 -H "@$mine/actions" "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$audience" -o "$mine/answer" ||
      { status=none; return 77; }
    answer .value | tr -d '\n' >"$mine/identity"
    rm -f "$mine/actions" "$mine/answer"
  fi
}
has_identity() { [ -n "${LOCKKEEPER_IDENTITY_TOKEN:-}${LOCKKEEPER_IDENTITY_TOKEN_FILE:-}${ACTIONS_ID_TOKEN_REQUEST_URL:-}" ]; }

# --- claiming -------------------------------------------------------------------------------------------------------------

# The path of the session in the answer, if there is one.
session_path() {
  answer '.data | select(.sessionId?) | "'"$base"'/\(if .envName then .envName + "/" else "" end)sessions/\(.sessionId)"'
}
show_session() {
  session=$(session_path)
  lock=$(answer .data.lockStatus)
}
# Requests the lock, or a place in the queue. A lost answer does not strand a lock: the same request with the same key
# takes effect once.
ask() {
  key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  claim=$(jq -cn --argjson labels "$labels" --arg named "$named" --arg context "$context" --argjson ttl "$ttl" \
    '{context: $context, ttlSeconds: $ttl} + (if $named == "" then {labels: $labels} else {} end)')
  send_claim || refused
  if [ "$status" = 409 ] && [ "$(answer .code)" = environment_locked ]; then
    say "waiting for ${named:-an environment with $labels}:"
    answer '.holders // [.holder | select(.) | .envName = "'"$named"'"] | .[] |
      "  \(.envName): \(.user.name) since \(.claimedAt), \(.expiresAt // "never" | "expires \(.)")  \(.context // "")"' >&2
    key=$key-queue claim=$(printf '%s' "$claim" | jq -c '.queue = true')
    send_claim || refused
  fi
  asked=''
  case $status in 201 | 202) show_session ;; *) refused ;; esac
}
send_claim() {
  asked=yes
  request POST "$base/${named:+$named/}sessions" -H "Idempotency-Key: $key" -d "$claim" "$@"
}
# A queued session keeps its place if it is polled at least once a minute. With its ETag, the answer waits for a change,
# and no change between two requests is missed.
await_turn() {
  deadline=$(($(now) + patience)) place='' etag=''
  while [ "$lock" != active ]; do
    left=$((deadline - $(now)))
    [ "$left" -gt 0 ] || fail 124 "waited $patience seconds"
    if [ "$lock" != queued ]; then
      say "the place in the queue is $lock; asking again"
      etag='' session=''
      ask
      continue
    fi
    if [ -n "$etag" ]; then
      request GET "$session?waitSeconds=$((left < 20 ? left : 20))" -H "If-None-Match: $etag" || refused
    else
      request GET "$session" || refused
    fi
    case $status in 200) ;; 304) etag=''; continue ;; *) refused ;; esac
    etag=$(sed -n 's/^[Ee][Tt][Aa][Gg]: *//p' "$mine/head" | tail -n 1 | tr -d '\r')
    show_session
    [ "$lock" != queued ] || [ "$(answer .data.queuePosition)" = "$place" ] ||
      { place=$(answer .data.queuePosition); say "place $place in the queue"; }
  done
}
# Claims, and puts the claimed session into $state.
claim() {
  if [ -z "${LOCKKEEPER_TOKEN:-}" ]; then
    has_identity || fail 2 'LOCKKEEPER_TOKEN is not set, and this CI gives no identity token'
    [ -n "${LOCKKEEPER_ORGANIZATION:-}" ] || fail 2 'LOCKKEEPER_ORGANIZATION is not set, and an identity token names none'
  fi
  sign_in || { [ "$status" != none ] || fail 77 'GitHub gives no identity token: the job needs the permission id-token: write'; refused; }
  if [ -z "${LOCKKEEPER_ORGANIZATION:-}" ]; then
    request GET /api/v1/whoami --retry 2 && [ "$status" = 200 ] || refused
    LOCKKEEPER_ORGANIZATION=$(answer .data.organization.id)
  fi
  base=/api/v1/organizations/$LOCKKEEPER_ORGANIZATION/pipelines/${LOCKKEEPER_PIPELINE:-web}/ephemeral-environments
  ask
  await_turn
  LOCKKEEPER_ENVIRONMENT=$(answer .data.envName)
  LOCKKEEPER_SESSION=$(answer .data.sessionId)
  LOCKKEEPER_FENCING_TOKEN=$(answer .data.fencingToken)
  export LOCKKEEPER_ENVIRONMENT LOCKKEEPER_SESSION LOCKKEEPER_FENCING_TOKEN
  # The lease counts from a moment that is certainly before the server's.
  began=$(now)
  request POST "$session/heartbeat" || refused
  [ "$status" = 200 ] || fail 79 "the lock is lost: $(answer .detail)"
  printf '%s\n' "$session" >"$state/session"
  printf '%s %s\n' "$began" "$ttl" >"$state/lease"
  say "holding $LOCKKEEPER_ENVIRONMENT, fencing token $LOCKKEEPER_FENCING_TOKEN"
}

# --- keeping --------------------------------------------------------------------------------------------------------------

# All processes: id, parent, state. Small images have no `ps`.
processes() {
  if [ -r /proc/self/stat ]; then
    cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^\([0-9]*\) (.*) \([A-Za-z]\) \([0-9]*\) .*/\1 \3 \2/p'
  else
    ps -A -o pid= -o ppid= -o stat=
  fi
}
# A process and its descendants, without this script.
tree() {
  processes | awk -v root="$1" -v own="$$" '
    { parent[$1] = $2 }
    END {
      for (pid in parent)
        for (up = pid; up in parent && up > 1 && up != own; up = parent[up])
          if (up == root) { print pid; break }
    }'
}
# Those of these processes that are still running.
alive() {
  processes | awk -v pids="$*" 'BEGIN { count = split(pids, list, " "); for (i = 1; i <= count; i++) asked[list[i]] }
    $1 in asked && $3 !~ /^[ZX]/ { print $1 }'
}
# Asks a process and its children to end, and kills the rest after $grace seconds. Unquoted: these are lists of ids.
# shellcheck disable=SC2046,SC2086
stop_tree() {
  pids=$(tree "$1")
  kill -TERM $pids 2>/dev/null || true
  waited=0
  while [ "$waited" -lt "$grace" ] && [ -n "$(alive $pids)" ]; do
    sleep 1 >/dev/null 2>&1
    waited=$((waited + 1))
  done
  pids=$(alive $pids $(tree "$1"))
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}
lost() {
  : >"$state/lost"
  say "the lock is lost: $1"
  [ -z "$stop" ] || stop_tree "$stop"
  exit 79
}
# Sends heartbeats until the release, or until the lock is lost. The command is asked to end early enough to be killed,
# if necessary, before the lease ends.
keep() {
  read -r heard ttl <"$state/lease"
  session=$(cat "$state/session")
  beat=$((ttl > 6 ? ttl / 6 : 1)) grace=$((ttl / 4 < 10 ? ttl / 4 : 10))
  while pause; do
    # The script that did the work has been killed: neither the lock nor its child processes may outlive it.
    kill -0 $$ 2>/dev/null || { stop_tree "$stop"; request DELETE "$session" --retry 2 || true; rm -rf "$state"; exit 0; }
    [ ! -e "$state/renew" ] || [ "$(now)" -lt "$(cat "$state/renew")" ] || sign_in || true
    began=$(now)
    request POST "$session/heartbeat" --retry 0 --connect-timeout "$beat" --max-time "$beat" || true
    case $status in
      200) heard=$began ;;
      401) has_identity && sign_in || lost "$(answer .detail)" ;;
      409 | 404 | 403) [ -e "$state/released" ] || lost "$(answer .detail)" ;;
      *) ;;
    esac
    [ $(($(now) - heard + 2 * beat)) -lt $((ttl - grace - 1)) ] || [ "$status" = 200 ] || lost 'no heartbeat was answered in time'
  done
}
# Waits on the session in the background until the server reports its end; then the next heartbeat comes immediately.
# With its ETag, no change between two requests is missed. Any other answer, such as a page of a proxy, is ignored.
notice() {
  etag='' rest=1
  while kill -0 $$ 2>/dev/null && [ -d "$state" ]; do
    asked_at=$(now) known=$etag
    answered=$(curl -s "$server$session${etag:+?waitSeconds=25}" -H "@$state/headers" ${etag:+-H "If-None-Match: $etag"} \
      --connect-timeout 5 --max-time 35 -D "$mine/noticing.head" -o "$mine/noticing" -w '%{http_code}' 2>/dev/null </dev/null) || answered=none
    if [ "$answered" = 200 ]; then
      case $(jq -r '.data.lockStatus // ""' "$mine/noticing" 2>/dev/null) in
        '') ;;
        active)
          etag=$(sed -n 's/^[Ee][Tt][Aa][Gg]: *//p' "$mine/noticing.head" | tail -n 1 | tr -d '\r')
          [ "$etag" = "$known" ] || { rest=1; [ -n "$known" ] || continue; }
          ;;
        *) : >"$mine/noticed"; return 0 ;;
      esac
    elif [ "$answered" = 304 ] && [ "$(now)" -gt "$asked_at" ]; then
      rest=1
      continue
    fi
    sleep "$((rest + $(od -An -N1 -tu1 /dev/urandom) % (rest + 1)))"
    rest=$((rest < 15 ? rest * 2 : 15))
  done
}
begin_notice() {
  rm -f "$mine/noticed"
  notice >/dev/null 2>&1 &
  noticing=$!
  printf '%s\n' "$noticing" >"$state/noticing" 2>/dev/null || true
}
# Works from another process too. Unquoted: this is a list of ids.
# shellcheck disable=SC2046
stop_notice() {
  [ -n "$noticing" ] || [ ! -s "$state/noticing" ] || noticing=$(cat "$state/noticing")
  [ -z "$noticing" ] || kill -KILL $(tree "$noticing") 2>/dev/null || true
  noticing=''
}
has_ended() {
  [ -e "$mine/noticed" ]
}
# Waits for the next heartbeat; returns early, and ends the heartbeats, if there is no session to keep.
pause() {
  left=$beat
  [ -n "$noticing" ] && ! has_ended || begin_notice
  while [ "$left" -gt 0 ]; do
    sleep 1 >/dev/null 2>&1
    left=$((left - 1))
    kill -0 $$ 2>/dev/null || return 0
    ! has_ended || return 0
    [ -d "$state" ] && [ ! -e "$state/released" ] || return 1
    [ -z "$stop" ] || kill -0 "$stop" 2>/dev/null || return 1
  done
}
# Releases the lock. Returns 79 if it was lost before.
release() {
  session=$(cat "$state/session")
  released=0 insist=30
  if [ -e "$state/lost" ]; then
    released=79 insist=5
  else
    # Reveals whether it was just lost, unlike the release, which only ends an existing session.
    request POST "$session/heartbeat" --retry-max-time "$insist" || true
    case $status in 409 | 404) released=79; say "the lock was lost: $(answer .detail)" ;; esac
  fi
  : >"$state/released"
  request DELETE "$session" --retry-max-time "$insist" || true
  case $status in
    200) [ "$(answer .data.lockStatus)" = released ] || released=79 ;;
    404) ;;
    *) say "the session could not be released; it expires on its own"; [ "$released" != 0 ] || released=69 ;;
  esac
  rm -rf "$state"
  return "$released"
}

# --- the commands ---------------------------------------------------------------------------------------------------------

# Runs at the end of this script, whatever the reason.
finish() {
  refuse "$1"
  # A gentler signal could arrive before its shell is ready for one, and be lost.
  [ -z "$keeper" ] || kill -KILL "$keeper" 2>/dev/null || true
  [ -z "$mine" ] || stop_notice
  [ -z "$calling" ] || kill "$calling" 2>/dev/null || true
  if [ -n "$state" ] && [ -d "$state" ] && [ -z "$held" ]; then
    # A signal may have arrived before the answer to the claim: repeating the request shows which session it created.
    [ -n "$session" ] || [ -z "$asked" ] || ! send_claim --retry-max-time 20 || session=$(session_path 2>/dev/null) || true
    [ -z "$session" ] || request DELETE "$session" --retry-max-time 20 || true
    rm -rf "$state"
  fi
  [ -z "$mine" ] || rm -rf "$mine"
}
interrupted() {
  trap '' INT TERM HUP
  [ -z "$work" ] || { stop_tree "$work"; wait "$work" || true; }
  exit "$1"
}
begin() {
  # The claimed session stays for the following parts of the job.
  held=${1:-}
  mine=$(umask 077 && mktemp -d)
  trap 'finish $?' EXIT
  trap 'interrupted 130' INT
  trap 'interrupted 143' TERM
  trap 'interrupted 129' HUP
}
shared_state() {
  state=${LOCKKEEPER_STATE:-${CI_PROJECT_DIR:+$CI_PROJECT_DIR.tmp/lockkeeper}}
  state=${state:-${WORKSPACE_TMP:+$WORKSPACE_TMP/lockkeeper}}
  [ -n "$state" ] || fail 2 'LOCKKEEPER_STATE is not set: name a directory that the parts of the job share'
}
# Accepts 600, 90s, 10m or 1h30m.
seconds() {
  rest=$1 total=0
  case $rest in *[0-9]) rest=${rest}s ;; esac
  while
    count=${rest%%[!0-9]*}
    rest=${rest#"$count"}
    unit=${rest%"${rest#?}"}
    rest=${rest#?}
    # A number with a leading 0 would be octal.
    while [ "${count#0}" != "$count" ] && [ "$count" != 0 ]; do count=${count#0}; done
    case ${#count}$unit in
      [1-9]s) total=$((total + count)) ;;
      [1-7]m) total=$((total + count * 60)) ;;
      [1-6]h) total=$((total + count * 3600)) ;;
      [1-4]d) total=$((total + count * 86400)) ;;
      *) fail 2 "expected seconds, or a duration like 90s, 10m or 1h30m, got $1" ;;
    esac
    [ -n "$rest" ]
  do :; done
  echo "$total"
}
arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --wait | --ttl | --context | --stop) [ $# -gt 1 ] || fail 2 "$1 needs a value" ;;
    esac
    case $1 in
      --) break ;;
      --wait) patience=$2; shift 2 ;;
      --ttl) ttl=$2; shift 2 ;;
      --context) context=$2; shift 2 ;;
      --stop) stop=$2; shift 2 ;;
      -*) fail 2 "unknown option $1" ;;
      *=*) labels=$(printf '%s' "$labels" | jq -c --arg name "${1%%=*}" --arg value "${1#*=}" '.[$name] = $value'); shift ;;
      *[!A-Za-z0-9._-]*) fail 2 "$1 is no name of an environment" ;;
      *) [ -z "$named" ] || fail 2 "expected one environment, LABEL=VALUE or --, got $1"; named=$1; shift ;;
    esac
  done
  [ -z "$named" ] || [ "$labels" = '{}' ] || fail 2 'name an environment or labels, not both'
  patience=$(seconds "$patience") && ttl=$(seconds "$ttl") || exit 2
  case ${stop:-1} in *[!0-9]*) fail 2 "expected a number, got $stop" ;; esac
  grace=$((ttl / 4 < 10 ? ttl / 4 : 10))
}
command_run() {
  arguments "$@"
  while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
  [ $# -gt 1 ] || fail 2 'no command: lockkeeper.sh run ENVIRONMENT|LABEL=VALUE... -- COMMAND [ARGUMENT]...'
  shift
  begin
  state=$(umask 077 && mktemp -d)
  claim
  exec 3<&0
  "$@" <&3 3<&- &
  work=$!
  stop=$work
  (mine=$(umask 077 && mktemp -d "$state/keep.XXXXXX") && keep) 3<&- &
  keeper=$!
  code=0
  wait "$work" || code=$?
  work=''
  { kill -KILL "$keeper" && wait "$keeper"; } 2>/dev/null || true
  stop_notice
  keeper='' held=done
  ended=0
  release || ended=$?
  # Never 0 after the lock was lost, or while that is unknown.
  [ "$ended" != 79 ] && [ "$code" != 0 ] || code=$ended
  exit "$code"
}
command_claim() {
  arguments "$@"
  begin
  shared_state
  (umask 077 && mkdir -p "${state%/*}" && mkdir "$state") 2>/dev/null || {
    # It belongs to another process, so it stays.
    taken=$state state=''
    fail 2 "$taken exists, or cannot be made: release first"
  }
  claim
  held=kept
  for name in ENVIRONMENT SESSION FENCING_TOKEN; do
    eval "printf 'export LOCKKEEPER_%s=%s\n' $name \"\$LOCKKEEPER_$name\""
  done
}
command_keep() {
  arguments "$@"
  begin kept
  shared_state
  [ -d "$state" ] || fail 2 "nothing is held: there is no $state"
  keep
}
command_release() {
  [ $# = 0 ] || fail 2 'release takes no arguments'
  begin kept
  shared_state
  [ -s "$state/session" ] || { rm -rf "$state"; say 'nothing is held'; exit 0; }
  release
}

case ${1:-} in
  run | claim | keep | release) ;;
  *) fail 2 "expected run, claim, keep or release, got ${1:-nothing}" ;;
esac
for tool in curl jq; do command -v "$tool" >/dev/null || fail 2 "$tool is not installed"; done
command=$1
shift
"command_$command" "$@"
