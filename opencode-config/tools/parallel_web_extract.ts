import { tools } from "../lib/tools.js"

export default tools.parallel_web_extract
