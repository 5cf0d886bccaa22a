/**
 * `npm run test:fast [-- names]`: the tests that start no program, side by side in four processes. For the inner loop. The files of
 * a process share its modules, which saves a third of the processors' time; a file that changes one for the others fails here.
 */
import { join } from "node:path"
import { fastFiles } from "./fast-files.ts"
import { isNamedBy, repositoryRoot } from "./suites.ts"

const files = fastFiles().filter(isNamedBy(process.argv.slice(2)))
const child = Bun.spawn(
  [
    process.execPath,
    "test",
    "--timeout=60000",
    "--parallel=4",
    "--no-isolate",
    "--only-failures",
    `--preload=${join(import.meta.dir, "no-programs.ts")}`,
    ...files.map((file) => `./${file}`),
  ],
  { cwd: repositoryRoot, stdin: "ignore", stdout: "inherit", stderr: "inherit" },
)
process.exitCode = await child.exited
