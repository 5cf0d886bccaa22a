/** A port of loopback on which no program listens at this moment. */
export const freePort = (): number => {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  const { port } = probe
  probe.stop(true)
  return port
}
