/** More of a person's ways through the page: files and links, features, keyboard and sizes, and a hostile page of the sandbox. */
import { furnishSpeech, testAttachedFiles } from "../e2e/page/attached-files.ts"
import { testFeatures } from "../e2e/page/features.ts"
import { testFilesAndLinks } from "../e2e/page/files-and-links.ts"
import { testHostilePage } from "../e2e/page/hostile-page.ts"
import { testKeyboardAndSizes } from "../e2e/page/keyboard-and-sizes.ts"
import { startGround } from "../e2e/page/start-ground.ts"

const ground = startGround({ furnish: furnishSpeech })

testFilesAndLinks(ground)
testAttachedFiles(ground)
testFeatures(ground)
testKeyboardAndSizes(ground)
testHostilePage(ground)
