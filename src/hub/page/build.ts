/**
 * Builds the web page: `dist/page.pack`, one compressed file for the binary, and `dist/page/`, the same files for a
 * static host. `npm run build` runs it before it compiles the binary.
 */
import { existsSync, mkdirSync, rmSync } from "node:fs"
import { dirname, join } from "node:path"
import { brotliCompressSync, constants, gzipSync } from "node:zlib"

const page = import.meta.dir
const dist = join(page, "../../../dist")

interface Asset {
  readonly name: string
  readonly type: string
  readonly bytes: Uint8Array
}

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  webmanifest: "application/manifest+json",
}

const typeOf = (name: string): string =>
  TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream"

const hashOf = (bytes: Uint8Array): string =>
  new Bun.CryptoHasher("sha256").update(bytes).digest("hex").slice(0, 16)

/** The document of an entry: its scripts and styles take the place of the comment `<!-- assets -->`. */
const documentOf = async (file: string, assets: readonly Asset[]): Promise<Uint8Array> => {
  const links = assets.map(({ name }) =>
    name.endsWith(".css")
      ? `<link rel="stylesheet" href="/${name}">`
      : `<link rel="modulepreload" href="/${name}"><script type="module" src="/${name}"></script>`,
  )
  const text = await Bun.file(file).text()
  return new TextEncoder().encode(text.replace("<!-- assets -->", links.join("")))
}

/** A script and a style with their chunks, below `folder`, which is on one host. `first` is what the document itself loads. */
const bundle = async (
  entrypoints: readonly string[],
  folder: string,
  name: string,
): Promise<{ readonly assets: readonly Asset[]; readonly first: readonly Asset[] }> => {
  const result = await Bun.build({
    entrypoints: [...entrypoints],
    target: "browser",
    minify: true,
    splitting: true,
    naming: { entry: `${name}-[hash].[ext]`, chunk: `${name}-part-[hash].[ext]` },
    define: { "process.env.NODE_ENV": '"production"' },
  })
  const built = await Promise.all(
    result.outputs.map(async (output) => ({
      first: output.kind === "entry-point" || output.path.endsWith(".css"),
      asset: {
        name: join(folder, "assets", output.path.replace(/^.*\//, "")),
        type: typeOf(output.path),
        bytes: new Uint8Array(await output.arrayBuffer()),
      },
    })),
  )
  return {
    assets: built.map(({ asset }) => asset),
    first: built.filter(({ first }) => first).map(({ asset }) => asset),
  }
}

/** A document and everything that it loads. */
const documentAssets = async (
  folder: string,
  entries: readonly string[],
  name: string,
): Promise<readonly Asset[]> => {
  const html = join(page, folder, "index.html")
  if (!existsSync(html)) return []
  const { assets, first } = await bundle(
    entries.map((entry) => join(page, folder, entry)),
    folder,
    name,
  )
  const path = join(folder, "index.html")
  return [{ name: path, type: typeOf(path), bytes: await documentOf(html, first) }, ...assets]
}

const fixedAsset = async (name: string): Promise<Asset> => ({
  name,
  type: typeOf(name),
  bytes: await Bun.file(join(page, name)).bytes(),
})

/** `uint32` length of the index, the index as JSON, then the compressed bytes that it points to. */
const packOf = (assets: readonly Asset[]): Uint8Array => {
  const blocks: Uint8Array[] = []
  const end = () => blocks.reduce((sum, block) => sum + block.length, 0)
  const add = (block: Uint8Array): readonly [number, number] => {
    const at = end()
    blocks.push(block)
    return [at, block.length]
  }
  const index = Object.fromEntries(
    assets.map(({ name, type, bytes }) => [
      name,
      {
        type,
        hash: hashOf(bytes),
        br: add(brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })),
        gz: add(gzipSync(bytes, { level: 9 })),
      },
    ]),
  )
  const head = new TextEncoder().encode(JSON.stringify(index))
  const size = new Uint8Array(4)
  new DataView(size.buffer).setUint32(0, head.length)
  return Buffer.concat([size, head, ...blocks])
}

const assets = (
  await Promise.all([
    documentAssets("", ["main.tsx", "page.css"], "main"),
    documentAssets("terminal", ["main.ts", "terminal.css"], "terminal"),
    fixedAsset("favicon.svg"),
    fixedAsset("favicon-dot.svg"),
    fixedAsset("page.webmanifest"),
  ])
).flat()

rmSync(join(dist, "page"), { recursive: true, force: true })
for (const { name, bytes } of assets) {
  const file = join(dist, "page", name)
  mkdirSync(dirname(file), { recursive: true })
  await Bun.write(file, bytes)
}
await Bun.write(join(dist, "page.pack"), packOf(assets))
