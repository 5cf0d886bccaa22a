/** The login of this browser. The hub asks for two things: a cookie that scripts cannot read, and this key. */
import { signal } from "@preact/signals"
import { readStored, writeStored } from "./storage.ts"

const KEY = "key"

/** `refused`: show the login screen. Drafts are kept. */
export const login = signal<"unknown" | "in" | "refused">("unknown")

export const loginKey = (): string | undefined => readStored(KEY)

export const refuse = (): void => {
  login.value = "refused"
}

/** Uses the code of a login link, if the address has one, and removes it from the address and the history. */
export const redeemLink = async (): Promise<void> => {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1]
  if (code === undefined) return
  history.replaceState(null, "", location.pathname + location.search)
  const response = await fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  }).catch(() => undefined)
  if (!response?.ok) {
    // A link that was used before: a login that still holds is as good.
    if (loginKey() === undefined) refuse()
    return
  }
  const { key } = (await response.json()) as { readonly key?: unknown }
  if (typeof key === "string") writeStored(KEY, key)
}

export const logOutEverywhere = async (): Promise<void> => {
  await fetch("/hub/logout", { method: "POST", headers: keyHeader() }).catch(() => undefined)
  writeStored(KEY, undefined)
  refuse()
}

export const keyHeader = (): Record<string, string> => {
  const key = loginKey()
  return key === undefined ? {} : { "x-sandpiper-key": key }
}
