/** Brings up the loopback interface of a new network namespace by ioctl, so that `ip` need not be installed. */
import { dlopen, FFIType, ptr } from "bun:ffi"

const { symbols: libc } = dlopen("libc.so.6", {
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  ioctl: { args: [FFIType.i32, FFIType.u64, FFIType.ptr], returns: FFIType.i32 },
})

const AF_INET = 2
const SOCK_DGRAM = 2
const SIOCSIFFLAGS = 0x8914
const IFF_UP_RUNNING = 0x41

/** struct ifreq: the interface's name in 16 bytes, then its flags. */
const request = new Uint8Array(40)
request.set(new TextEncoder().encode("lo"))
new DataView(request.buffer).setInt16(16, IFF_UP_RUNNING, true)

const fd = libc.socket(AF_INET, SOCK_DGRAM, 0)
if (fd < 0 || libc.ioctl(fd, SIOCSIFFLAGS, ptr(request)) !== 0) {
  throw new Error("the loopback interface could not be brought up")
}
