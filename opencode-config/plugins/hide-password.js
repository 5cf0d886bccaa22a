/**
 * OpenCode passes its environment to every shell. It reads its password before it loads plugins and never again, so
 * deleting it here keeps it out of the agent's `env`.
 */
delete process.env.OPENCODE_SERVER_PASSWORD

export const HidePassword = async () => ({})
