/**
 * The git author of commits, set for each prompt. One OpenCode process serves all conversations, so its environment
 * cannot contain the author; a plugin with the `shell.env` hook sets it for each shell by agent session.
 */
import { mkdir, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Inbound } from "../../wire/frames/index.ts"

export interface GitIdentities {
  /** From now on commits of this session have the prompt's author; without an author, the identity of the process. */
  readonly set: (agentSessionId: string, prompt: Inbound<"prompt">) => Promise<void>
  /** A sub-agent's commits have the author of its parent session. */
  readonly inherit: (childId: string, parentId: string) => Promise<void>
  /** Writes the plugin into OpenCode's configuration. */
  readonly installPlugin: (configDir: string) => Promise<void>
}

export const createGitIdentities = (folder: string): GitIdentities => {
  const known = new Map<string, string>()
  const fileOf = (agentSessionId: string) => join(folder, `${agentSessionId}.json`)
  const write = async (agentSessionId: string, identity: string | undefined): Promise<void> => {
    if (!SESSION_ID.test(agentSessionId)) return
    if (identity === undefined) {
      known.delete(agentSessionId)
      return rm(fileOf(agentSessionId), { force: true })
    }
    known.set(agentSessionId, identity)
    // OpenCode may run as another user: files are readable, but the folder cannot be listed.
    await mkdir(folder, { recursive: true, mode: 0o711 })
    // Replaced atomically, since a shell may start at the same moment.
    await writeFile(`${fileOf(agentSessionId)}.new`, identity, { mode: 0o644 })
    await rename(`${fileOf(agentSessionId)}.new`, fileOf(agentSessionId))
  }
  return {
    set: (agentSessionId, prompt) => write(agentSessionId, identityOf(prompt)),
    inherit: (childId, parentId) => write(childId, known.get(parentId)),
    installPlugin: async (configDir) => {
      await mkdir(join(configDir, "plugin"), { recursive: true, mode: 0o700 })
      await writeFile(join(configDir, "plugin", "git-identity.js"), pluginSource(folder))
    },
  }
}

const SESSION_ID = /^[A-Za-z0-9_-]+$/

const identityOf = (prompt: Inbound<"prompt">): string | undefined => {
  const name = clean(prompt.gitName ?? prompt.authorName)
  const email = clean(prompt.gitEmail ?? prompt.authorEmail)
  if (name === undefined || email === undefined) return undefined
  return JSON.stringify({ name, email })
}

/** Removes characters that git refuses or changes; a name of only such characters counts as missing. */
const clean = (text: string | undefined): string | undefined => {
  const cleaned = text?.replaceAll(/[<>\n\r\0]/g, " ").trim()
  return cleaned === "" ? undefined : cleaned
}

/** Plain JavaScript without dependencies, so that OpenCode can load it without a network. */
const pluginSource = (folder: string): string => `import { readFileSync } from "node:fs"
const folder = ${JSON.stringify(folder)}
export const GitIdentity = async () => ({
  "shell.env": async ({ sessionID }, { env }) => {
    if (!/^[A-Za-z0-9_-]+$/.test(sessionID ?? "")) return
    try {
      const { name, email } = JSON.parse(readFileSync(folder + "/" + sessionID + ".json", "utf8"))
      for (const role of ["AUTHOR", "COMMITTER"]) {
        env["GIT_" + role + "_NAME"] = name
        env["GIT_" + role + "_EMAIL"] = email
      }
    } catch {
      // No file: the prompt has no author, and the identity of the process is used.
    }
  },
})
`
