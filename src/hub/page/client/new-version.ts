/** Whether the server has another version of the page than this one. The page says so and does not reload without the person. */
import { signal } from "@preact/signals"

export const hasNewVersion = signal(false)

/** The name of the script contains the hash of its content. */
const ownScript = (): string | undefined =>
  document.querySelector<HTMLScriptElement>("script[type=module]")?.getAttribute("src") ?? undefined

/** Asked after a connection was cut: a restarted program may be a newer one. */
export const checkVersion = async (): Promise<void> => {
  const script = ownScript()
  const response = await fetch("/", { cache: "no-cache" }).catch(() => undefined)
  const text = response?.ok ? await response.text() : undefined
  if (script !== undefined && text?.includes("<script"))
    hasNewVersion.value = !text.includes(script)
}
