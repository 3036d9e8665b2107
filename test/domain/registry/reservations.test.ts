import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { snapshotText } from "../../../src/domain/registry/charges.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import {
  endByItself,
  failNext,
  makeScriptedState,
  reboot,
  type ScriptedState
} from "../../../src/infra/guests/scriptedState.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"
import { makeSimulatedDisk, type SimulatedDisk } from "../../support/simulatedDisk.ts"
import { crashImagesOf, diskOf, visibleImageOf } from "../../support/simulatedDiskCrash.ts"
import { openSimulatedNode, quietly, type SimulatedNode } from "./crashNode.ts"
import { numberedIdentifiers } from "./crashOracle.ts"
import { sandboxOf } from "./fixture.ts"
import { type NodeServices, requestOf } from "./guestFixture.ts"

const sequences = 1_000
const stepsOfSequence = 6
const numbers = [1, 2, 3, 4, 5]
const capacity = { sandboxes: 3, cpuMillis: 500, memoryBytes: 4_096 }

type Flaw = "none" | "guest" | "disk" | "killed" | "power"
type Program = Effect.Effect<unknown, { readonly _tag: string }, NodeServices>

/** One node, its disk and its guests, through all its daemons. */
interface Place {
  readonly random: SeededRandom
  readonly guests: ScriptedState
  readonly identifiers: ReturnType<typeof numberedIdentifiers>
  /** Sandboxes whose creation was answered, and whose deletion was not. */
  readonly owed: Set<SandboxId>
  /** Sandboxes that were ever asked for. */
  readonly asked: Set<SandboxId>
  readonly outcomes: Map<string, number>
  disk: SimulatedDisk
  node: SimulatedNode
  flaw: Flaw
  callsLeft: number
}

const strikesNow = (place: Place, flaws: ReadonlyArray<Flaw>): boolean => {
  if (!flaws.includes(place.flaw)) return false
  place.callsLeft -= 1
  return place.callsLeft === 0
}

const start = (place: Omit<Place, "node">): SimulatedNode => {
  const self = place as Place
  return Effect.runSync(
    quietly(
      openSimulatedNode({
        disk: place.disk,
        guests: place.guests,
        capacity,
        identifiers: place.identifiers,
        life: {
          fault: ({ changes }) => (changes && strikesNow(self, ["disk"]) ? "EIO" : null),
          done: ({ changes }) => {
            if (changes && strikesNow(self, ["killed", "power"])) self.node.life.end()
          }
        }
      })
    )
  )
}

/** A registry without records, as the first open leaves it. */
const emptyRegistry = (() => {
  const disk = makeSimulatedDisk()
  Effect.runSync(openSimulatedNode({ disk, guests: makeScriptedState() }))
  return visibleImageOf(disk.root)
})()

const makePlace = (seed: number, outcomes: Map<string, number>): Place => {
  const place = {
    random: makeSeededRandom(seed),
    guests: makeScriptedState(),
    identifiers: numberedIdentifiers(),
    owed: new Set<SandboxId>(),
    asked: new Set<SandboxId>(),
    outcomes,
    disk: diskOf(emptyRegistry),
    flaw: "none" as Flaw,
    callsLeft: 0
  }
  return Object.assign(place, { node: start(place) })
}

/** The next daemon on what the last one has left. */
const restart = (place: Place): void => {
  if (place.flaw === "power") {
    place.disk = diskOf(place.random.pick(crashImagesOf(place.disk)))
    reboot(place.guests)
  }
  place.node.life.end()
  place.flaw = "none"
  place.node = start(place)
}

const run = (place: Place, program: Program): Exit.Exit<unknown, unknown> =>
  Effect.runSyncExit(quietly(Effect.provideContext(program, place.node.context)))

const tagOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return "done"
  const [reason] = exit.cause.reasons
  return reason?._tag === "Fail" ? (reason.error as { readonly _tag: string })._tag : "died"
}

const drawProgram = ({ random }: Place, sandbox: SandboxId, number: number) =>
  random.pick<readonly [name: string, program: Program]>([
    [
      "create",
      createSandbox(
        requestOf(number, {
          cpuMillis: random.pick([100, 200, 300]),
          memoryBytes: random.pick([512, 1_024, 3_000])
        })
      )
    ],
    ["start", startSandbox(sandbox)],
    ["reconcile", reconcileSandboxes],
    ["delete", deleteSandbox(sandbox, { reason: "user", actor: "tester" })]
  ])

