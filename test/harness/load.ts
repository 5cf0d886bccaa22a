/** Busy loops beside tests: each keeps one processor and the disk busy until it is stopped. */
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Load {
  readonly stop: () => Promise<void>
}

/** Writes and deletes a file of 64 MiB again and again, with a sync to the disk each time. */
const diskLoop = (file: string): string =>
  `trap 'rm -f "${file}"; exit' TERM; while :; do dd if=/dev/zero of="${file}" bs=1M count=64 conv=fsync 2>/dev/null; rm -f "${file}"; done`

/** `count` loops of the processor and as many of the disk. */
export const startLoad = (count: number): Load => {
  const start = (script: string) =>
    Bun.spawn(["sh", "-c", script], { stdin: "ignore", stdout: "ignore", stderr: "ignore" })
  const loops = Array.from({ length: count }, (_, index) => [
    start("while :; do :; done"),
    start(diskLoop(join(tmpdir(), `load-${process.pid}-${index}`))),
  ]).flat()
  return {
    stop: async () => {
      for (const loop of loops) loop.kill("SIGTERM")
      await Promise.all(loops.map(({ exited }) => exited))
    },
  }
}
