/** Paths of the programs that install.ts puts into the cache. */
import { homedir } from "node:os"
import { join } from "node:path"

export const cacheDirectory = join(
  process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"),
  "sandpiper-stack",
)

export const npmDirectory = join(cacheDirectory, "npm")
export const viteProgram = join(npmDirectory, "node_modules/vite/bin/vite.js")
export const playwrightModule = join(npmDirectory, "node_modules/playwright-core/index.mjs")

const node24Directory = join(cacheDirectory, "node24")
export const node24 = {
  directory: node24Directory,
  home: join(node24Directory, `node_modules/node/node_modules/node-linux-${process.arch}`),
}

const wranglerDirectory = join(cacheDirectory, "wrangler")
export const wrangler = {
  directory: wranglerDirectory,
  program: join(wranglerDirectory, "node_modules/wrangler/bin/wrangler.js"),
}

const codeServerDirectory = join(cacheDirectory, "code-server")
export const codeServer = {
  directory: codeServerDirectory,
  program: join(codeServerDirectory, "node_modules/code-server/out/node/entry.js"),
}
