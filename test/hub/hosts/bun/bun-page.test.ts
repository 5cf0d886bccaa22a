/** What the page needs of the hub, on bun:sqlite. All tests share one start of it, and each has a session of its own. */
import { startContractHost } from "../../kit/bun-contract-host.ts"
import { testPageProtocol } from "../../page-contract.ts"

testPageProtocol("the page of the hub on bun:sqlite", () => startContractHost())
