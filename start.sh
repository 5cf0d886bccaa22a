#!/usr/bin/env bash
# Entry point of the sandbox: prepares the environment and becomes the runner (exec). Idempotent: it runs at the first
# boot, after a restart and in a restored snapshot.
#
# The eight steps of a boot:
#   in this script, one after the other: 1 environment, 2 directories, 3 programs, 4 secrets
#   in the runner, in parallel: 5 repositories, 6 persona, 7 screen, editor, terminal, 8 OpenCode, link, gateway
set -euo pipefail

say() { printf 'start.sh: %s\n' "$*" >&2; }

# A failure before the exec prints the findings of `sandpiper doctor`.
failed() {
  local code=$?
  say "cannot start (line $1, exit code $code); findings of sandpiper doctor:"
  sandpiper doctor >&2 || true
  exit "$code"
}
trap 'failed "$LINENO"' ERR

# 1. Environment: defaults that a bare `docker run` does not set.
export HOME="${HOME:-/root}"
export DISPLAY="${DISPLAY:-:99}"
export LANG="${LANG:-C.UTF-8}"
export WORK_DIR="${WORK_DIR:-/workspace}"
export SANDPIPER_STATE_DIR="${SANDPIPER_STATE_DIR:-$HOME/.local/state/sandpiper}"
# The agent runs as a user that cannot read the runner's memory. Root only by an explicit AGENT_USER=root.
export AGENT_USER="${AGENT_USER:-agent}"
# The homes are the sandbox's: a runner of another session removes what shells and git have left there.
export SANDPIPER_OWN_DISK="${SANDPIPER_OWN_DISK:-1}"
export SANDPIPER_SERVICES="${SANDPIPER_SERVICES:-all}"

# 2. Directories. The workspace is required. The X server needs its socket directory created by root.
mkdir -p "$WORK_DIR" "$SANDPIPER_STATE_DIR"
if ! { mkdir -p /tmp/.X11-unix && chmod 1777 /tmp/.X11-unix; } 2>/dev/null; then
  say "/tmp/.X11-unix cannot be created: the screen may not work"
fi

# The pid of the runner, which replaces this process. The fleet ends a runner that hangs before it starts another.
(umask 077 && echo $$ >/run/sandpiper-runner.pid) 2>/dev/null || true

# 3. Programs. Only the runner is required; services are optional.
if ! command -v sandpiper >/dev/null; then
  say "sandpiper is not on PATH ($PATH)"
  exit 127
fi

# 4. Secrets are removed from the environment and passed through a pipe: `ps` and /proc/1/environ do not show them, and
# no child inherits them. A variable is secret by its name, or if its value is an address with a password.
secrets=()
while IFS= read -r name; do
  case "$name" in
    *_TOKEN | *_SECRET | *_PASSWORD | *_KEY | *_CREDENTIALS | S3_ACCESS_KEY_ID | REPOS_JSON | DATABASE_URL | REDIS_URL) secrets+=("$name") ;;
    *) if [[ "${!name}" =~ ://[^/[:space:]]*:[^/[:space:]]*@ ]]; then secrets+=("$name"); fi ;;
  esac
done < <(compgen -e)
if ((${#secrets[@]} > 0)); then
  # The values are copied to a shell variable that is not exported before the exported ones are unset.
  declare -A handed
  for name in "${secrets[@]}"; do handed[$name]="${!name}"; done
  unset "${secrets[@]}"
  exec {SANDPIPER_SECRETS_FD}< <(
    for name in "${!handed[@]}"; do printf '%s=%s\0' "$name" "${handed[$name]}"; done
  )
  export SANDPIPER_SECRETS_FD
fi

# 5 to 8. The runner replaces this process, so that it receives the signals and reaps orphans.
trap - ERR
cd "$WORK_DIR"
exec sandpiper "${@:-run}"
