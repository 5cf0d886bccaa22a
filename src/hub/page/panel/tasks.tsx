/** The tasks that the agent and its children keep. */
import { words } from "../words.ts"
import { ListFrame } from "./list-frame.tsx"
import { useList } from "./use-list.ts"

interface Task {
  readonly id: string
  readonly title: string
  readonly status?: string
  readonly description?: string
}

export const Tasks = () => (
  <ListFrame
    list={useList<Task>("tasks")}
    icon="plan"
    none={words.tasksNone}
    noneText={words.tasksText}
  >
    {({ id, title, status, description }) => (
      <li key={id} class="list-row">
        <div>
          <b>{title}</b>
          {description && <p>{description}</p>}
        </div>
        {status && <span class="chip">{status}</span>}
      </li>
    )}
  </ListFrame>
)
