/** Copies text. Without permission for the clipboard, a selection and the old command do it. */

export const copyText = async (text: string): Promise<boolean> => {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}
