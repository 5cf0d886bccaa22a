import { tools } from "../lib/tools.js"

export default tools.save_env_files
