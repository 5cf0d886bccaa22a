/** This browser is not logged in: how to get a link, and a field for a key where the hub accepts keys. */
import { useEffect, useState } from "preact/hooks"
import { acceptsTokens, enter, offered, startPath } from "../client/login.ts"
import { type LoginOffer, pastedOffer } from "../client/shared-link.ts"
import { Button } from "../ui/button.tsx"
import { Mark } from "../ui/mark.tsx"
import { words } from "../words.ts"

/** Logs in and starts the page again. */
const useEnter = () => {
  const [problem, setProblem] = useState("")
  const start = async (offer: LoginOffer | undefined) => {
    const refused = offer ? await enter(offer) : words.loginUnreadable
    setProblem(refused ?? "")
    if (offer && refused === undefined) location.replace(startPath(offer))
  }
  const note = problem !== "" && (
    <p class="setting-bad" role="alert">
      {words.keyRefused(problem)}
    </p>
  )
  return { start, note }
}

const TokenForm = () => {
  const [text, setText] = useState("")
  const { start, note } = useEnter()
  return (
    <form
      class="login-form"
      onSubmit={(event) => {
        event.preventDefault()
        void start(pastedOffer(text))
      }}
    >
      <label>
        <span>{words.loginToken}</span>
        <input
          type="password"
          autocomplete="off"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <Button type="submit" kind="primary" disabled={text.trim() === ""}>
        {words.loginEnter}
      </Button>
      {note}
    </form>
  )
}

export const LoginScreen = () => {
  const [hasForm, setForm] = useState(false)
  useEffect(() => void acceptsTokens().then(setForm), [])
  return (
    <main class="login">
      <Mark size={40} />
      <h1>{words.loginTitle}</h1>
      <p>{words.loginText}</p>
      <pre tabIndex={0}>{words.loginCommand}</pre>
      {hasForm && <TokenForm />}
      <p class="login-note">{words.loginDrafts}</p>
    </main>
  )
}

/** A share link was opened in a browser that has a login: it would replace that login. */
export const OfferScreen = ({ offer }: { readonly offer: LoginOffer }) => {
  const { start, note } = useEnter()
  return (
    <main class="login">
      <Mark size={40} />
      <h1>{words.offerTitle}</h1>
      <p>{words.offerText}</p>
      <div class="setting-in">
        <Button kind="primary" onClick={() => void start(offer)}>
          {words.offerTake}
        </Button>
        <Button onClick={() => (offered.value = undefined)}>{words.offerStay}</Button>
      </div>
      {note}
    </main>
  )
}
