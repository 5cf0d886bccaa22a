import { tools } from "../lib/tools.js"

export default tools.parallel_deep_research
