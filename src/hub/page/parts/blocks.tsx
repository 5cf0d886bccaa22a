/** The rows of a reply, in order. */
import { interactions } from "../client/slices.ts"
import type { Block } from "../../view/turns.ts"
import { Divider } from "../log/divider.tsx"
import { Asked } from "./asked.tsx"
import { Lookups } from "./lookups.tsx"
import { Markdown } from "./lazy-markdown.tsx"
import { Plan } from "./plan.tsx"
import { Reasoning } from "./reasoning.tsx"
import { Task } from "./task.tsx"
import { Tool } from "./tool.tsx"

export interface BlocksProps {
  readonly blocks: readonly Block[]
  readonly isStreaming: boolean
  /** Of the last turn: its diffs are open. */
  readonly isLast: boolean
}

export const Blocks = ({ blocks, isStreaming, isLast }: BlocksProps) => (
  <>
    {blocks.map((block, index) => (
      <Row
        key={block.id}
        block={block}
        isGrowing={isStreaming && index === blocks.length - 1}
        isStreaming={isStreaming}
        isLast={isLast}
      />
    ))}
  </>
)

const waitsFor = (child: string | undefined): boolean =>
  child !== undefined && interactions.value.some(({ childSessionId }) => childSessionId === child)

const Row = ({
  block,
  isGrowing,
  isStreaming,
  isLast,
}: {
  readonly block: Block
  readonly isGrowing: boolean
  readonly isStreaming: boolean
  readonly isLast: boolean
}) => {
  switch (block.type) {
    case "text":
      return <Markdown text={block.text} isGrowing={isGrowing} />
    case "reasoning":
      return (
        <Reasoning id={block.id} text={block.text} tookMs={block.tookMs} isGrowing={isGrowing} />
      )
    case "tool":
      return <Tool tool={block.tool} output={block.output} isLast={isLast} />
    case "lookups":
      return <Lookups tools={block.tools} />
    case "task":
      return <Task tool={block.tool} blocks={block.blocks} waits={waitsFor(block.tool.child)} />
    case "asked":
      return <Asked tool={block.tool} />
    case "plan":
      return <Plan id={block.id} items={block.items} isRunning={isStreaming} />
    case "other":
      return block.kind === "compacted" ? <Divider /> : null
  }
}
