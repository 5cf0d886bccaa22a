/** A request whose body never comes to its end. */
import { untilFound } from "../../kit/until-true.ts"

/** The status line of the answer that comes although most of the body is still missing. */
export const statusOfHalfSent = async (
  url: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  length: number,
): Promise<string> => {
  const { hostname, port, host } = new URL(url)
  const head = Object.entries({ host, "content-length": String(length), ...headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")
  let received = ""
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      open: (opened) => void opened.write(`POST ${path} HTTP/1.1\r\n${head}\r\n[[[[`),
      data: (_, bytes) => {
        received += bytes.toString("latin1")
      },
    },
  })
  try {
    return await untilFound(
      () => /^HTTP\/1\.1 (\d{3})/.exec(received)?.[1],
      "answer before the body has come",
    )
  } finally {
    socket.terminate()
  }
}
