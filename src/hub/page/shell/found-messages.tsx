/** Below the conversations whose title matches: messages that contain the text, from the hub. */
import { pathOf } from "../routes.ts"
import { age } from "../ui/clock.ts"
import { Spinner } from "../ui/spinner.tsx"
import { words } from "../words.ts"
import { Marked } from "./marked.tsx"
import { useHits } from "./use-hits.ts"

export const FoundMessages = ({
  query,
  onFollow,
}: {
  readonly query: string
  readonly onFollow: (event: MouseEvent, path: string) => void
}) => {
  const { hits, state, retry } = useHits(query)
  if (state === "idle") return null
  return (
    <section aria-label={words.messages}>
      <h2>{words.messages}</h2>
      {state === "busy" && hits.length === 0 && (
        <p class="side-note" role="status">
          <Spinner size={12} /> {words.searching}
        </p>
      )}
      {state === "failed" && (
        <p class="side-note" role="status">
          {words.searchFailed}{" "}
          <button type="button" class="link" onClick={retry}>
            {words.tryAgain}
          </button>
        </p>
      )}
      {state === "done" && hits.length === 0 && (
        <p class="side-note" role="status">
          {words.nothingSays(query)}
        </p>
      )}
      <ul>
        {hits.map(({ session, channel, messageId, text, marks, at }) => {
          const path = pathOf({ session, channel, message: messageId })
          return (
            <li key={`${session}/${messageId}`}>
              <a class="row is-found" href={path} onClick={(event) => onFollow(event, path)}>
                <span class="row-title">
                  <Marked text={text} marks={marks} />
                </span>
                <span class="row-age">{age(at, Date.now())}</span>
              </a>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
