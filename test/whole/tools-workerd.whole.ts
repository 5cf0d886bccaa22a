/** Every tool and its effect, with the hub as Durable Objects on the real workerd. */
import { describeTools } from "./kit/suite.ts"

describeTools("workerd")
