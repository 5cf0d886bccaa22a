/**
 * Mutated multipart bodies, archives and PDF files, against the HTTP doors of the gateway and the hub and against the reader of
 * attachments. No door unpacks an archive or a form: a body that is not JSON is refused whole.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { createReadPdf } from "../../src/runner/prompt/read-pdf.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { repositoryRoot, runnerFromSource } from "../kit/runner.ts"
import { API_TOKEN } from "../runner/gateway/kit.ts"
import { createRandom, mutate, seedOf } from "./kit/mutate.ts"
import { MAX_STALL_MS, stallDuring, startTarget, type Target } from "./kit/target.ts"

const COUNT = Math.ceil(Number(process.env["ATTACK_COUNT"] ?? 100_000) / 20)
const PDF_COUNT = Math.ceil(COUNT / 250)
const seed = seedOf(process.env["ATTACK_SEED"])
const BOUNDARY = "b0undary"

let folder: string
let gateway: Target<{ readonly port: number; readonly cookie: string }>
let hub: Target<{ readonly port: number }>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "attack-uploads-"))
  gateway = await startTarget("gateway.ts", "1")
  hub = await startTarget("hub.ts", folder)
})
afterAll(async () => {
  await gateway.stop()
  await hub.stop()
  await rm(folder, { recursive: true, force: true })
})

const form = [
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="../../x"\r\ncontent-type: text/plain\r\n\r\nhello\r\n`,
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="content"\r\n\r\n{"a":1}\r\n--${BOUNDARY}--\r\n`,
].join("")

/** Bytes as a text with one character per byte. */
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1")
const gzip = textOf(Bun.gzipSync(new Uint8Array(200_000)))
const zip =
  "PK\u0003\u0004\u0014\0\0\0\b\0" +
  "../../etc/x".padEnd(60, "\0") +
  "PK\u0005\u0006".padEnd(22, "\0")
const tar = `${"../../x".padEnd(100, "\0")}0000644\0${"0".repeat(24)}ustar\0`.padEnd(512, "\0")

const samples = [
  { type: `multipart/form-data; boundary=${BOUNDARY}`, encoding: "", body: form },
  { type: "application/json", encoding: "gzip", body: gzip },
  { type: "application/zip", encoding: "", body: zip },
  { type: "application/x-tar", encoding: "", body: tar },
  {
    type: "application/json",
    encoding: "",
    body: `{"name":"x","port":3000,"data":"${"A".repeat(500)}"}`,
  },
]
const dictionary = [
  "\r\n",
  `--${BOUNDARY}`,
  `--${BOUNDARY}--`,
  "\0",
  "PK\u0005\u0006",
  "\u001f\u008b",
  '"',
  "filename=",
  "{",
  "[".repeat(300),
]

const flood = async (port: number, paths: readonly string[], token: string) => {
  const random = createRandom(seed)
  const statuses = new Map<number, number>()
  const send = async () => {
    const { type, encoding, body } = random.pick(samples)
    const response = await fetch(`http://127.0.0.1:${port}${random.pick(paths)}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": type,
        ...(encoding !== "" && { "content-encoding": encoding }),
      },
      body: Buffer.from(mutate(random, body, dictionary), "latin1"),
      signal: AbortSignal.timeout(20_000),
    })
    await response.arrayBuffer()
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
  }
  for (let sent = 0; sent < COUNT; sent += 20) await Promise.all(Array.from({ length: 20 }, send))
  return statuses
}

/** Floods the target, which answers none of it with 500 and is unharmed. */
const attack = async (
  target: Target<{ readonly port: number }>,
  paths: readonly string[],
  token: string,
) => {
  const { rssMb } = await target.health()
  const stall = await stallDuring(target, async () => {
    const statuses = await flood(target.facts.port, paths, token)
    expect(statuses.get(500)).toBeUndefined()
  })
  expect(target.isAlive()).toBe(true)
  expect(stall).toBeLessThan(MAX_STALL_MS)
  expect((await target.health()).rssMb).toBeLessThan(rssMb + 300)
}

test(`${COUNT} mutated forms and archives neither stop, stall nor fill the gateway, and none is a failure of it (ATTACK_SEED=${seed})`, async () => {
  const paths = ["/api/tunnels", "/api/image", "/api/secrets/inject", "/api/workflows/sync"]
  await attack(gateway, paths, API_TOKEN)
}, 600_000)

test(`${COUNT} mutated forms and archives neither stop, stall nor fill the hub, and none is a failure of it (ATTACK_SEED=${seed})`, async () => {
  const paths = ["/sessions", "/sessions/s1/prompts", "/keys", "/sessions/s1/members"]
  await attack(hub, paths, CLIENT_TOKEN)
}, 600_000)

test(`${PDF_COUNT} mutated PDF files are read or refused, each within its time limit (ATTACK_SEED=${seed})`, async () => {
  const random = createRandom(seed)
  const file = join(repositoryRoot, "test/fixtures/files/two-pages.pdf")
  const original = textOf(await readFile(file))
  const read = createReadPdf({ self: runnerFromSource, owner: undefined, clock: systemClock })
  for (let index = 0; index < PDF_COUNT; index += 1) {
    const bytes = Buffer.from(
      mutate(random, original, ["endobj", "stream", "/Length -1"]),
      "latin1",
    )
    const started = performance.now()
    await read(bytes).catch(() => undefined)
    expect(performance.now() - started).toBeLessThan(60_000)
  }
}, 600_000)
