# Helpers for trying out the guide in a terminal. Source it, in bash, zsh or sh: `. docs/examples/setup.sh`.
# It needs curl 7.76 or newer, jq, and an admin's token of the sample organization in LOCKKEEPER_TOKEN.

ORG=${LOCKKEEPER_URL:-http://127.0.0.1:8080}/api/v1/organizations/acme
WEB=$ORG/pipelines/web/ephemeral-environments
SHOP=$ORG/pipelines/shop/ephemeral-environments

# curl with your token; an error answer is printed and makes the command fail.
call() {
  curl -sS --fail-with-body -w '\n' -H "Authorization: Bearer $LOCKKEEPER_TOKEN" -H 'Content-Type: application/json' "$@"
}

# Runs a command as another member, with a token that is made for it and revoked afterwards: as ana call …
as() {
  _token=$(call "$ORG/tokens" -d "{\"user\": \"$1\", \"name\": \"for a moment\"}") || return
  shift
  _status=0
  LOCKKEEPER_TOKEN=$(printf '%s' "$_token" | jq -r .data.token) "$@" || _status=$?
  call -X DELETE "$ORG/tokens/$(printf '%s' "$_token" | jq -r .data.tokenId)" || return
  return $_status
}

for _tool in curl jq; do
  command -v "$_tool" >/dev/null || echo "please install $_tool" >&2
done
[ -n "${LOCKKEEPER_TOKEN:-}" ] || echo 'please export LOCKKEEPER_TOKEN=lk_…, the token that the server printed' >&2
