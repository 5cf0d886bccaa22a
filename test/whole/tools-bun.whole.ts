/** Every tool and its effect, with the hub in a Bun process. */
import { describeTools } from "./kit/suite.ts"

describeTools("bun")
