/** Rows of the tools for the sandbox: tunnels, secrets, images, recordings, and the end of the session. */
import { expect } from "bun:test"
import { existsSync } from "node:fs"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { OP_REFERENCE } from "../../kit/onepassword.ts"
import { PNG } from "../../kit/programs.ts"
import { type House, SECRET_VALUE } from "../kit/house.ts"
import { type Rows, succeed } from "../kit/row.ts"

/** Serves one text inside the sandbox while `use` runs. */
const withServer = async (use: (port: number) => Promise<void>): Promise<void> => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response("the dev server says hello"),
  })
  try {
    await use(server.port ?? 0)
  } finally {
    await server.stop(true)
  }
}

const neverReadByModel = ({ model }: House, value: string): void =>
  expect(JSON.stringify(model.requests.map(({ messages }) => messages))).not.toContain(value)

export const tunnelRows: Rows<
  "register_tunnel" | "list_tunnels" | "write_tunnel_env" | "unregister_tunnel"
> = {
  register_tunnel: (house) =>
    withServer(async (port) => {
      await succeed(house, "register_tunnel", { name: "pond", port })
      const page = await house.gateway("/t/pond/")
      expect(await page.text()).toBe("the dev server says hello")
      await house.client.until(
        () => JSON.stringify(house.client.state("tunnels")).includes("/t/pond"),
        "tunnel at the client",
      )
    }),
  list_tunnels: (house) =>
    withServer(async (port) => {
      await succeed(house, "register_tunnel", { name: "listed", port })
      const { read } = await succeed(house, "list_tunnels", {})
      expect(read).toContain("/t/listed")
      expect(read).toContain(String(port))
    }),
  write_tunnel_env: (house) =>
    withServer(async (port) => {
      await succeed(house, "register_tunnel", { name: "api", port })
      await succeed(house, "write_tunnel_env", { set_api_url_from: "api" })
      const written = await readFile(house.inWorkspace(".env.tunnels"), "utf8")
      expect(written).toContain("TUNNEL_API_URL=https://sandbox.example/t/api\n")
      expect(written).toContain("\nAPI_URL=https://sandbox.example/t/api\n")
    }),
  unregister_tunnel: (house) =>
    withServer(async (port) => {
      await succeed(house, "register_tunnel", { name: "closed", port })
      expect((await house.gateway("/t/closed/")).status).toBe(200)
      await succeed(house, "unregister_tunnel", { name: "closed" })
      expect((await house.gateway("/t/closed/")).status).toBe(404)
    }),
}

export const secretRows: Rows<"secret_list" | "secret_inject" | "secret_run" | "secret_fill"> = {
  secret_list: async (house) => {
    const { read } = await succeed(house, "secret_list", {})
    expect(read).toContain(OP_REFERENCE)
    neverReadByModel(house, SECRET_VALUE)
  },
  secret_inject: async (house) => {
    await writeFile(house.inWorkspace("env.tpl"), `KEY=${OP_REFERENCE}\n`)
    const args = { templatePath: "env.tpl", outputPath: "injected.env" }
    await succeed(house, "secret_inject", args)
    expect(await readFile(house.inWorkspace("injected.env"), "utf8")).toBe(`KEY=${SECRET_VALUE}\n`)
    neverReadByModel(house, SECRET_VALUE)
  },
  secret_run: async (house) => {
    const { read } = await succeed(house, "secret_run", {
      command: 'echo "$KEY" | tee secret-run.txt',
      env: { KEY: OP_REFERENCE },
    })
    expect(await readFile(house.inWorkspace("secret-run.txt"), "utf8")).toBe(`${SECRET_VALUE}\n`)
    expect(read).toContain("[secret]")
    neverReadByModel(house, SECRET_VALUE)
  },
  secret_fill: async (house) => {
    await succeed(house, "secret_fill", { selector: "#key", secret_ref: OP_REFERENCE })
    const typed = await readFile(join(house.sandbox.root, "browser-stdin"), "utf8")
    expect(JSON.parse(typed)).toEqual([["fill", "#key", SECRET_VALUE]])
    neverReadByModel(house, SECRET_VALUE)
  },
}

/** The bytes of the image with this description, as a client downloads them. */
const imageOf = async ({ client, api }: House, description: string): Promise<Buffer> => {
  const find = () =>
    client.events
      .map((event) => event["artifact"] as { id: string; description: string } | undefined)
      .find((artifact) => artifact?.description === description)
  await client.until(() => find() !== undefined, `image ${description}`)
  const response = await api("GET", `/sessions/main/artifacts/${find()?.id}`)
  expect(response.headers.get("content-type")).toBe("image/png")
  return Buffer.from(await response.arrayBuffer())
}

export const mediaRows: Rows<"browser_screenshot" | "send_image" | "transcribe_audio" | "sleep"> = {
  browser_screenshot: async (house) => {
    await succeed(house, "browser_screenshot", { filename: "pond.png" })
    expect(await imageOf(house, "pond.png")).toEqual(PNG)
  },
  send_image: async (house) => {
    await writeFile(house.inWorkspace("dot.png"), PNG)
    await succeed(house, "send_image", { source: "dot.png", caption: "A dot" })
    expect(await imageOf(house, "A dot")).toEqual(PNG)
  },
  transcribe_audio: async (house) => {
    await writeFile(house.inWorkspace("said.ogg"), "the heron sleeps on one leg")
    const { read } = await succeed(house, "transcribe_audio", { file_path: "said.ogg" })
    expect(read).toBe("the heron sleeps on one leg")
  },
  sleep: async (house) => {
    const { promptId } = await succeed(house, "sleep", { seconds: 1.5 })
    const answer = house.client
      .messages()
      .find((message) => message.role === "assistant" && message.promptId === promptId)
    const { createdAt, endedAt } = answer as unknown as { createdAt: number; endedAt: number }
    expect(endedAt - createdAt).toBeGreaterThanOrEqual(1400)
  },
}

export const endRows: Rows<"complete_session"> = {
  complete_session: async (house) => {
    await house.call("complete_session", {})
    expect(await house.runner.exited).toBe(0)
    const refused = await house.api("POST", "/sessions/main/prompt", { content: "more" })
    expect(refused.status).toBe(409)
    expect(await refused.json()).toMatchObject({ ok: false, error: { code: "too-late" } })
  },
}

export const setupRows: Rows<"save_service_commands" | "save_env_files"> = {
  save_service_commands: async (house) => {
    const services = [{ name: "heron", command: "echo started > heron.txt; exec sleep 1000" }]
    await succeed(house, "save_service_commands", { services })
    expect(await (await house.gateway("/api/services")).text()).toContain('"name":"heron"')
    const page = await house.gateway("/api/services/heron/restart", { method: "POST" })
    expect(page.status).toBe(200)
    await house.client.until(
      () => existsSync(house.inWorkspace("heron.txt")),
      "a file of the service",
    )
  },
  save_env_files: async (house) => {
    const files = [{ path: "setup.env", variables: { TOKEN: OP_REFERENCE } }]
    await succeed(house, "save_env_files", { files })
    expect(await readFile(house.inWorkspace("setup.env"), "utf8")).toBe(`TOKEN=${SECRET_VALUE}\n`)
    neverReadByModel(house, SECRET_VALUE)
  },
}
