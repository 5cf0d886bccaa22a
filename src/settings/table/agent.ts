/** Settings of the agent: the OpenCode process, its user, its models, and the time limits of turns. */
import { z } from "zod"
import { isLoopback } from "../../lib/git-url.ts"
import {
  directory,
  endpointUrl,
  hostList,
  model,
  modelList,
  nameList,
  portList,
  seconds,
  secret,
  urlList,
  urlWith,
} from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const agentSettings = {
  opencodeUrl: {
    env: "OPENCODE_URL",
    flag: "opencode-url",
    doc: "where OpenCode listens, always a loopback address; port 0 for any free one",
    schema: urlWith(
      "must be an http:// URL with a loopback host, such as http://127.0.0.1:4096",
      (url) => url.protocol === "http:" && isLoopback(url.hostname),
    ),
    fallback: ({ command }) => (command === "up" ? "http://127.0.0.1:0" : "http://127.0.0.1:4096"),
  },
  opencodePassword: {
    env: "OPENCODE_SERVER_PASSWORD",
    doc: "OpenCode's password, at least 16 characters; generated at every start if not set",
    schema: secret.optional(),
    secret: true,
  },
  opencodeBin: {
    env: "OPENCODE_BIN",
    doc: "the OpenCode binary; otherwise `opencode` beside this program or on PATH",
    schema: z.string().min(1).optional(),
  },
  opencodeConfigSource: {
    env: "OPENCODE_CONFIG_SOURCE",
    doc: "directory with opencode.json, tools and skills that replaces the built-in ones",
    schema: directory,
    fallback: () => "/opencode-config",
  },
  agentUser: {
    env: "AGENT_USER",
    doc: "user that OpenCode and its tools run as if the runner is root; default `agent` if that user exists; `root` lets them read the runner's memory",
    schema: z
      .string()
      .regex(/^[a-z_][a-z0-9_-]{0,31}$/, { error: "must be the name of a user" })
      .optional(),
  },
  agentEnvAllow: {
    env: "AGENT_ENV_ALLOW",
    doc: "further variables that the agent may see, separated by commas; never the runner's own",
    schema: nameList.optional(),
  },
  egress: {
    env: "SANDBOX_EGRESS",
    doc: "network of the agent: `open`, or `allow-list`: only the hosts of SANDBOX_EGRESS_HOSTS and of the repositories",
    schema: z.enum(["open", "allow-list"], { error: "must be open or allow-list" }),
    fallback: () => "open",
  },
  egressHosts: {
    env: "SANDBOX_EGRESS_HOSTS",
    doc: "hosts for SANDBOX_EGRESS=allow-list, separated by commas: name, *.name, either with :port",
    schema: hostList,
    fallback: () => "none",
  },
  closedPorts: {
    env: "SANDBOX_CLOSED_PORTS",
    doc: "ports of this sandbox, separated by commas, that belong to its platform: closed to the agent; the fleet sets it",
    schema: portList,
    fallback: () => "none",
  },
  egressBoundary: {
    env: "SANDBOX_EGRESS_BOUNDARY",
    doc: "1: the network of the sandbox has no way out but HTTPS_PROXY; the fleet sets it where that is so",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
  model: {
    env: "SANDPIPER_MODEL",
    flag: "model",
    doc: "provider/model of prompts that name none; the model alone if there is one endpoint",
    schema: model.optional(),
  },
  baseUrl: {
    env: "OPENAI_BASE_URL",
    flag: "base-url",
    doc: "an OpenAI-compatible endpoint (vLLM, LiteLLM, Ollama, ...); OPENAI_API_KEY goes only there",
    schema: endpointUrl.optional(),
    fallback: ({ env }) => env["OPENAI_API_BASE"] ?? "",
  },
  anthropicBaseUrl: {
    env: "ANTHROPIC_BASE_URL",
    doc: "an endpoint with Anthropic's API; ANTHROPIC_API_KEY goes only there",
    schema: endpointUrl.optional(),
  },
  ollamaHost: {
    env: "OLLAMA_HOST",
    doc: "Ollama's address: host, host:port or URL",
    schema: z.string().regex(/^\S+$/, { error: "must be a host, host:port or URL" }).optional(),
  },
  localModels: {
    env: "SANDPIPER_LOCAL_MODELS",
    doc: "servers asked for models if no key and no endpoint is set, separated by commas, or none",
    schema: urlList,
    fallback: () => "http://127.0.0.1:11434,http://127.0.0.1:1234",
  },
  agentModels: {
    env: "AGENT_MODELS",
    doc: "the only models that may be used, separated by commas: provider/model or provider/*",
    schema: modelList.optional(),
  },
  isOrchestrator: {
    env: "IS_ORCHESTRATOR",
    doc: "1 or true: the session directs others, so the agent has no complete_session and notify_parent; the session agent's config overrides it",
    schema: z
      .enum(["", "0", "false", "1", "true"], { error: "must be 1, true, 0 or false" })
      .transform((value) => value === "1" || value === "true"),
    fallback: () => "0",
  },
  toolSet: {
    env: "SANDPIPER_TOOLS",
    flag: "tools",
    doc: "tools that the model is offered: core, team or all; default of `up` and `serve`: core with a local model, else team",
    schema: z.enum(["core", "team", "all"], { error: "must be core, team or all" }).optional(),
    fallback: ({ command }) => (command === "run" ? "all" : ""),
  },
  agentBashSeconds: {
    env: "AGENT_BASH_SECONDS",
    doc: "time limit of an agent's command that sets none itself",
    schema: seconds,
    fallback: () => "360",
  },
  permissions: {
    env: "SANDPIPER_PERMISSIONS",
    doc: "OpenCode's permission requests: `allow` each one, or `relay` them to the session agent",
    schema: z.enum(["allow", "relay"], { error: "must be allow or relay" }),
    fallback: () => "allow",
  },
  firstEventSeconds: {
    env: "TURN_FIRST_EVENT_SECONDS",
    doc: "a turn without any event of the model in this time ends",
    schema: seconds,
    fallback: () => "90",
  },
  progressSeconds: {
    env: "TURN_PROGRESS_SECONDS",
    doc: "a turn without progress for this long ends, unless a tool is running",
    schema: seconds,
    fallback: () => "300",
  },
  turnSeconds: {
    env: "TURN_LIMIT_SECONDS",
    doc: "time limit of a whole turn",
    schema: seconds,
    fallback: () => "7200",
  },
  whisperModels: {
    env: "WHISPER_MODELS",
    doc: "directory with whisper.cpp's models (ggml-*.bin), for voice messages",
    schema: directory,
    fallback: () => "/models/whisper",
  },
} satisfies SettingGroup
