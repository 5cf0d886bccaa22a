/** Preloaded into the program: makes it believe that it runs on macOS. */
Object.defineProperty(process, "platform", { value: "darwin" })
Object.defineProperty(process, "arch", { value: "arm64" })
