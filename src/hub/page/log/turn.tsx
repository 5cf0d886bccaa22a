/** A prompt and the replies to it. */
import { memo } from "../ui/memo.ts"
import type { Turn } from "../../view/turns.ts"
import { Prompt } from "./prompt.tsx"
import { Reply } from "./reply.tsx"

export const TurnView = memo(
  ({ turn, isLast }: { readonly turn: Turn; readonly isLast: boolean }) => (
    <>
      {turn.prompt && <Prompt message={turn.prompt} />}
      {turn.replies.map((message) => (
        <Reply key={message.id} message={message} prompt={turn.prompt} isLast={isLast} />
      ))}
    </>
  ),
)
