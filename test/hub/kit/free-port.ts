/** A loopback port that is free now. */
export const freePort = async (): Promise<number> => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  const { port } = server
  server.stop(true)
  return port
}
