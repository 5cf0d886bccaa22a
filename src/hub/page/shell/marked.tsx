/** A text with the places that a search found. */
import { Fragment } from "preact"
import { visible } from "../ui/visible.ts"

export const Marked = ({
  text,
  marks = [],
}: {
  readonly text: string
  readonly marks?: readonly (readonly [start: number, end: number])[] | undefined
}) => (
  <>
    {marks.map(([start, end], index) => (
      <Fragment key={index}>
        {visible(text.slice(marks[index - 1]?.[1] ?? 0, start))}
        <mark>{visible(text.slice(start, end))}</mark>
      </Fragment>
    ))}
    {visible(text.slice(marks.at(-1)?.[1] ?? 0))}
  </>
)
