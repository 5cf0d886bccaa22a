/** Rows of the tools for services outside: chats and web research. */
import { expect } from "bun:test"
import { writeFile } from "node:fs/promises"
import { PNG } from "../../kit/programs.ts"
import { type Rows, succeed, untilTrue } from "../kit/row.ts"

export const channelRows: Rows<"list_channels" | "channel_reply"> = {
  list_channels: async (house) => {
    await house.ended(await house.say("hello", { channelType: "telegram", channelId: "4711" }))
    const { read } = await succeed(house, "list_channels", {})
    expect(read).toContain("telegram:4711")
  },
  channel_reply: async (house) => {
    await writeFile(house.inWorkspace("reply.png"), PNG)
    const chat = { channelType: "slack", channelId: "C77:1700000000.000100" }
    await house.ended(await house.say("hello from Slack", chat))
    await succeed(house, "channel_reply", {
      channel_type: "slack",
      channel_id: "C77:1700000000.000100",
      message: "**The nest** is built.",
      image_path: "reply.png",
    })
    await untilTrue(() => house.slack.uploads.length > 0, "image in Slack")
    expect(house.slack.uploads.at(-1)).toMatchObject({
      channel: "C77",
      thread: "1700000000.000100",
      text: "*The nest* is built.",
      mime: "image/png",
    })
    expect(Buffer.from(house.slack.uploads.at(-1)?.bytes ?? [])).toEqual(PNG)
  },
}

export const researchRows: Rows<
  | "parallel_web_search"
  | "parallel_web_extract"
  | "parallel_deep_research"
  | "parallel_data_enrichment"
> = {
  parallel_web_search: async (house) => {
    const { read } = await succeed(house, "parallel_web_search", {
      objective: "Where do herons nest?",
    })
    expect(read).toContain("an excerpt")
    expect(JSON.stringify(house.parallel.calls)).toContain("Where do herons nest?")
  },
  parallel_web_extract: async (house) => {
    const { read } = await succeed(house, "parallel_web_extract", {
      urls: ["https://page.example"],
      full_content: true,
    })
    expect(read).toContain("all of it")
    expect(JSON.stringify(house.parallel.calls)).toContain("https://page.example")
  },
  parallel_deep_research: async (house) => {
    const { read } = await succeed(house, "parallel_deep_research", {
      question: "Why on one leg?",
      processor: "base",
    })
    expect(read).toContain("Because.")
    expect(JSON.stringify(house.parallel.calls)).toContain("Why on one leg?")
  },
  parallel_data_enrichment: async (house) => {
    const { read } = await succeed(house, "parallel_data_enrichment", {
      data: { company: "Reed & Sons" },
      fields: { founded: "The year" },
    })
    expect(read).toContain("1999")
    expect(JSON.stringify(house.parallel.calls)).toContain("Reed & Sons")
  },
}
