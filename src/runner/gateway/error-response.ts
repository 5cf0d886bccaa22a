/** The JSON body of every error response: what is wrong, a code for programs, and an id to find it in the log. */
import type { HttpResponse } from "./http/response.ts"

export const errorResponse = (status: number, code: string, error: string): HttpResponse => ({
  status,
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ error, code, requestId: crypto.randomUUID() }),
})
