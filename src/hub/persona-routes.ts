/** Routes about the personas of an owner: list, store, remove. The caller has been allowed. */
import { z } from "zod"
import type { Owner } from "./access/ownership.ts"
import { errorResponse, parseBody } from "./http-responses.ts"
import type { PersonaRoute } from "./session/routes.ts"
import type { PersonaText } from "./shared-store/personas.ts"

export interface PersonaHost {
  readonly listPersonas: (owner: Owner) => Later<readonly Record<string, unknown>[]>
  readonly putPersona: (owner: Owner, persona: PersonaText) => Later<boolean>
  readonly removePersona: (owner: Owner, slug: string) => Later<boolean>
}

type Later<T> = T | Promise<T>

const MOST_CHARACTERS = 100_000
const SLUG = /^[a-z0-9][a-z0-9._-]{0,63}$/
const body = z.object({ content: z.string().min(1).max(MOST_CHARACTERS) })

export const isPersonaRoute = (route: { readonly to: string }): route is PersonaRoute =>
  route.to.startsWith("personas-")

export const handlePersonaRoute = async (
  host: PersonaHost,
  owner: Owner,
  route: PersonaRoute,
  request: Request,
): Promise<Response> => {
  if (route.to === "personas-list")
    return Response.json({ ok: true, personas: await host.listPersonas(owner) })
  const { slug } = route
  if (!SLUG.test(slug))
    return errorResponse(400, "slug: expected 1 to 64 small letters, digits, ., _ or -")
  if (route.to === "personas-remove") {
    return (await host.removePersona(owner, slug))
      ? Response.json({ ok: true })
      : errorResponse(404, `persona ${slug} does not exist`)
  }
  const parsed = await parseBody(request, body)
  if (parsed instanceof Response) return parsed
  return (await host.putPersona(owner, { slug, content: parsed.data.content }))
    ? Response.json({ ok: true, slug }, { status: 201 })
    : errorResponse(429, "the owner has too many personas: remove one first")
}
