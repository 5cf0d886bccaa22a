/** The doors of the Bun host. */
import { testDoors } from "../../doors-contract.ts"
import { startContractHost } from "../../kit/bun-contract-host.ts"

testDoors("the doors of the hub on bun:sqlite", () => startContractHost())
