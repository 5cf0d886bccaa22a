/**
 * Whose name commits bear, prompt by prompt. One OpenCode process serves all conversations, so the environment of
 * its process cannot say it; its `shell.env` hook can, which is asked for each shell with the session it is for.
 */
import { mkdir, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Inbound } from "../../wire/frames/index.ts"

export interface GitIdentities {
  /** Commits of this session bear the prompt's author from now on; without one, the process's own. */
  readonly set: (agentSessionId: string, prompt: Inbound<"prompt">) => Promise<void>
  /** A sub-agent commits in the name of whoever its parent works for. */
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
    // Readable, for OpenCode may run as another user, to whoever knows the session's name.
    await mkdir(folder, { recursive: true, mode: 0o711 })
    // Swapped in whole: a shell may be starting at this very moment.
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

/** Git refuses or mangles these; a name that is made of nothing else is none. */
const clean = (text: string | undefined): string | undefined => {
  const words = text?.replaceAll(/[<>\n\r\0]/g, " ").trim()
  return words === "" ? undefined : words
}

/** Plain JavaScript without imports of packages: OpenCode loads it as it is, without a network. */
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
      // No file: nobody in particular asked, and the process's own identity stands.
    }
  },
})
`
