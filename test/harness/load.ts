/** Busy loops beside tests: each keeps one processor and the disk busy until it is stopped, or until its process ends. */
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Load {
  readonly stop: () => Promise<void>
}

/** Standard input ends with the process that started the loop, also after SIGKILL: a reader beside the loop ends it then. */
const untilInputEnds = (loop: string): string =>
  `exec 3<&0; { read -r _ <&3; kill $$; } & exec 3<&- </dev/null; ${loop}`

const PROCESSOR_LOOP = "while :; do :; done"

/** Writes and deletes a file of 64 MiB again and again, with a sync to the disk each time. */
const diskLoop = (file: string): string =>
  `trap 'rm -f "${file}"; exit' TERM; while :; do dd if=/dev/zero of="${file}" bs=1M count=64 conv=fsync 2>/dev/null; rm -f "${file}"; done`

/** `count` loops of the processor and as many of the disk. */
export const startLoad = (count: number): Load => {
  const start = (loop: string) =>
    Bun.spawn(["sh", "-c", untilInputEnds(loop)], {
      stdin: "pipe",
      stdout: "ignore",
      stderr: "ignore",
    })
  const loops = Array.from({ length: count }, (_, index) => [
    start(PROCESSOR_LOOP),
    start(diskLoop(join(tmpdir(), `load-${process.pid}-${index}`))),
  ]).flat()
  return {
    stop: async () => {
      for (const { stdin } of loops) await stdin.end()
      await Promise.all(loops.map(({ exited }) => exited))
    },
  }
}
