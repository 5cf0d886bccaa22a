/** This browser is not logged in: how to get a link. */
import { Mark } from "../ui/mark.tsx"
import { words } from "../words.ts"

export const LoginScreen = () => (
  <main class="login">
    <Mark size={40} />
    <h1>{words.loginTitle}</h1>
    <p>{words.loginText}</p>
    <pre tabIndex={0}>{words.loginCommand}</pre>
    <p class="login-note">{words.loginDrafts}</p>
  </main>
)
