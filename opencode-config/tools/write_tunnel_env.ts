import { tools } from "../lib/tools.js"

export default tools.write_tunnel_env
