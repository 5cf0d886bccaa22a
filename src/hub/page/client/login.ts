/** The login of this browser. The hub asks for two things: a cookie that scripts cannot read, and this key. */
import { signal } from "@preact/signals"
import { words } from "../words.ts"
import { type LoginOffer, offerOf } from "./shared-link.ts"
import { readStored, writeStored } from "./storage.ts"

const KEY = "key"

/** `refused`: show the login screen. Drafts are kept. */
export const login = signal<"unknown" | "in" | "refused">("unknown")

export const loginKey = (): string | undefined => readStored(KEY)

export const refuse = (): void => {
  login.value = "refused"
}

/** A share link that was opened while this browser has a login: the person decides. */
export const offered = signal<LoginOffer | undefined>(undefined)

/** `undefined` when this browser is logged in now, else the reason. */
export const enter = async (offer: LoginOffer): Promise<string | undefined> => {
  const response = await fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(offer),
  }).catch(() => undefined)
  const body = (await response?.json().catch(() => undefined)) as
    | { readonly key?: unknown; readonly error?: { readonly message?: unknown } }
    | undefined
  if (!response?.ok || typeof body?.key !== "string") {
    const { message } = body?.error ?? {}
    return typeof message === "string" ? message : words.reconnecting
  }
  writeStored(KEY, body.key)
  return undefined
}

/** Where the page starts after a login: a share link names its session. */
export const startPath = (offer: LoginOffer): string =>
  "session" in offer ? `/c/${encodeURIComponent(offer.session ?? "")}/web:default` : "/"

/** False where people log in with links only. */
export const acceptsTokens = async (): Promise<boolean> => {
  const response = await fetch("/login").catch(() => undefined)
  const body = (await response?.json().catch(() => undefined)) as { tokens?: unknown } | undefined
  return body?.tokens === true
}

/** Uses the link in the address, if there is one, and removes it from the address and the history. */
export const redeemLink = async (): Promise<void> => {
  const offer = offerOf(location.hash)
  if (offer === undefined) return
  history.replaceState(null, "", location.pathname + location.search)
  // Another site can open a share link in this browser: it must not replace a login without the person's consent.
  if ("token" in offer && loginKey() !== undefined) {
    offered.value = offer
    return
  }
  const refused = await enter(offer)
  // A link that was used before: a login that still holds is as good.
  if (refused !== undefined && loginKey() === undefined) refuse()
  if (refused === undefined && "token" in offer) location.replace(startPath(offer))
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
