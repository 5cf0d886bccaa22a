/** Loaded before every test file: real processes on two cores need more than the default of 5 s. */
import { setDefaultTimeout } from "bun:test"

setDefaultTimeout(60_000)
