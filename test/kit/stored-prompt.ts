/** What OpenCode has taken, asked through `/opencode` of a runner's gateway. A frame or a queue shows only what was sent to it. */
import { z } from "zod"
import { untilTrue } from "./until-true.ts"

const sessions = z.array(z.object({ id: z.string() }))

/** Resolves when a session of OpenCode has a prompt with these words: the next call of the model in that session has them. */
export const untilPromptIsStored = (
  { gatewayUrl }: { readonly gatewayUrl: string },
  password: string,
  words: string,
): Promise<void> => {
  const read = async (path: string): Promise<string> => {
    const authorization = `Basic ${btoa(`opencode:${password}`)}`
    const response = await fetch(`${gatewayUrl}/opencode${path}`, { headers: { authorization } })
    const said = await response.text()
    // A session can be deleted after it was listed.
    if (response.status === 404) return ""
    if (!response.ok) throw new Error(`${path}: ${response.status} ${said}`)
    return said
  }
  return untilTrue(async () => {
    const all = sessions.parse(JSON.parse(await read("/session")))
    const conversations = await Promise.all(all.map(({ id }) => read(`/session/${id}/message`)))
    return conversations.some((one) => one.includes(words))
  }, `prompt with "${words}" in OpenCode`)
}
