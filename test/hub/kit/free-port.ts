/** A port of loopback that nobody listens on just now. */
export const freePort = async (): Promise<number> => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  const { port } = server
  server.stop(true)
  return port
}
