import { expect, test } from "bun:test"
import { fieldsOf, isComplete, patchOf } from "../../../src/hub/page/settings/endpoint-fields.ts"

const known = { id: "my-vllm", name: "My vLLM", host: "gpu:8000", hasKey: true, models: ["a", "b"] }
const fields = { name: "My vLLM", url: "http://gpu:8000/v1", key: "", models: "" }

test("a new endpoint with the name of another one gets an id of its own", () => {
  expect(Object.keys(patchOf(fields, undefined, []))).toEqual(["my-vllm"])
  expect(Object.keys(patchOf(fields, undefined, ["my-vllm", "my-vllm-2"]))).toEqual(["my-vllm-3"])
})

test("the form of a known endpoint sends neither address nor key unless the person typed them", () => {
  const shown = fieldsOf(known)
  expect(isComplete(shown, known)).toBeTrue()
  expect(patchOf({ ...shown, models: "a" }, known, ["my-vllm"])).toEqual({
    "my-vllm": { displayName: "My vLLM", models: [{ id: "a" }] },
  })
  expect(isComplete({ ...shown, url: "gpu:8000" }, known)).toBeFalse()
})

test("a new endpoint needs a name and an address", () => {
  expect(isComplete(fields, undefined)).toBeTrue()
  expect(isComplete({ ...fields, name: "-" }, undefined)).toBeFalse()
  expect(isComplete({ ...fields, url: "" }, undefined)).toBeFalse()
})
