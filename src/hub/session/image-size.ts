/** Width and height of an image, read from the head of its file: PNG, GIF, JPEG and WebP. */

export interface ImageSize {
  readonly width: number
  readonly height: number
}

/** The size of a JPEG comes after its metadata, such as a preview of the camera. A multiple of four, as base64 is. */
const HEAD_CHARACTERS = 400_000
const BYTES_PER_CHARACTER = 0.75

/** Undefined for another kind of file and for one that is cut or broken. */
export const imageSize = (base64: string): ImageSize | undefined => {
  const bytes = decode(base64.slice(0, HEAD_CHARACTERS))
  if (!bytes) return undefined
  const view = new DataView(bytes.buffer)
  try {
    const size = sizeOf(view)
    return size && size.width > 0 && size.height > 0 ? size : undefined
  } catch {
    // The file ends before its size.
    return undefined
  }
}

const decode = (base64: string): Uint8Array<ArrayBuffer> | undefined => {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

const sizeOf = (view: DataView): ImageSize | undefined => {
  switch (view.getUint32(0)) {
    case 0x89_50_4e_47:
      return { width: view.getUint32(16), height: view.getUint32(20) }
    case 0x47_49_46_38:
      return gifSize(view)
    case 0x52_49_46_46:
      return view.getUint32(8) === 0x57_45_42_50 ? webpSize(view) : undefined
    default:
      return view.getUint16(0) === 0xff_d8 ? jpegSize(view) : undefined
  }
}

/** Of the screen, or of the first frame where that is larger: browsers draw all of it. */
const gifSize = (view: DataView): ImageSize | undefined => {
  const screen = { width: view.getUint16(6, true), height: view.getUint16(8, true) }
  const isWhole = view.byteLength < HEAD_CHARACTERS * BYTES_PER_CHARACTER
  try {
    const frame = firstFrame(view)
    return frame
      ? {
          width: Math.max(screen.width, frame.width),
          height: Math.max(screen.height, frame.height),
        }
      : screen
  } catch {
    // The file ends before its first frame, or the frame comes after the head.
    return isWhole ? screen : undefined
  }
}

const [EXTENSION, FRAME] = [0x21, 0x2c]

const firstFrame = (view: DataView): ImageSize | undefined => {
  const flags = view.getUint8(10)
  let at = 13 + ((flags & 0x80) === 0 ? 0 : 3 << ((flags & 7) + 1))
  while (view.getUint8(at) === EXTENSION) {
    at += 2
    while (view.getUint8(at) !== 0) at += 1 + view.getUint8(at)
    at += 1
  }
  if (view.getUint8(at) !== FRAME) return undefined
  const [left, top] = [view.getUint16(at + 1, true), view.getUint16(at + 3, true)]
  return {
    width: left + view.getUint16(at + 5, true),
    height: top + view.getUint16(at + 7, true),
  }
}

const uint24 = (view: DataView, at: number): number =>
  view.getUint16(at, true) + view.getUint8(at + 2) * 65_536

const webpSize = (view: DataView): ImageSize | undefined => {
  switch (view.getUint32(12)) {
    // "VP8X": one less than the size of the canvas.
    case 0x56_50_38_58:
      return { width: uint24(view, 24) + 1, height: uint24(view, 27) + 1 }
    // "VP8L": fourteen bits each, one less than the size.
    case 0x56_50_38_4c: {
      const bits = view.getUint32(21, true)
      return { width: (bits & 0x3f_ff) + 1, height: ((bits >>> 14) & 0x3f_ff) + 1 }
    }
    // "VP8 ": the upper two bits are a scale.
    case 0x56_50_38_20:
      return {
        width: view.getUint16(26, true) & 0x3f_ff,
        height: view.getUint16(28, true) & 0x3f_ff,
      }
    default:
      return undefined
  }
}

/** Markers that begin a frame; the others of this range define tables. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc

/** Walks from segment to segment to the one that begins the frame. */
const jpegSize = (view: DataView): ImageSize | undefined => {
  for (let at = 2; view.getUint8(at) === 0xff; at += 2 + view.getUint16(at + 2)) {
    while (view.getUint8(at + 1) === 0xff) at += 1
    if (isFrame(view.getUint8(at + 1)))
      return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) }
  }
  return undefined
}
