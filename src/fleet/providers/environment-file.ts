/**
 * The environment of a sandbox as a shell script that is read at its start. It is a file for root only, so that the values
 * appear neither on a command line nor in the description of a container.
 */
import { shellQuoted } from "../../lib/shell-quote.ts"

/** Where the file lies in a sandbox. Its directory is not part of snapshots. */
export const ENVIRONMENT_FOLDER = "/run/sandpiper"
export const ENVIRONMENT_FILE = "environment"
/** In memory, in every container. */
const MARKS = "/dev/shm"
const PATH = `${ENVIRONMENT_FOLDER}/${ENVIRONMENT_FILE}`

/** Undefined: a name or a value cannot be a variable of a process. */
export const environmentScript = (
  environment: Readonly<Record<string, string>>,
): string | undefined => {
  const entries = Object.entries(environment)
  const isValid = ([name, value]: readonly [string, string]) =>
    /^[A-Za-z_]\w*$/.test(name) && !value.includes("\0")
  if (!entries.every(isValid)) return undefined
  return entries.map(([name, value]) => `${name}=${shellQuoted(value)}\n`).join("")
}

const BECOME_START = `set -a && . ${PATH} && set +a && exec /start.sh`

/** The first program of a sandbox: it reads the file and becomes the image's own start. */
export const startCommand: readonly string[] = ["/bin/sh", "-c", BECOME_START]

/**
 * The first program of a sandbox that is made before its environment is known: it waits for the file. Its directory is for
 * root only, so that no other user puts a file there.
 */
export const waitingStartCommand: readonly string[] = [
  "/bin/sh",
  "-c",
  `chmod 700 ${ENVIRONMENT_FOLDER} && until [ -f ${PATH} ]; do sleep 0.1; done && ${BECOME_START}`,
]

/** Writes the file from standard input, which has this many bytes. The file appears complete. */
export const receiveCommand = (bytes: number): readonly string[] => [
  "/bin/sh",
  "-c",
  `umask 077 && head -c "$1" > ${PATH}.new && mv ${PATH}.new ${PATH}`,
  "sh",
  String(bytes),
]

/**
 * The command with the sandbox's environment. It records its process under `mark`, so that `killCommand` ends it with its
 * process group: neither Docker nor Kubernetes has a call for that.
 */
export const commandWithEnvironment = (
  mark: string,
  argv: readonly string[],
): readonly string[] => [
  "/bin/sh",
  "-c",
  // The shell stays: it removes the mark, and it leads the process group.
  `mark=${MARKS}/$1 && echo $$ > "$mark" && shift && set -a && . ${PATH} && set +a && "$@"; code=$?; rm -f "$mark"; exit $code`,
  "sh",
  mark,
  ...argv,
]

/** The command in another directory. */
export const commandIn = (directory: string, argv: readonly string[]): readonly string[] => [
  "/bin/sh",
  "-c",
  'cd "$1" && shift && exec "$@"',
  "sh",
  directory,
  ...argv,
]

export const killCommand = (mark: string): readonly string[] => [
  "/bin/sh",
  "-c",
  `mark=${MARKS}/$1 && read -r pid < "$mark" && rm -f "$mark" && kill -s KILL -- "-$pid"`,
  "sh",
  mark,
]

const BLOCK = 512

/** A tar archive with one file for root only. */
export const archiveOf = (name: string, text: string): Uint8Array<ArrayBuffer> => {
  const content = Buffer.from(text)
  const head = Buffer.alloc(BLOCK)
  const octal = (value: number, length: number) => value.toString(8).padStart(length - 1, "0")
  head.write(name, 0)
  head.write(octal(0o600, 8), 100)
  head.write(octal(0, 8), 108)
  head.write(octal(0, 8), 116)
  head.write(octal(content.length, 12), 124)
  head.write(octal(0, 12), 136)
  // The checksum counts itself as spaces.
  head.fill(" ", 148, 156)
  head.write("0", 156)
  head.write("ustar\u000000", 257)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${octal(sum, 7)}\0 `, 148)
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)
  return Uint8Array.from(Buffer.concat([head, content, padding, Buffer.alloc(2 * BLOCK)]))
}
