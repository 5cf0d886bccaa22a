/** Runs all benches, or those named on the command line: `npm run bench -- cold-start`. */
import { Glob } from "bun"
import { join } from "node:path"

const wanted = process.argv.slice(2)
const files = [...new Glob("*.ts").scanSync(import.meta.dir)]
  .map((file) => file.replace(/\.ts$/, ""))
  .filter((name) => !["run", "measure", "peer-tools"].includes(name))
  .filter((name) => wanted.length === 0 || wanted.includes(name))
  .toSorted()

for (const name of files) {
  process.stdout.write(`\n# ${name}\n`)
  const child = Bun.spawn([process.execPath, join(import.meta.dir, `${name}.ts`)], {
    stdio: ["ignore", "inherit", "inherit"],
  })
  if ((await child.exited) !== 0) process.exitCode = 1
}
