/** What happens between the agent and its provider during a turn: attempts, and a change of the model. */
import { useComputed } from "@preact/signals"
import { useEffect, useState } from "preact/hooks"
import { channel, isWorking, state } from "../client/store.ts"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"

interface Retry {
  readonly attempt: number
  readonly next: number
  readonly message: string
}

const isRetry = (value: unknown): value is Retry =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Retry).attempt === "number" &&
  typeof (value as Retry).message === "string"

const RetryNotice = ({ retry }: { readonly retry: Retry }) => {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.max(0, Math.ceil((retry.next - now) / 1000))
  const message = /[.!?]$/.test(retry.message) ? retry.message : `${retry.message}.`
  return (
    <div class="notice is-retry">
      <Icon name="reload" />
      <span>{words.retrying(message, seconds, retry.attempt)}</span>
    </div>
  )
}

export const Notices = ({ messageId }: { readonly messageId: string }) => {
  const retry = useComputed(() => state.value[`retry:${messageId}`]).value
  return isRetry(retry) ? <RetryNotice retry={retry} /> : null
}

export const SwitchNotice = () => {
  const value = state.value[`model:${channel.value}`] as
    | { readonly from?: string; readonly to?: string; readonly reason?: string }
    | undefined
  if (!isWorking.value || !value?.to) return null
  return (
    <div class="notice">
      <Icon name="star" />
      <span>{words.switched(value.to, value.from ?? "", value.reason ?? "")}</span>
    </div>
  )
}
