/** The filter's program, run by a small interpreter of the kernel's instructions. */
import { describe, expect, it } from "vitest"
import {
  type Architecture,
  architectureOf,
  deniedCalls,
  denyProgram
} from "../../../src/infra/guests/seccomp.ts"

const audit = { x64: 0xc000003e, arm64: 0xc00000b7, x86: 0x40000003 }

/** Runs the program on one call as the kernel does; answers the action. */
const actionOf = (program: Uint8Array, architecture: number, number: number): number => {
  const view = new DataView(program.buffer)
  const data: Record<number, number> = { 0: number, 4: architecture }
  let accumulator = 0
  for (let at = 0; at * 8 < program.length; at += 1) {
    const code = view.getUint16(at * 8, true)
    const [ifTrue, ifFalse] = [view.getUint8(at * 8 + 2), view.getUint8(at * 8 + 3)]
    const value = view.getUint32(at * 8 + 4, true)
    if (code === 0x20) accumulator = data[value] ?? Number.NaN
    else if (code === 0x15) at += accumulator === value ? ifTrue : ifFalse
    else if (code === 0x35) at += accumulator >= value ? ifTrue : ifFalse
    else if (code === 0x06) return value
    else throw new Error(`instruction ${code} is not known`)
  }
  throw new Error("the program ran off its end")
}

const [kill, notPermitted, allow] = [0x80000000, 0x00050001, 0x7fff0000]

describe.each(["x64", "arm64"] as const)("the filter on %s", (architecture: Architecture) => {
  const program = denyProgram(architecture)
  const run = (number: number) => actionOf(program, audit[architecture], number)

  it("answers every listed call with EPERM and every other with yes", () => {
    const denied = new Set(deniedCalls(architecture).values())
    expect(denied.size).toBe(deniedCalls(architecture).size)
    for (let number = 0; number < 600; number += 1) {
      expect([number, run(number)]).toEqual([number, denied.has(number) ? notPermitted : allow])
    }
  })
  it("kills a call of another architecture", () => {
    const others = Object.values(audit).filter((other) => other !== audit[architecture])
    expect(others.map((other) => actionOf(program, other, 0))).toEqual(others.map(() => kill))
  })
  it("kills a call by the x32 numbering", () => {
    expect(run(0x40000000)).toBe(kill)
    expect(run(0x40000000 + 165)).toBe(kill)
  })
})

describe("the list of calls", () => {
  it("has the kernel's own numbers", () => {
    expect(deniedCalls("x64").get("keyctl")).toBe(250)
    expect(deniedCalls("arm64").get("keyctl")).toBe(219)
    expect(deniedCalls("x64").get("mount")).toBe(165)
    expect(deniedCalls("arm64").get("mount")).toBe(40)
    expect(deniedCalls("x64").get("bpf")).toBe(321)
    expect(deniedCalls("arm64").get("bpf")).toBe(280)
  })
  it("exists for the two architectures only", () => {
    expect(["x64", "arm64", "ia32", "riscv64"].map(architectureOf)).toEqual(["x64", "arm64", null, null])
  })
})
