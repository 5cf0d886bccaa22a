/** The title of the open conversation, and the title of the browser's tab with its state. */
import { MAIN_CHANNEL } from "../../../wire/channel.ts"
import { computed, effect } from "@preact/signals"
import { words } from "../words.ts"
import { route } from "./navigation.ts"
import { channels } from "./slices.ts"
import { dock, isWorking, state } from "./store.ts"

export const title = computed((): string => {
  const { channel } = route.value
  const own = channels.value.find(({ key }) => key === channel)
  const named = own?.title ?? (channel === MAIN_CHANNEL || own ? state.value["title"] : undefined)
  if (typeof named === "string" && named !== "") return named
  return own?.lastText ?? words.newConversation
})

/** `●` works, `(1)` waits for the person. The icon of the tab gets a dot. */
export const watchTitle = (): void => {
  effect(() => {
    const waits = dock.value.interactions.length
    const prefix = waits > 0 ? `(${waits}) ` : isWorking.value ? "● " : ""
    document.title = `${prefix}${title.value} - ${words.name}`
    const icon = document.querySelector<HTMLLinkElement>("#favicon")
    const wanted = waits > 0 || isWorking.value ? "/favicon-dot.svg" : "/favicon.svg"
    if (icon && icon.getAttribute("href") !== wanted) icon.href = wanted
  })
}
