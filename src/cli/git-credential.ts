/** `sandpiper git-credential`: git's credential helper, which asks the running runner. */
import { answerGit } from "../runner/host/credential-helper.ts"
import { type Command, print } from "./command.ts"

export const gitCredential: Command = async ({ settings }) => {
  print(await answerGit(settings, await Bun.stdin.text()))
  return 0
}
