/** How a website in a folder is installed and served, decided from the files that are there. */

/** What the folder contains. */
export interface WebsiteFolder {
  readonly entries: readonly string[]
  /** The parsed package.json, if there is one. */
  readonly manifest: unknown
}

export interface WebsitePlan {
  /** Shell command: installs the packages if they are missing, then runs the dev server. */
  readonly command: string
}

const managers = [
  { lock: "bun.lock", install: "bun install", run: "bun run" },
  { lock: "bun.lockb", install: "bun install", run: "bun run" },
  { lock: "pnpm-lock.yaml", install: "pnpm install", run: "pnpm run" },
  { lock: "yarn.lock", install: "yarn install", run: "yarn run" },
] as const

const npm = { install: "npm install --no-fund --no-audit", run: "npm run" }

/** The plan, or the reason why there is none. */
export const planWebsite = ({ entries, manifest }: WebsiteFolder): WebsitePlan | string => {
  if (manifest === undefined) {
    return "there is no package.json in the folder: create the website first, or pass template: static"
  }
  const scripts = fieldOf(manifest, "scripts")
  const script = ["dev", "start"].find((name) => typeof fieldOf(scripts, name) === "string")
  if (script === undefined) {
    return "package.json has neither a dev nor a start script: add one"
  }
  const manager = managers.find(({ lock }) => entries.includes(lock)) ?? npm
  const hasPackages = ["dependencies", "devDependencies"].some(
    (name) => Object.keys(Object(fieldOf(manifest, name))).length > 0,
  )
  const steps = hasPackages ? [manager.install] : []
  return { command: [...steps, `exec ${manager.run} ${script}`].join(" && ") }
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined

/** A website without packages, for an empty folder. */
export const staticTemplate: Readonly<Record<string, string>> = {
  "index.html": `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width" />
    <title>New website</title>
  </head>
  <body>
    <h1>New website</h1>
  </body>
</html>
`,
  "package.json": `{
  "private": true,
  "type": "module",
  "scripts": { "dev": "node server.js" }
}
`,
  "server.js": `import { createReadStream } from "node:fs"
import { createServer } from "node:http"
import { extname, join, normalize } from "node:path"
import { env } from "node:process"

const types = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml" }
createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname))
  const file = join(import.meta.dirname, path.endsWith("/") ? path + "index.html" : path)
  createReadStream(file)
    .on("open", () => response.setHeader("content-type", types[extname(file)] ?? "application/octet-stream"))
    .on("error", () => response.writeHead(404).end("not found"))
    .pipe(response)
}).listen(env.PORT ?? 3000, "127.0.0.1")
`,
}
