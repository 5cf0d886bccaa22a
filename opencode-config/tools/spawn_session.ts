import { tools } from "../lib/tools.js"

export default tools.spawn_session
