/** One line for one thing done: icon, verb, subject, facts. Its body opens on demand and stays as the person left it. */
import type { ComponentChildren } from "preact"
import { Icon, type IconName } from "./icon.tsx"
import { useKeptChoice } from "./kept-choice.ts"
import { Spinner } from "./spinner.tsx"

export interface FoldProps {
  /** Of the part that it shows. The person's choice is kept under it. */
  readonly name: string
  readonly icon: IconName
  readonly verb: string
  readonly subject?: ComponentChildren
  /** The subject is a command or a path. */
  readonly mono?: boolean
  readonly meta?: ComponentChildren
  readonly state?: "running" | "pending" | "failed" | "waits" | "done"
  /** Open until the person closes it. */
  readonly initiallyOpen?: boolean
  readonly children?: ComponentChildren
}

export const Fold = (props: FoldProps) => {
  const { name, icon, verb, subject, mono = false, meta, state = "done", children } = props
  const [chosen, choose] = useKeptChoice(name)
  const open = chosen ?? props.initiallyOpen ?? false
  const line = (
    <>
      <span class="fold-icon">
        {state === "running" ? <Spinner size={16} /> : <Icon name={icon} />}
      </span>
      <span class="fold-verb">{verb}</span>
      {subject !== undefined && <span class={`fold-subject ${mono ? "mono" : ""}`}>{subject}</span>}
      <span class="fold-meta">{meta}</span>
    </>
  )
  if (!children)
    return (
      <div class={`fold is-${state}`} data-anchor>
        <div class="fold-row">{line}</div>
      </div>
    )
  return (
    <div class={`fold is-${state} ${open ? "is-open" : ""}`} data-anchor>
      <button
        type="button"
        class="fold-row"
        aria-expanded={open}
        data-fold
        onClick={() => choose(!open)}
      >
        {line}
        <Icon name="chevron" size={14} class="fold-chevron" />
      </button>
      {open && <div class="fold-body">{children}</div>}
    </div>
  )
}
