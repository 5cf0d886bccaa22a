/** The code of a failed system call or connection, such as ENOENT; undefined for any other error. */
export const errorCode = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined
