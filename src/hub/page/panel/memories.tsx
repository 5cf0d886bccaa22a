/** What the agent keeps for later conversations. */
import { useState } from "preact/hooks"
import { request } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { ListFrame } from "./list-frame.tsx"
import { useList } from "./use-list.ts"

interface Memory {
  readonly id: string
  readonly content: string
  readonly category?: string
}

export const Memories = () => {
  const list = useList<Memory>("memories")
  const [asks, setAsks] = useState<string | undefined>(undefined)
  const forget = async (id: string) => {
    setAsks(undefined)
    await request({ type: "forget", id })
    list.reload()
  }
  return (
    <ListFrame list={list} icon="book" none={words.memoriesNone} noneText={words.memoriesText}>
      {({ id, content, category }) => (
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
      )}
    </ListFrame>
  )
}
