/** What a list shows before its rows: that it loads, that it failed, or that it is empty. */
import type { ComponentChildren } from "preact"
import { Button } from "../ui/button.tsx"
import type { IconName } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import type { ListState } from "./use-list.ts"

export interface ListFrameProps<Row> {
  readonly list: ListState<Row>
  readonly icon: IconName
  readonly none: string
  readonly noneText: string
  readonly children: (row: Row) => ComponentChildren
}

export const ListFrame = <Row,>({ list, icon, none, noneText, children }: ListFrameProps<Row>) => {
  const { rows, problem, reload } = list
  if (problem !== undefined)
    return (
      <Empty icon="alert" title={words.listFailed} text={problem}>
        <Button small onClick={reload}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (!rows) return <Empty icon={icon} title={words.loading} isBusy />
  if (rows.length === 0) return <Empty icon={icon} title={none} text={noneText} />
  return <ul class="list">{rows.map(children)}</ul>
}
