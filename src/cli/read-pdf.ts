/** `sandpiper read-pdf`: the child process in which the runner reads a PDF, with limits on time and memory. */
import { textOfPdf } from "../runner/prompt/pdf-text.ts"
import { type Command, print } from "./command.ts"

export const readPdf: Command = async () => {
  print(JSON.stringify(await textOfPdf(new Uint8Array(await Bun.stdin.arrayBuffer()))))
  return 0
}
