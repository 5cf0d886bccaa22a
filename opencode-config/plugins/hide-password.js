/**
 * OpenCode hands its whole environment to every shell it starts. It has read its password by the time plugins are
 * loaded and does not read it again, so taking it away here keeps it out of the agent's `env`.
 */
delete process.env.OPENCODE_SERVER_PASSWORD

export const HidePassword = async () => ({})
