/**
 * The program of a watchdog, for /bin/sh: it waits for the end of its standard input, whose other end its owner holds, so the kernel
 * tells it of the owner's end, however that came. Then it counts the time by the rule of absence-state.ts and becomes the given
 * command. A shell costs less than a megabyte, and while the owner lives it does nothing at all.
 */
import { GRACE_MS, JUMP_MS } from "./absence-state.ts"

export interface WatchdogTimes {
  readonly limitSeconds: number
  readonly stepSeconds: number
}

/** Short enough for short limits, and not more than a look in a minute for long ones. */
export const timesOf = (seconds: number): WatchdogTimes => {
  const limitSeconds = Math.max(1, Math.ceil(seconds))
  return { limitSeconds, stepSeconds: Math.min(60, Math.ceil(limitSeconds / 60)) }
}

/** The owner's record, and beside it the watchdog's: its pid and its start time. Both are named by the same path without an ending. */
export const OWNER_ENDING = ".json"
export const WATCHDOG_ENDING = ".watchdog"

/** `$1` is that path, or nothing if the owner could not write its record. The other words are the command. */
export const registerScript = `
if [ -n "$1" ]; then
  read -r pid _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ start _ </proc/$$/stat
  echo "$pid $start" >"$1${WATCHDOG_ENDING}"
  # A next owner removes the record of the former one first and looks for the watchdog then: one of the two sees the other.
  [ -e "$1${OWNER_ENDING}" ] || exit 0
fi
shift
`

/**
 * The first field of /proc/uptime is in seconds and goes on while the machine is suspended. `uptime`: that file. The words after the
 * script are the command.
 */
export const watchdogScript = (
  { limitSeconds, stepSeconds }: WatchdogTimes,
  uptime = "/proc/uptime",
): string => `
while read -r _; do :; done
look() { now=0; read -r now _ <'${uptime}' || :; now=\${now%%.*}; }
away=0
look
while [ "$away" -lt ${limitSeconds} ]; do
  looked=$now
  sleep ${stepSeconds} || exit 1
  look
  passed=$((now - looked))
  if [ "$passed" -lt 0 ] || [ "$passed" -gt ${stepSeconds + JUMP_MS / 1000} ]; then
    if [ "$away" -gt ${Math.max(0, limitSeconds - GRACE_MS / 1000)} ]; then away=${Math.max(0, limitSeconds - GRACE_MS / 1000)}; fi
  else
    away=$((away + passed))
  fi
done
exec "$@"
`
