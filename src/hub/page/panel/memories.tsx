/** What the agent keeps for later conversations. */
import { useState } from "preact/hooks"
import { request } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { useList } from "./use-list.ts"

interface Memory {
  readonly id: string
  readonly content: string
  readonly category?: string
}

export const Memories = () => {
  const { rows, problem, reload } = useList<Memory>("memories")
  const [asks, setAsks] = useState<string | undefined>(undefined)
  const forget = async (id: string) => {
    setAsks(undefined)
    await request("forget", { id })
    reload()
  }
  if (problem !== undefined)
    return (
      <Empty icon="alert" title={words.listFailed} text={problem}>
        <Button small onClick={reload}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (!rows) return <Empty icon="book" title={words.loading} isBusy />
  if (rows.length === 0)
    return <Empty icon="book" title={words.memoriesNone} text={words.memoriesText} />
  return (
    <ul class="list">
      {rows.map(({ id, content, category }) => (
        <li key={id} class="list-row">
          <div>
            <p class="list-text">{content}</p>
            {category && <span class="chip">{category}</span>}
          </div>
          {asks === id ? (
            <span class="list-ask">
              {words.forgetAsk}
              <Button small kind="bad" onClick={() => void forget(id)}>
                {words.forget}
              </Button>
              <Button small kind="ghost" onClick={() => setAsks(undefined)}>
                {words.cancel}
              </Button>
            </span>
          ) : (
            <Button small kind="ghost" onClick={() => setAsks(id)}>
              {words.forget}
            </Button>
          )}
        </li>
      ))}
    </ul>
  )
}
