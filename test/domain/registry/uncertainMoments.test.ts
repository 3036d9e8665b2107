import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { makeScriptedState, reboot, type ScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { makeSimulatedDisk, type SimulatedDisk } from "../../support/simulatedDisk.ts"
import type { SystemCall } from "../../support/simulatedDiskCalls.ts"
import { crashImagesOf, type DiskImage, diskOf, visibleImageOf } from "../../support/simulatedDiskCrash.ts"
import { openSimulatedNode, quietly } from "./crashNode.ts"
import { makeEnumeration, numberedIdentifiers, openOnce } from "./crashOracle.ts"
import { sandboxOf } from "./fixture.ts"
import { type NodeServices, requestOf } from "./guestFixture.ts"

const sandbox = sandboxOf(1)

/** The commits of one sandbox's life in their order, each the moment that it makes durable. */
const moments = [
  "create intention",
  "attempt",
  "created state",
  "pause intention",
  "paused state",
  "delete intention",
  "unlinked"
] as const
type Moment = (typeof moments)[number]

/** Where a commit is cut off: nothing of it is on disk, or its rename or unlink is and no sync behind it. */
type Point = "nothing on disk" | "after rename" | "after unlink"

interface Row {
  readonly moment: Moment
  readonly point: Point
  readonly answer: "RegistryWriteFailed" | "StorageFailed"
  /** What the next daemon makes of it beside the living guest. */
  readonly killed: string
  /** The same when the machine went down; each is possible. */
  readonly power: ReadonlyArray<string>
}

const row = (moment: Moment, point: Point, answer: Row["answer"], killed: string, power: string): Row => ({
  moment,
  point,
  answer,
  killed,
  power: power.split(" ")
})

/** A put has no unlink on its way and a removal no rename, so each moment has two of the three points. */
const table: ReadonlyArray<Row> = [
  row("create intention", "nothing on disk", "RegistryWriteFailed", "none", "none"),
  row("create intention", "after rename", "StorageFailed", "Pending", "Pending none"),
  row("attempt", "nothing on disk", "RegistryWriteFailed", "Pending", "Pending"),
  row("attempt", "after rename", "StorageFailed", "Pending", "Pending"),
  row("created state", "nothing on disk", "RegistryWriteFailed", "Running", "Failed"),
  row("created state", "after rename", "StorageFailed", "Running", "Failed"),
  row("pause intention", "nothing on disk", "RegistryWriteFailed", "Running", "Failed"),
  row("pause intention", "after rename", "StorageFailed", "Running", "Failed"),
  row("paused state", "nothing on disk", "RegistryWriteFailed", "Paused", "Failed"),
  row("paused state", "after rename", "StorageFailed", "Paused", "Failed"),
  row("delete intention", "nothing on disk", "RegistryWriteFailed", "Paused", "Failed"),
  row("delete intention", "after rename", "StorageFailed", "gone", "Failed gone"),
  row("unlinked", "nothing on disk", "StorageFailed", "gone", "gone"),
  row("unlinked", "after unlink", "StorageFailed", "gone", "gone")
]

/** Fails the commit of the moment at the point. */
const cutOff = ({ moment, point }: Pick<Row, "moment" | "point">) => {
  let commits = 0
  let hasChanged = false
  return ({ name, path }: SystemCall): string | null => {
    if (!path.startsWith("records")) return null
    // An unlink of a temporary is the clean-up behind a write that failed, and no commit.
    const begins =
      (name === "open" && path.startsWith("records/.record-")) ||
      (name === "unlink" && path.startsWith("records/sb-"))
    if (begins) {
      commits += 1
      hasChanged = false
    }
    if (commits !== moments.indexOf(moment) + 1) return null
    if (point === "nothing on disk") return begins ? "EIO" : null
    if (name === (point === "after rename" ? "rename" : "unlink")) hasChanged = true
    return name === "fsync" && path === "records" && hasChanged ? "EIO" : null
  }
}

interface Run {
  readonly disk: SimulatedDisk
  readonly guests: ScriptedState
  readonly answers: ReadonlyArray<string>
  readonly started: ReadonlyArray<string>
}

const enumeration = makeEnumeration()

/** Every state that the disk may be left in holds the record with this attempt. */
const isIntended = (disk: SimulatedDisk, attemptId: string): boolean =>
  crashImagesOf(disk).every((image) => {
    const opened = openOnce(enumeration, image)
    return !("refused" in opened) && opened.records.get(sandbox)?.includes(attemptId) === true
  })

type Program = Effect.Effect<unknown, { readonly _tag: string }, NodeServices>

const programs: readonly [create: Program, start: Program, pause: Program, end: Program] = [
  createSandbox(requestOf(1)),
  startSandbox(sandbox),
  pauseSandbox(sandbox),
  deleteSandbox(sandbox, { reason: "user", actor: "tester" })
]

const open = (
  disk: SimulatedDisk,
  guests: ScriptedState,
  started: Array<string>,
  fault: (call: SystemCall) => string | null = () => null
) =>
  Effect.runSync(
    quietly(
      openSimulatedNode({
        disk,
        guests,
        identifiers: numberedIdentifiers(started.length),
        life: { fault },
        adapt: ({ supervisor, ...parts }) => ({
          ...parts,
          supervisor: {
            ...supervisor,
            start: (spec) => {
              started.push(isIntended(disk, spec.attemptId) ? "intended" : "without an intention")
              return supervisor.start(spec)
            }
          }
        })
      })
    )
  )

/** The sandbox's life, up to the first step that fails. */
const liveUntilFailure = (cut: (call: SystemCall) => string | null): Run => {
  const disk = makeSimulatedDisk()
  const guests = makeScriptedState()
  const started: Array<string> = []
  const answers: Array<string> = []
  const node = open(disk, guests, started, cut)
  for (const program of programs) {
    const answer = Effect.runSync(
      quietly(
        Effect.match(Effect.provideContext(program, node.context), {
          onSuccess: () => "done",
          onFailure: ({ _tag }) => _tag
        })
      )
    )
    answers.push(answer)
    if (answer !== "done") break
  }
  node.life.end()
  return { disk, guests, answers, started }
}

/** What the next daemon says of the sandbox when it has looked at it, and whether a deletion then ends it for good. */
const comesUpAs = (image: DiskImage, guests: ScriptedState, started: Array<string>): string => {
  const node = open(diskOf(image), guests, started)
  const status = Effect.gen(function* () {
    yield* reconcileSandboxes
    const record = (yield* node.registry.inventory).get(sandbox)
    if (record !== undefined) return record.status
    return Option.isSome(yield* (yield* RunState).readTombstone(sandbox)) ? "gone" : "none"
  })
  const seen = Effect.runSync(quietly(Effect.provideContext(status, node.context)))
  if (seen !== "none") Effect.runSync(quietly(Effect.provideContext(programs[3], node.context)))
  assert.deepInclude(Effect.runSync(node.registry.charges), { sandboxes: 0, cpuMillis: 0, memoryBytes: 0 })
  assert.isFalse(guests.guests.get(sandbox)?.isAlive === true && seen !== "none")
  return seen
}

/** The guests as they are, for one daemon to work with. */
const copyOf = ({ guests }: Run): ScriptedState => {
  const copy = makeScriptedState()
  for (const [id, guest] of guests.guests) copy.guests.set(id, { ...guest })
  return copy
}

const afterPowerFailure = (run: Run): ScriptedState => {
  const guests = copyOf(run)
  reboot(guests)
  for (const guest of guests.guests.values()) guest.isAlive = false
  return guests
}

describe("registry, at its uncertain commits", () => {
  it("before the create intention there is nothing to come up", () => {
    const disk = makeSimulatedDisk()
    open(disk, makeScriptedState(), []).life.end()
    for (const image of crashImagesOf(disk)) {
      assert.strictEqual(comesUpAs(image, makeScriptedState(), []), "none")
    }
  })

  it("the life without a fault makes the commits of the table and no other, and starts one guest", () => {
    const commits: Array<string> = []
    const { answers, started } = liveUntilFailure(({ name, path }) => {
      if (name === "fsync" && path === "records") commits.push(path)
      return null
    })
    assert.deepStrictEqual(answers, ["done", "done", "done", "done"])
    // Each open syncs what it has read once.
    assert.strictEqual(commits.length, moments.length + 1)
    assert.deepStrictEqual(started, ["intended"])
  })

  it.each(table)(
    "BX-01 BX-04 RG-COM-05 RG-RUN-03 a commit of the $moment cut off with $point comes up as told, and no guest is without intention",
    (expected) => {
      const run = liveUntilFailure(cutOff(expected))
      const started = [...run.started]
      assert.strictEqual(run.answers.at(-1), expected.answer)
      assert.strictEqual(comesUpAs(visibleImageOf(run.disk.root), copyOf(run), started), expected.killed)
      const power = crashImagesOf(run.disk).map((image) => comesUpAs(image, afterPowerFailure(run), started))
      assert.deepStrictEqual([...new Set(power)].toSorted(), [...expected.power].toSorted())
      assert.notInclude(started, "without an intention")
    }
  )
})
