/** The model and the directory of new sessions. `page-contract.ts` runs these tests on both hosts. */
import { expect, test } from "bun:test"
import type { PageKit } from "./page-contract.ts"

export const testNewSessions = ({ open, prompt, request }: PageKit): void => {
  const listed = async () =>
    (await (await request("GET", "/sessions")).json()) as {
      readonly sessions: readonly { readonly id: string }[]
    }

  test("a prompt that names no model gets the one of its session, then the owner's, then the runner's", async () => {
    const house = await open()
    const { client, runner, session } = house
    const modelOf = async (fields: object = {}) => {
      await prompt(house, "which model", fields)
      return runner.prompts.at(-1)?.model
    }
    const shown = (name: string) =>
      client.until(
        () => (client.state("model") as { default?: string } | undefined)?.default === name,
        `the model ${name}`,
      )
    const models = [{ provider: "a", models: ["one", "two"].map((id) => ({ id, name: id })) }]
    runner.send({ type: "models", models, default: "a/one" })
    await shown("a/one")
    expect(await modelOf()).toBeUndefined()

    expect((await request("PUT", "/default-model", { model: "a/two" })).status).toBe(200)
    await shown("a/two")
    expect(await listed()).toMatchObject({ defaultModel: "a/two", maySetModel: true })
    expect(await modelOf()).toBe("a/two")
    expect(await modelOf({ model: "a/one" })).toBe("a/one")

    // The runner does not have it: its own model is used.
    await request("PUT", "/default-model", { model: "b/other" })
    await shown("a/one")
    expect(await modelOf()).toBeUndefined()

    await request("PUT", `/sessions/${session}`, { model: "a/two" })
    await shown("a/two")
    expect(await modelOf()).toBe("a/two")

    expect((await request("PUT", "/default-model", { model: null })).status).toBe(200)
    expect(await listed()).not.toHaveProperty("defaultModel")
  })

  test("a new session takes a model, and refuses one that is not provider/model", async () => {
    const made = await request("POST", "/sessions", { model: "a/two" })
    expect(made.status).toBe(201)
    const { session } = (await made.json()) as { session: string }
    const snapshot = await (await request("GET", `/sessions/${session}`)).json()
    expect(snapshot).toMatchObject({ state: { model: { default: "a/two" } } })
    expect((await request("POST", "/sessions", { model: "two" })).status).toBe(400)
    expect((await request("PUT", "/default-model", { model: "two" })).status).toBe(400)
  })

  test("a field that a session does not have is refused by its name, and changes nothing", async () => {
    const ids = async () => (await listed()).sessions.map(({ id }) => id).toSorted()
    const { session } = await open()
    const before = await ids()
    for (const [method, path] of [
      ["POST", "/sessions"],
      ["PUT", `/sessions/${session}`],
      ["PUT", "/sessions/of-a-misspelt-field"],
    ] as const) {
      const refused = await request(method, path, { title: "Waders", modle: "a/two" })
      expect(refused.status).toBe(400)
      expect(await refused.json()).toMatchObject({
        error: {
          message:
            "modle: unknown field: expected owner, parent, handle, title, model, workspace, config, runnerToken",
        },
      })
    }
    expect(await ids()).toEqual(before)
    const snapshot = await (await request("GET", `/sessions/${session}`)).json()
    expect(JSON.stringify(snapshot)).not.toContain("Waders")
  })

  test("a hub without a directory refuses a session in it, and creates none", async () => {
    // Their facts change while earlier turns end.
    const ids = async () => (await listed()).sessions.map(({ id }) => id).toSorted()
    const before = await ids()
    for (const workspace of ["same", "worktree"]) {
      const refused = await request("POST", "/sessions", { workspace })
      expect(refused.status).toBe(400)
      expect(await refused.json()).toMatchObject({
        error: { message: expect.stringContaining("no directory of its own") },
      })
    }
    expect(await listed()).not.toHaveProperty("workspaces")
    expect(await ids()).toEqual(before)
  })
}
