/** Installs what the whole tests need besides npm packages: the GitHub CLI, a second client of the local GitHub. */
import { spawn, which } from "bun"

const isRoot = process.getuid?.() === 0

const run = async (...command: string[]): Promise<void> => {
  process.stdout.write(`$ ${command.join(" ")}\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  const child = spawn(command, { stdout: "ignore", stderr: "pipe", env })
  const errors = await new Response(child.stderr).text()
  if ((await child.exited) !== 0)
    throw new Error(`${command[0]} failed: ${errors.trim().slice(-2000)}`)
}

if (which("gh") === null) {
  if (which("apt-get") === null || !isRoot)
    throw new Error(
      "the whole tests need gh, the GitHub CLI: install it, or run this as root on Debian",
    )
  await run("apt-get", "update", "-qq")
  await run("apt-get", "install", "-y", "-qq", "--reinstall", "--no-install-recommends", "gh")
}
