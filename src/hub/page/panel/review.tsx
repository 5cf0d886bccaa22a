/** A review of the changes: findings by severity, each with a way to have it fixed. */
import { insertText } from "../client/drafts.ts"
import { openPlace } from "../client/open-path.ts"
import { Elapsed } from "../parts/elapsed.tsx"
import { Markdown } from "../parts/lazy-markdown.tsx"
import { Button } from "../ui/button.tsx"
import { Path } from "../ui/path.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { useAnswer } from "./use-answer.ts"

interface Finding {
  readonly file?: string
  readonly line?: number
  readonly severity?: string
  readonly title?: string
  readonly message?: string
  readonly description?: string
}

const ORDER = ["critical", "warning", "suggestion", "nitpick"] as const

const findingsOf = (result: unknown): readonly Finding[] => {
  const data = (result as { readonly data?: unknown } | undefined)?.data ?? result
  const list = (data as { readonly findings?: unknown } | undefined)?.findings
  return Array.isArray(list) ? (list as readonly Finding[]) : []
}

const textOf = (result: unknown): string | undefined => {
  const data = (result as { readonly data?: unknown } | undefined)?.data ?? result
  const text = (data as { readonly summary?: unknown } | undefined)?.summary
  return typeof text === "string" ? text : undefined
}

export const Review = () => {
  const review = useAnswer({ type: "review" })
  if (review.isWaiting)
    return (
      <Empty icon="eye" title={words.reviewing} isBusy>
        <Elapsed since={review.since} as="stopwatch" />
      </Empty>
    )
  if (review.problem !== undefined)
    return (
      <Empty icon="alert" title={words.listFailed} text={review.problem}>
        <Button small onClick={review.askAgain}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (review.result === undefined)
    return (
      <Empty icon="eye" title={words.reviewNone} text={words.reviewText}>
        <Button kind="primary" onClick={review.ask}>
          {words.reviewStart}
        </Button>
      </Empty>
    )
  const findings = findingsOf(review.result)
  const summary = textOf(review.result)
  return (
    <div class="review">
      {summary !== undefined && <Markdown text={summary} />}
      {findings.length === 0 && <p class="file-note">{words.reviewClean}</p>}
      {ORDER.map((severity) => {
        const found = findings.filter((one) => one.severity === severity)
        return (
          found.length > 0 && (
            <section key={severity} aria-label={words.severity[severity]}>
              <h2>{words.severity[severity]}</h2>
              {found.map((finding, index) => (
                <FindingView key={index} finding={finding} />
              ))}
            </section>
          )
        )
      })}
    </div>
  )
}

const FindingView = ({ finding }: { readonly finding: Finding }) => {
  const { file = "", line, title, message, description } = finding
  const text = message ?? description ?? title ?? ""
  const place = line === undefined ? file : `${file}:${line}`
  return (
    <div class="finding">
      {file !== "" && (
        <button
          type="button"
          class="path-link"
          onClick={() => openPlace({ path: file, ...(line !== undefined && { line }) })}
        >
          <Path path={place} />
        </button>
      )}
      <Markdown text={text} />
      <Button small onClick={() => insertText(`${words.reviewFix}: ${place} ${text}`)}>
        {words.reviewFix}
      </Button>
    </div>
  )
}
