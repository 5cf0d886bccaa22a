/** Switches of the agent's tools. */
import { useState } from "preact/hooks"
import { words } from "../words.ts"
import { changeConfig, config } from "./config.ts"

/** The tools of OpenCode that people switch off most; those that the config names are added. */
const COMMON = ["bash", "edit", "write", "webfetch", "task", "todowrite"]

export const Tools = () => {
  const [problem, setProblem] = useState("")
  const known = config.value.tools ?? {}
  const names = [...new Set([...COMMON, ...Object.keys(known)])]
  const change = async (name: string, isOn: boolean) => {
    const refused = await changeConfig({ patch: { tools: { [name]: isOn } } })
    setProblem(refused === undefined ? "" : words.keyRefused(refused))
  }
  return (
    <>
      {problem !== "" && (
        <p class="setting-bad" role="alert">
          {problem}
        </p>
      )}
      {names.map((name) => (
        <label key={name} class="setting">
          <span class="mono">{name}</span>
          <input
            type="checkbox"
            class="switch"
            role="switch"
            checked={known[name] ?? true}
            onChange={({ currentTarget }) => void change(name, currentTarget.checked)}
          />
        </label>
      ))}
    </>
  )
}
