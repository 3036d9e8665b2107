import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { unactivatedBeginning, freshBeginning } from "../../domain/registry/crashBeginnings.ts"
import { numberedIdentifiers, portsOver } from "../../domain/registry/crashOracle.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"
import type { SimulatedDisk, SimulatedNode } from "../../support/simulatedDisk.ts"
import { startLife } from "../../support/simulatedDiskCalls.ts"
import { makeSimulatedRunState } from "../../support/simulatedRunState.ts"
import { livesOf } from "./recordedHistory.ts"
import { changesIn, watchedCalls, withoutIds } from "./systemCalls.ts"

const program = fileURLToPath(new URL("recordedHistory.ts", import.meta.url))
const strace = "/usr/bin/strace"

/** Why no process can be watched here, or null. */
const whyNot = (): string | null => {
  if (!Files.existsSync(strace)) return "there is no strace: apt-get install strace"
  const { status, stderr } = spawnSync(strace, ["-f", "-o", "/dev/null", "/bin/true"], { encoding: "utf8" })
  return status === 0 ? null : `strace may not trace a process: ${stderr.trim()}`
}

/** Puts what is on the simulated disk into a real directory. */
const layOut = (node: SimulatedNode, path: string): void => {
  if (node.kind === "file") return Files.writeFileSync(path, node.content, { mode: node.mode })
  Files.mkdirSync(path, { recursive: true })
  Files.chmodSync(path, node.mode)
  for (const [name, child] of node.entries) layOut(child, Path.join(path, name))
}

/** The same history on the simulated disk. */
const changesOfSimulation = (disk: SimulatedDisk, seed: number) =>
  Effect.gen(function* () {
    const changes: Array<string> = []
    for (const [family, life] of livesOf(seed).entries()) {
      const started = startLife(disk)
      const { calls, order } = started
      const ports = yield* portsOver(started, numberedIdentifiers(family))
      yield* Effect.provideContext(life, Context.add(ports, RunState, makeSimulatedRunState(calls)))
      for (const { changes: isChange, isDone, name, path } of order) {
        if (isDone && (isChange || name === "chmod")) changes.push(`${name} ${withoutIds(path)}`)
      }
    }
    return changes
  })

const changesOfProcess = (directory: string, seed: number): ReadonlyArray<string> => {
  const trace = `${directory}.trace`
  const { status, stderr } = spawnSync(
    strace,
    [
      "-f",
      "-qq",
      "-y",
      "-s",
      "300",
      "-e",
      `trace=${watchedCalls.join(",")}`,
      "-o",
      trace,
      process.execPath,
      program,
      directory,
      String(seed)
    ],
    { encoding: "utf8" }
  )
  assert.strictEqual(status, 0, stderr)
  try {
    return changesIn(Files.readFileSync(trace, "utf8"), directory)
  } finally {
    Files.rmSync(trace)
  }
}

const reason = whyNot()

describe("filesystem, watched from outside", () => {
  it.live.each([
    ["a fresh directory", freshBeginning, 1],
    ["a version-1 registry", unactivatedBeginning, 2]
  ] as const)(
    "FC-18 RG-COM-01 RG-MIG-02 on %s the system sees the calls that the simulated disk sees, in that order",
    ([, begin, seed]) =>
      Effect.gen(function* () {
        if (reason !== null) return console.log(`left out: ${reason}`)
        const { disk } = begin()
        const directory = yield* temporaryDirectory
        layOut(disk.root, directory)
        const simulated = yield* changesOfSimulation(disk, seed)
        const real = changesOfProcess(directory, seed)
        assert.isAbove(real.length, 100)
        assert.deepStrictEqual(real, simulated)
      }),
    120_000
  )
})
