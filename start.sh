#!/usr/bin/env bash
# From power-on to the runner: prepares what must be there before it and becomes it. Safe to run any number of
# times: at the first boot, after a restart, in a restored snapshot.
#
# The eight steps of a boot, and who takes them:
#   1 environment, 2 directories, 3 programs, 4 secrets   here
#   5 repositories  6 persona  7 screen, editor, terminal  8 OpenCode, link, gateway   the runner, at the same time
set -euo pipefail

say() { printf 'start.sh: %s\n' "$*" >&2; }

# Whatever ends this script before the runner takes over is followed by a look at the machine.
failed() {
  local code=$?
  say "cannot start (line $1, exit code $code); this is what the machine looks like:"
  sandpiper doctor >&2 || true
  exit "$code"
}
trap 'failed "$LINENO"' ERR

# 1. Environment: what a bare `docker run` leaves out.
export HOME="${HOME:-/root}"
export DISPLAY="${DISPLAY:-:99}"
export LANG="${LANG:-C.UTF-8}"
export WORK_DIR="${WORK_DIR:-/workspace}"
export SANDPIPER_STATE_DIR="${SANDPIPER_STATE_DIR:-$HOME/.local/state/sandpiper}"
export SANDPIPER_SERVICES="${SANDPIPER_SERVICES:-all}"

# 2. Directories. Without a workspace there is nothing to work in; the X server wants its own made by root.
mkdir -p "$WORK_DIR" "$SANDPIPER_STATE_DIR"
if ! { mkdir -p /tmp/.X11-unix && chmod 1777 /tmp/.X11-unix; } 2>/dev/null; then
  say "/tmp/.X11-unix cannot be made: there may be no screen"
fi

# 3. Programs. Services may be missing, the runner may not.
if ! command -v sandpiper >/dev/null; then
  say "sandpiper is not on PATH ($PATH)"
  exit 127
fi

# 4. Secrets leave the environment and travel by a pipe: `ps` and /proc/1/environ never show them, no child inherits
# them. What is secret is told by the name, or by an address with a password in it.
secrets=()
while IFS= read -r name; do
  case "$name" in
    *_TOKEN | *_SECRET | *_PASSWORD | *_KEY | *_CREDENTIALS | REPOS_JSON) secrets+=("$name") ;;
    *) if [[ "${!name}" =~ ://[^/[:space:]]*:[^/[:space:]]*@ ]]; then secrets+=("$name"); fi ;;
  esac
done < <(compgen -e)
if ((${#secrets[@]} > 0)); then
  # The values are copied to shell variables that are not exported, before the exported ones go.
  declare -A handed
  for name in "${secrets[@]}"; do handed[$name]="${!name}"; done
  unset "${secrets[@]}"
  exec {SANDPIPER_SECRETS_FD}< <(
    for name in "${!handed[@]}"; do printf '%s=%s\0' "$name" "${handed[$name]}"; done
  )
  export SANDPIPER_SECRETS_FD
fi

# 5 to 8. The runner, in this very process: it gets the signals, and reaps what others leave behind.
trap - ERR
cd "$WORK_DIR"
exec sandpiper "${@:-run}"
