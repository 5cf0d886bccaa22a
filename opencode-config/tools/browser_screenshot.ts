import { tools } from "../lib/tools.js"

export default tools.browser_screenshot
