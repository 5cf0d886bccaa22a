/** A component of another chunk: loaded when it is first shown. Nothing stands in its place until then. */
import type { ComponentType } from "preact"
import { signal } from "@preact/signals"
import { useEffect } from "preact/hooks"

export const lazy = <Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> => {
  const loaded = signal<ComponentType<Props> | undefined>(undefined)
  const fetchIt = async () => {
    loaded.value = await load()
  }
  return (props: Props) => {
    useEffect(() => {
      if (loaded.value) return
      void fetchIt()
    }, [])
    const Component = loaded.value
    return Component ? <Component {...props} /> : null
  }
}
