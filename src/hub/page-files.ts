/** The files of the web page, read from the pack that `src/hub/page/build.ts` makes and the binary contains. */
import { z } from "zod"
import type { PageFiles } from "../lib/page/asset-response.ts"
import pack from "../../dist/page.pack" with { type: "file" }

const range = z.tuple([z.int(), z.int()])
const index = z.record(
  z.string(),
  z.object({ type: z.string(), hash: z.string(), br: range, gz: range }),
)

/** By path without the leading slash: `index.html`, `assets/main-<hash>.js`, `terminal/index.html`, ... */
export const loadPageFiles = async (): Promise<PageFiles> => {
  const bytes = await Bun.file(pack).bytes()
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0)
  const rows = index.parse(JSON.parse(new TextDecoder().decode(bytes.subarray(4, start))))
  const cut = ([at, length]: readonly [number, number]) =>
    bytes.subarray(start + at, start + at + length)
  return new Map(
    Object.entries(rows).map(([name, { type, hash, br, gz }]) => [
      name,
      { type, hash, isImmutable: /(?:^|\/)assets\//.test(name), br: cut(br), gz: cut(gz) },
    ]),
  )
}