const note = (place: Place, name: string, sandbox: SandboxId, answer: string): void => {
  place.outcomes.set(`${name} ${answer}`, (place.outcomes.get(`${name} ${answer}`) ?? 0) + 1)
  if (name === "create") place.asked.add(sandbox)
  if (name === "create" && answer === "done") place.owed.add(sandbox)
  if (name === "delete" && answer === "done") place.owed.delete(sandbox)
}

/** Mostly one that is there, so that there is something to do. */
const drawNumber = ({ node, random }: Place): number => {
  const there = Effect.runSync(node.registry.inventory)
  const known = numbers.filter((number) => there.has(sandboxOf(number)))
  return random.pick(known.length > 0 && random.percent(60) ? known : numbers)
}

const step = (place: Place): void => {
  const { guests, random } = place
  const number = drawNumber(place)
  const sandbox = sandboxOf(number)
  const [name, program] = drawProgram(place, sandbox, number)
  place.flaw = random.pick(["none", "none", "none", "guest", "disk", "killed", "power"] as const)
  place.callsLeft = 1 + random.below(16)
  if (place.flaw === "guest") {
    failNext(guests, random.pick(["start", "end", "inspect"]), random.pick(["before", "after"]))
    if (random.percent(30)) endByItself(guests, sandbox, 1)
  }
  const exit = run(place, program)
  guests.faults.length = 0
  const isOver = place.node.life.isOver()
  const answer = isOver ? "died" : tagOf(exit)
  note(place, name, sandbox, answer)
  if (isOver || answer === "StorageFailed" || random.percent(10)) restart(place)
  else place.flaw = "none"
}

/** What the records reserve, counted here. */
const assertCharges = (place: Place, seed: number): void => {
  const { registry } = place.node
  const records = [...Effect.runSync(registry.inventory).values()]
  const charges = Effect.runSync(registry.charges)
  const sum = (of: (record: (typeof records)[number]) => number): number =>
    records.reduce((total, record) => total + of(record), 0)
  assert.deepStrictEqual(
    charges,
    {
      sandboxes: records.length,
      cpuMillis: sum(({ cpuMillis }) => cpuMillis),
      memoryBytes: sum(({ memoryBytes }) => memoryBytes),
      snapshotBytes: Buffer.byteLength(snapshotText(registry.node, records))
    },
    `seed ${seed}`
  )
  for (const resource of ["sandboxes", "cpuMillis", "memoryBytes"] as const) {
    assert.isAtMost(charges[resource], capacity[resource], `seed ${seed}`)
  }
}

/** A reservation that was given is kept until the absence is proved and the proof is durable. */
const assertOwed = (place: Place, seed: number): void => {
  const inventory = Effect.runSync(place.node.registry.inventory)
  for (const sandbox of place.owed) {
    if (inventory.has(sandbox)) continue
    const tombstone = run(
      place,
      Effect.gen(function* () {
        return Option.isSome(yield* (yield* RunState).readTombstone(sandbox))
      })
    )
    assert.isTrue(
      Exit.isSuccess(tombstone) && tombstone.value,
      `seed ${seed}: ${sandbox} is gone without a proof`
    )
  }
}

describe("registry/reservations", () => {
  it(
    "FC-16 RG-BUD-04 through creations, failures, crashes and deletions the charge is the sum over the records",
    { timeout: 120_000 },
    () => {
      const outcomes = new Map<string, number>()
      for (let seed = 1; seed <= sequences; seed += 1) {
        const place = makePlace(seed, outcomes)
        for (let count = 0; count < stepsOfSequence; count += 1) {
          step(place)
          assertCharges(place, seed)
          assertOwed(place, seed)
        }
        restart(place)
        assertCharges(place, seed)
      }
      // The sequences have met what they are about.
      for (const met of [
        "create done",
        "create died",
        "create CapacityExceeded",
        "create SandboxIdTaken",
        "create StorageFailed",
        "create RegistryWriteFailed",
        "start done",
        "start GuestFailure",
        "delete done",
        "delete died",
        "delete GuestFailure",
        "delete StorageFailed"
      ]) {
        assert.isAtLeast(outcomes.get(met) ?? 0, 10, `${met} in ${JSON.stringify([...outcomes])}`)
      }
    }
  )
})
