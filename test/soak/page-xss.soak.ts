/** Hostile text in every field that the agent can fill. `npm test` has the vectors of an answer only. */
import { startGround } from "../e2e/page/start-ground.ts"
import { testXss, VECTOR } from "../e2e/page/xss.ts"
import { makeRepository } from "../kit/conversation.ts"

testXss(startGround({ furnish: makeRepository, model: { title: VECTOR, moreModels: [VECTOR] } }))
