/** The services as the page shows them: one state for all programs of a panel. */
import { expect, test } from "bun:test"
import { panelServices } from "../../../src/runner/host/panel-services.ts"
import type { ServiceState } from "../../../src/runner/host/service-state.ts"
import type { Service } from "../../../src/runner/host/service-table.ts"

const service = (name: string, group: Service["group"], more: Partial<Service> = {}): Service => ({
  name,
  group,
  command: [name],
  ...more,
})
const screen = [
  service("xvfb", "vnc"),
  service("x11vnc", "vnc"),
  service("fluxbox", "vnc", { optional: true }),
]
const tries = { failures: 0, restarts: 0 }
const starting: ServiceState = { phase: "starting", tries, startedAt: 0 }
const ready: ServiceState = { phase: "ready", tries, startedAt: 0 }
const failed: ServiceState = { phase: "failed", why: "exit 1" }
const off: ServiceState = { phase: "off", why: "not installed" }

const vncWith = (states: Record<string, ServiceState>) =>
  panelServices(screen, new Map(Object.entries(states)), { missing: [], hasTerminals: true }).vnc

test("a panel is ready when all its programs are, and otherwise has the worst of their states", () => {
  expect(vncWith({})).toBe("starting")
  expect(vncWith({ xvfb: ready, x11vnc: starting })).toBe("starting")
  expect(vncWith({ xvfb: ready, x11vnc: ready })).toBe("ready")
  expect(vncWith({ xvfb: ready, x11vnc: failed })).toBe("failed")
  expect(vncWith({ xvfb: off, x11vnc: failed })).toBe("off")
  expect(vncWith({ xvfb: { phase: "resting", tries, why: "exit 1" }, x11vnc: ready })).toBe(
    "starting",
  )
})

test("an optional program does not change the state of its panel", () => {
  expect(vncWith({ xvfb: ready, x11vnc: ready, fluxbox: failed })).toBe("ready")
})

test("a panel that was not requested is off, and missing programs are named once", () => {
  const now = panelServices([], new Map(), {
    missing: ["Xvfb", "Xvfb", "x11vnc"],
    hasTerminals: false,
  })
  expect(now).toEqual({ vscode: "off", vnc: "off", terminal: "off", lacks: ["Xvfb", "x11vnc"] })
})
