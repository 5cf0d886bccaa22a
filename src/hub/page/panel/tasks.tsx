/** The tasks that the agent and its children keep. */
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { useList } from "./use-list.ts"

interface Task {
  readonly id: string
  readonly title: string
  readonly status?: string
  readonly description?: string
}

export const Tasks = () => {
  const { rows, problem, reload } = useList<Task>("tasks")
  if (problem !== undefined)
    return (
      <Empty icon="alert" title={words.listFailed} text={problem}>
        <Button small onClick={reload}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (!rows) return <Empty icon="plan" title={words.loading} isBusy />
  if (rows.length === 0) return <Empty icon="plan" title={words.tasksNone} text={words.tasksText} />
  return (
    <ul class="list">
      {rows.map(({ id, title, status, description }) => (
        <li key={id} class="list-row">
          <div>
            <b>{title}</b>
            {description && <p>{description}</p>}
          </div>
          {status && <span class="chip">{status}</span>}
        </li>
      ))}
    </ul>
  )
}
