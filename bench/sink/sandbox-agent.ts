/** The server of the npm package `@sandbox-agent/cli-linux-x64`, as a peer of the benches of files and programs. */
import { chmod, copyFile, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../test/kit/free-port.ts"

const BINARY = join(
  import.meta.dir,
  "../../test/node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent",
)

export interface SandboxAgentServer {
  readonly url: string
  readonly token: string
  /** Relative paths start here. */
  readonly home: string
  readonly stop: () => Promise<void>
}

/** A copy of the binary is started: the package does not mark it as executable. */
export const startSandboxAgent = async (): Promise<SandboxAgentServer> => {
  const home = await mkdtemp(join(tmpdir(), "sandbox-agent-"))
  const binary = join(home, "sandbox-agent")
  await copyFile(BINARY, binary)
  await chmod(binary, 0o755)
  const port = freePort()
  const token = crypto.randomUUID()
  const child = Bun.spawn(
    [binary, "server", "--port", String(port), "--token", token, "--no-telemetry"],
    {
      env: { PATH: process.env["PATH"] ?? "", HOME: home },
      cwd: home,
      stdout: "ignore",
      stderr: "ignore",
    },
  )
  const url = `http://127.0.0.1:${port}`
  const headers = { authorization: `Bearer ${token}` }
  while (!(await fetch(`${url}/v1/health`, { headers }).catch(() => undefined))?.ok) {
    await Bun.sleep(20)
  }
  return {
    url,
    token,
    home,
    stop: async () => {
      child.kill()
      await child.exited
      await rm(home, { recursive: true, force: true })
    },
  }
}
