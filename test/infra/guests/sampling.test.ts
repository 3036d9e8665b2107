/** Figures of guests: what cannot be measured is null, never 0, whether a file, a group or the guest is not there. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { describe } from "vitest"
import { GuestSupervisor } from "../../../src/domain/guests/GuestSupervisor.ts"
import { readFigures, readMemoryKills } from "../../../src/infra/guests/cgroupControl.ts"
import { figuresOfProcesses } from "../../../src/infra/guests/sampling.ts"
import { drawSandbox } from "../../suites/guestHarness.ts"
import { describeWithGroups, killEverything, leaveGuest, makeNode, rewrite } from "./recoveryNode.ts"

const nothing = {
  cpuMicros: null,
  memoryBytes: null,
  memoryPeakBytes: null,
  ioReadBytes: null,
  ioWriteBytes: null,
  processes: null
}

/** A group's directory with these files, as the kernel would show them. */
const withFiles = <A>(files: Readonly<Record<string, string>>, use: (path: string) => A): A => {
  const path = Files.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-figures-"))
  try {
    for (const [name, text] of Object.entries(files)) Files.writeFileSync(Path.join(path, name), text)
    return use(path)
  } finally {
    Files.rmSync(path, { recursive: true })
  }
}

const figuresOf = (files: Readonly<Record<string, string>>) =>
  withFiles(files, (path) => readFigures([{ path, inode: "1" }]))

describe("figures of cgroups", () => {
  it("without a group, or with one that has vanished, are all null", () => {
    assert.deepStrictEqual(readFigures([]), nothing)
    assert.deepStrictEqual(readFigures([{ path: "/sys/fs/cgroup/holdfast/not-there", inode: "1" }]), nothing)
    assert.isNull(readMemoryKills([]))
    assert.isNull(readMemoryKills([{ path: "/sys/fs/cgroup/holdfast/not-there", inode: "1" }]))
  })

  it.each([
    ["no files", {}],
    ["empty files", { "cpu.stat": "", "memory.current": "", "memory.peak": "\n", "pids.current": "" }],
    ["words", { "cpu.stat": "usage_usec much\n", "memory.current": "max\n", "pids.current": "max\n" }],
    ["figures that no number holds", { "memory.current": "18446744073709551615", "cpuacct.usage": "1e400" }],
    ["the processor's periods alone", { "cpu.stat": "nr_periods 4\nnr_throttled 0\n" }]
  ] as const)("of %s are null", (_, files) => {
    assert.deepStrictEqual(figuresOf(files), nothing)
  })

  it("of a group that has done nothing are 0 where the kernel says so, and null where it does not", () => {
    const idle = {
      "cpu.stat": "usage_usec 0\n",
      "memory.current": "0\n",
      "pids.current": "0\n",
      "io.stat": ""
    }
    assert.deepStrictEqual(figuresOf(idle), {
      ...nothing,
      cpuMicros: 0,
      memoryBytes: 0,
      ioReadBytes: 0,
      ioWriteBytes: 0,
      processes: 0
    })
  })

  it("of both versions have the same units", () => {
    const version2 = {
      "cpu.stat": "usage_usec 1500\nuser_usec 1\n",
      "memory.current": "4096\n",
      "memory.peak": "8192\n",
      "io.stat": "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2 rios=1\n",
      "pids.current": "3\n"
    }
    const version1 = {
      "cpuacct.usage": "1500999\n",
      "memory.usage_in_bytes": "4096\n",
      "memory.max_usage_in_bytes": "8192\n",
      "pids.current": "3\n"
    }
    const same = { cpuMicros: 1_500, memoryBytes: 4_096, memoryPeakBytes: 8_192, processes: 3 }
    assert.deepStrictEqual(figuresOf(version2), { ...same, ioReadBytes: 11, ioWriteBytes: 22 })
    assert.deepStrictEqual(figuresOf(version1), { ...same, ioReadBytes: null, ioWriteBytes: null })
  })

  it("of processes, where none is seen, are null and not those of nobody", () => {
    assert.deepStrictEqual(figuresOfProcesses(drawSandbox()), nothing)
  })
})

await describeWithGroups("bubblewrap", () => {
  it.live(
    "a guest that has ended has no figures but its disk's, and one that never was has none",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const node = yield* makeNode("bubblewrap")
          const guest = yield* leaveGuest(node)
          const sampled = (sandbox = guest.sandbox) =>
            Effect.map(
              Effect.flatMap(GuestSupervisor, (supervisor) => supervisor.sample(sandbox)),
              (sample) => ({ ...sample })
            )
          yield* node.daemon(
            Effect.gen(function* () {
              // Known by its processes alone: as if no cgroup had been recorded.
              const { groups } = guest.identity
              rewrite(guest, "identity.json", { groups: [] })
              const bare = yield* sampled()
              assert.deepInclude(bare, { cpuMicros: null, memoryPeakBytes: null, ioReadBytes: null })
              assert.isAtLeast(bare.processes ?? 0, 2)
              rewrite(guest, "identity.json", { groups })
              yield* killEverything(guest)
              const { diskBytes, ...ended } = yield* sampled()
              assert.deepStrictEqual(ended, nothing)
              assert.isAtLeast(diskBytes ?? 0, 1)
              Files.rmSync(guest.folder.workspace, { recursive: true })
              assert.deepStrictEqual(yield* sampled(), { ...nothing, diskBytes: null })
              assert.deepStrictEqual(yield* sampled(drawSandbox()), { ...nothing, diskBytes: null })
            })
          )
        })
      ),
    60_000
  )
})
