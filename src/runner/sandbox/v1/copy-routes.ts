/**
 * Routes for the copy of the workspace in object storage. Only the runner calls them: the gateway has no row for them. They
 * run as the agent's user, so that nothing is copied that the agent could not read itself.
 */
import { createHash } from "node:crypto"
import type { Client } from "./client.ts"
import type { Handler } from "./file-routes.ts"
import type { Files } from "./files.ts"
import { invalid, Problem, problemOf } from "./problem.ts"
import { createScanner } from "./scan.ts"

export const copyRoutes = (
  files: Files,
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, Handler>> => {
  const scan = createScanner(files, environment)
  return {
    "POST /copy/scan": async (client) => client.sendJson(await scan()),
    "PUT /copy/file": (client) => restore(client, files),
  }
}

/** Writes a file with this content, unless one of its name exists. */
const restore = async (client: Client, files: Files): Promise<void> => {
  const path = client.query("path") ?? ""
  const sha256 = client.query("sha256") ?? ""
  const [mode, bytes] = [Number(client.query("mode")), Number(client.query("bytes"))]
  if (!Number.isInteger(mode)) throw invalid("the parameter mode must be a number")
  if (!Number.isInteger(bytes)) throw invalid("the parameter bytes must be a number")
  const draft = await files.draft(path, mode & 0o777)
  try {
    const hash = createHash("sha256")
    let size = 0
    for await (const piece of client.body()) {
      size += piece.length
      // A storage that sends without an end would fill the disk.
      if (size > bytes) throw other(files.absolute(path))
      hash.update(piece)
      await draft.write(piece)
    }
    if (hash.digest("hex") !== sha256) throw other(files.absolute(path))
    client.sendJson({ isNew: await draft.commitIfAbsent() })
  } catch (error) {
    throw problemOf(error, files.absolute(path))
  } finally {
    await draft.discard()
  }
}

const other = (path: string): Problem =>
  new Problem(409, "conflict", `the content of ${path} is another one, or not complete`)
