import { tools } from "../lib/tools.js"

export default tools.parallel_data_enrichment
