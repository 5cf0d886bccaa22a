/** Settings of the gateway: its address, its tokens, and the ports behind it. */
import { z } from "zod"
import { originList, port, secret, urlWith } from "../fields.ts"
import type { SettingGroup } from "../setting.ts"

export const gatewaySettings = {
  jwtSecret: {
    env: "JWT_SECRET",
    reaches: [],
    setBy: "fleet",
    doc: "key of the gateway's JWTs (HS256), at least 16 characters",
    schema: secret,
    requiredBy: ["run"],
    secret: true,
  },
  gatewayPort: {
    env: "GATEWAY_PORT",
    reaches: [],
    setBy: "fleet",
    flag: "gateway-port",
    doc: "port of the gateway, 0 for any free one",
    schema: port,
    fallback: () => "9000",
  },
  gatewayHost: {
    env: "GATEWAY_HOST",
    reaches: [],
    setBy: "fleet",
    doc: "address the gateway listens on",
    schema: z.string().min(1, "must be an address"),
    fallback: ({ command }) => (command === "up" ? "127.0.0.1" : "0.0.0.0"),
  },
  allowedOrigins: {
    env: "ALLOWED_ORIGINS",
    reaches: [],
    doc: "further origins whose pages may open WebSockets of the gateway, show it in frames and call the session agent of `up`, separated by commas",
    schema: originList.optional(),
  },
  sandboxOrigin: {
    env: "SANDBOX_ORIGIN",
    reaches: [],
    doc: "origin of tunnels, with * for the tunnel's name: pages below /t/<name>/ are redirected to it (default of `up`: another name below sandpiper.localhost for each session)",
    schema: z
      .string()
      .regex(/^https?:\/\/\*--[a-z0-9][a-z0-9.-]*(?::\d{1,5})?$/i, {
        error:
          "must be an origin whose host starts with *--, such as https://*--sandbox.example.com",
      })
      .optional(),
    fallback: ({ command }) => (command === "up" ? "http://*--box.sandpiper.localhost" : ""),
  },
  pageOrigin: {
    env: "PAGE_ORIGIN",
    reaches: [],
    doc: "origin of the page of `up` or `serve`, if it is not on this machine; `up` needs SANDBOX_ORIGIN on another host",
    schema: z
      .string()
      .refine((text) => URL.canParse(text) && new URL(text).origin === text, {
        error: "must be an origin, such as https://sandpiper.example.com",
      })
      .optional(),
    fallback: ({ command }) =>
      command === "up" || command === "serve" ? "http://sandpiper.localhost" : "",
  },
  allowSharedOrigin: {
    env: "ALLOW_SHARED_ORIGIN",
    reaches: ["sandbox", "image"],
    doc: "1: pages below /t/<name>/ share the origin of the editor and the terminal, and can use them",
    schema: z.enum(["0", "1"], { error: "must be 0 or 1" }).transform((value) => value === "1"),
    fallback: () => "0",
  },
  publicUrl: {
    env: "SANDPIPER_PUBLIC_URL",
    reaches: [],
    setBy: "session",
    doc: "public address of the gateway, for the addresses of previews and tunnels that the agent gets",
    schema: urlWith("must be an http:// or https:// URL", (url) =>
      /^https?:$/.test(url.protocol),
    ).optional(),
  },
  vscodePort: {
    env: "VSCODE_PORT",
    reaches: [],
    setBy: "session",
    doc: "local port of code-server, behind /vscode/",
    schema: port,
    fallback: () => "8765",
  },
  vncPort: {
    env: "VNC_PORT",
    reaches: [],
    setBy: "session",
    doc: "local port of noVNC, behind /vnc/",
    schema: port,
    fallback: () => "6080",
  },
  ttydPort: {
    env: "TTYD_PORT",
    reaches: [],
    setBy: "session",
    doc: "local port of ttyd, behind /ttyd/",
    schema: port,
    fallback: () => "7681",
  },
  rawVncPort: {
    env: "VNC_RAW_PORT",
    reaches: [],
    setBy: "session",
    doc: "local port of the VNC server itself; only noVNC connects to it",
    schema: port,
    fallback: () => "5900",
  },
  approveActions: {
    env: "APPROVE_ACTIONS",
    reaches: ["child", "sandbox", "image"],
    doc: "actions (`sandpiper actions list`), separated by commas, that wait for a person's yes",
    schema: z
      .string()
      .transform((text) => text.split(",").flatMap((name) => name.trim() || []))
      .refine((names) => names.every((name) => /^[a-z][a-z0-9-]*$/.test(name)), {
        error: "must be names of actions separated by commas",
      })
      .optional(),
  },
} satisfies SettingGroup
