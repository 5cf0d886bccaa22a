import { tools } from "../lib/tools.js"

export default tools.inspect_pull_request
