/**
 * Keeps OpenCode's password out of the agent's `env`: OpenCode passes its whole environment to every shell that it
 * starts. It has read the password before it loads plugins and does not read it again.
 */
delete process.env.OPENCODE_SERVER_PASSWORD

export const HidePassword = async () => ({})
