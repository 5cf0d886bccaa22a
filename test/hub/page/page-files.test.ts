/** The built page as the binary serves it: `npm run build` makes the pack that these tests read. */
import { beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { loadPageFiles } from "../../../src/hub/page-files.ts"
import type { PageFile } from "../../../src/lib/page/asset-response.ts"

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

describe("the pack of the page", () => {
  let files: ReadonlyMap<string, PageFile> = new Map()
  beforeAll(async () => {
    files = await loadPageFiles()
  })

  test("both compressed forms of a file have the same content, and it is the file of the static host", async () => {
    expect(files.size).toBeGreaterThan(4)
    for (const [name, { br, gz }] of files) {
      const content = text(gunzipSync(gz))
      expect(text(brotliDecompressSync(br))).toBe(content)
      const file = join(import.meta.dir, "../../../dist/page", name)
      expect(await Bun.file(file).text()).toBe(content)
    }
  })

  test("the document names only files of the pack and has no inline script and no inline style", () => {
    const document = text(gunzipSync(files.get("index.html")?.gz ?? new Uint8Array()))
    const named = [...document.matchAll(/(?:href|src)="\/([^"]+)"/g)].map(([, name]) => name ?? "")
    expect(named.filter((name) => name.startsWith("assets/")).length).toBeGreaterThanOrEqual(2)
    expect(named.filter((name) => !files.has(name))).toEqual([])
    expect(document).not.toMatch(/<script(?![^>]* src=)|<style|\sstyle=|\son\w+=/)
  })

  test("only files whose name contains the hash of their content may be kept for a year", () => {
    for (const [name, { isImmutable }] of files)
      expect(isImmutable).toBe(/^(?:terminal\/)?assets\/[\w-]+-[a-z0-9]{8}\.(js|css)$/.test(name))
  })

  const sizeOf = (names: readonly string[]): number =>
    names.reduce((sum, name) => sum + (files.get(name)?.gz.length ?? 0), 0)

  test("what the page needs before its first use is at most 85 kB, and all of it at most 300 kB", () => {
    const document = text(gunzipSync(files.get("index.html")?.gz ?? new Uint8Array()))
    const first = [...document.matchAll(/(?:href|src)="\/(assets\/[^"]+)"/g)].map(
      ([, name]) => name ?? "",
    )
    expect(sizeOf(["index.html", ...new Set(first)])).toBeLessThanOrEqual(85_000)
    expect(sizeOf([...files.keys()])).toBeLessThanOrEqual(300_000)
  })

  test("no script of the page evaluates text, and none loads anything from another host", () => {
    for (const [name, { gz }] of files) {
      if (!name.startsWith("assets/main") || !name.endsWith(".js")) continue
      const script = text(gunzipSync(gz))
      expect(script).not.toMatch(/\beval\(|new Function\(/)
      expect(script).not.toMatch(/(?:import|fetch|WebSocket)\(["'`](?:https?|wss?):/)
    }
  })
})
