/** F6 in the terminal leaves it: the frame says so, because the page does not get its keys. */
import { useEffect } from "preact/hooks"
import { moveRegion } from "../shell/regions.ts"

export const useLeftFrame = (
  frame: { readonly current: HTMLIFrameElement | null },
  url: string | undefined,
): void => {
  useEffect(() => {
    if (url === undefined) return
    const { origin } = new URL(url, location.href)
    const onMessage = (event: MessageEvent<unknown>) => {
      if (event.source !== frame.current?.contentWindow || event.origin !== origin) return
      const { type, back } = (event.data ?? {}) as { type?: unknown; back?: unknown }
      // It moves the focus and nothing else: whatever the frame sends, it can do no more.
      if (type === "leave") moveRegion(back === true ? -1 : 1)
    }
    addEventListener("message", onMessage)
    return () => removeEventListener("message", onMessage)
  }, [url])
}
