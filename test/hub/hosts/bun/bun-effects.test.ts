/** Effects of the hub on bun:sqlite: each test has a hub of its own. */
import { testEffects } from "../../effects-contract.ts"
import { startContractHost } from "../../kit/bun-contract-host.ts"

testEffects("effects of the hub on bun:sqlite", startContractHost)
