/**
 * The system calls that no guest may make, as a classic BPF program for the kernel's filter. Pure. Listed calls answer
 * EPERM; a call of another architecture, or of the x32 numbering, kills. Everything else is allowed: namespaces,
 * capabilities and cgroups are the walls, this closes doors of the kernel that have no business in a sandbox.
 */

/** The architectures that guests run on, by the names of the runtime. */
export type Architecture = "x64" | "arm64"

/** Name, then its number on x86-64 and on arm64. Calls from 424 on have one number everywhere. */
const denied: ReadonlyArray<readonly [name: string, x64: number, arm64: number]> = [
  ["add_key", 248, 217],
  ["request_key", 249, 218],
  ["keyctl", 250, 219],
  ["bpf", 321, 280],
  ["userfaultfd", 323, 282],
  ["perf_event_open", 298, 241],
  ["io_uring_setup", 425, 425],
  ["io_uring_enter", 426, 426],
  ["io_uring_register", 427, 427],
  ["kexec_load", 246, 104],
  ["kexec_file_load", 320, 294],
  ["init_module", 175, 105],
  ["finit_module", 313, 273],
  ["delete_module", 176, 106],
  ["mount", 165, 40],
  ["umount2", 166, 39],
  ["pivot_root", 155, 41],
  ["open_tree", 428, 428],
  ["move_mount", 429, 429],
  ["fsopen", 430, 430],
  ["fsconfig", 431, 431],
  ["fsmount", 432, 432],
  ["fspick", 433, 433],
  ["mount_setattr", 442, 442],
  ["setns", 308, 268],
  ["open_by_handle_at", 304, 265],
  ["quotactl", 179, 60],
  ["swapon", 167, 224],
  ["swapoff", 168, 225],
  ["reboot", 169, 142],
  ["acct", 163, 89]
]

const auditArchitecture: Readonly<Record<Architecture, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 }

const loadWord = 0x20
const jumpIfEqual = 0x15
const jumpIfAtLeast = 0x35
const answer = 0x06
const numberOffset = 0
const architectureOffset = 4
const x32Bit = 0x40000000
const killProcess = 0x80000000
const answerNotPermitted = 0x00050001
const allow = 0x7fff0000

export const architectureOf = (name: string): Architecture | null =>
  name === "x64" || name === "arm64" ? name : null

/** Names of the refused calls with their numbers, for tests and for the operator. */
export const deniedCalls = (architecture: Architecture): ReadonlyMap<string, number> =>
  new Map(denied.map(([name, x64, arm64]) => [name, architecture === "x64" ? x64 : arm64]))

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

const instructions = (architecture: Architecture): ReadonlyArray<Instruction> => {
  const numbers = [...deniedCalls(architecture).values()]
  return [
    [loadWord, 0, 0, architectureOffset],
    [jumpIfEqual, 1, 0, auditArchitecture[architecture]],
    [answer, 0, 0, killProcess],
    [loadWord, 0, 0, numberOffset],
    [jumpIfAtLeast, 0, 1, x32Bit],
    [answer, 0, 0, killProcess],
    ...numbers.map((number, at): Instruction => [jumpIfEqual, numbers.length - at, 0, number]),
    [answer, 0, 0, allow],
    [answer, 0, 0, answerNotPermitted]
  ]
}

/** The program as the kernel reads it: eight bytes an instruction, little endian. */
export const denyProgram = (architecture: Architecture): Uint8Array => {
  const listed = instructions(architecture)
  const bytes = new Uint8Array(listed.length * 8)
  const view = new DataView(bytes.buffer)
  listed.forEach(([code, ifTrue, ifFalse, value], at) => {
    view.setUint16(at * 8, code, true)
    view.setUint8(at * 8 + 2, ifTrue)
    view.setUint8(at * 8 + 3, ifFalse)
    view.setUint32(at * 8 + 4, value, true)
  })
  return bytes
}
