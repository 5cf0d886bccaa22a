/**
 * Installs exactly what the lock file says. `bun install` reports the install scripts that it does not run; they are not
 * needed, except that OpenCode's would link its binary: that is done here.
 */
import { spawn } from "node:child_process"
import { existsSync, rmSync, symlinkSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const folder = process.argv[2] ?? ""
const install = spawn(
  "npx",
  ["--yes", "bun@1.4.4", "install", "--frozen-lockfile", "--cwd", join(root, folder)],
  { cwd: root, stdio: ["ignore", "pipe", "pipe"] },
)

/** Passes the output on, without the lines that only alarm. */
const pass = (from, to) => {
  let rest = ""
  from.setEncoding("utf8")
  from.on("data", (text) => {
    const lines = `${rest}${text}`.split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) if (!/^Blocked \d+ postinstalls?/.test(line)) to.write(`${line}\n`)
  })
  from.on("end", () => to.write(rest))
}
pass(install.stdout, process.stdout)
pass(install.stderr, process.stderr)

const linkOpenCode = () => {
  const binary = join("..", `opencode-${process.platform}-${process.arch}`, "bin", "opencode")
  const folderOfLinks = join(root, "node_modules", ".bin")
  if (!existsSync(join(folderOfLinks, binary))) return
  rmSync(join(folderOfLinks, "opencode"), { force: true })
  symlinkSync(binary, join(folderOfLinks, "opencode"))
}

install.on("close", (code) => {
  if (code === 0 && folder === "") linkOpenCode()
  process.exitCode = code ?? 1
})
