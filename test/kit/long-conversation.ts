/** A conversation of many messages at the page that the hub itself serves, without a runner. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { servePage } from "../../src/cli/serve-page.ts"
import { loadPageFiles } from "../../src/hub/page-files.ts"
import { CLIENT_TOKEN, startTestHub, type TestHub } from "../hub/kit/hub.ts"

export interface LongConversation {
  readonly hub: TestHub
  readonly newLink: () => string
  readonly stop: () => Promise<void>
}

/** Message 999 is the only one with the word "kingfisher". */
export const startLongConversation = async (messages: number): Promise<LongConversation> => {
  const stateDir = await mkdtemp(join(tmpdir(), "page-long-"))
  const settings = { stateDir, pageOrigin: "http://sandpiper.localhost", sandboxOrigin: undefined }
  const served = servePage(settings, await loadPageFiles(), CLIENT_TOKEN)
  if (!served) throw new Error("the page is not built")
  const hub = await startTestHub({ stateDir, page: served })
  const session = hub.hub.find("s1")
  for (let index = 0; index < messages; index += 1)
    session?.note({
      id: `m${index}`,
      role: index % 2 === 0 ? "user" : "assistant",
      content:
        index % 2 === 0
          ? `question ${index}`
          : `answer ${index}${index === 999 ? " of the kingfisher" : ""}\n\n- one\n- two\n\n\`\`\`ts\nconst a = ${index}\n\`\`\``,
    })
  return {
    hub,
    newLink: () => served.newLink(hub.hub.port),
    stop: async () => {
      await hub.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}
