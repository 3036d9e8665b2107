import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { createSandbox, specOf } from "../../../src/domain/registry/creation.ts"
import { pauseSandbox, resumeSandbox, startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { makeScriptedState, reboot } from "../../../src/infra/guests/scriptedState.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"
import { makeSimulatedDisk } from "../../support/simulatedDisk.ts"
import { crashImagesOf, describeImage, type DiskImage, diskOf } from "../../support/simulatedDiskCrash.ts"
import { tombstoneOf } from "../../support/simulatedRunState.ts"
import { openSimulatedNode, type Parts, quietly, type SimulatedNode } from "./crashNode.ts"
import { makeEnumeration, numberedIdentifiers, openOnce } from "./crashOracle.ts"
import { sandboxOf } from "./fixture.ts"
import { type NodeServices, requestOf } from "./guestFixture.ts"

const histories = 25
const livesMax = 4
const stepsOfLife = 6
const changesOfLife = 60
const numbers = [1, 2]

type Program = Effect.Effect<unknown, { readonly _tag: string }, NodeServices>
type Adapt = (parts: Parts) => Parts

/** What a power failure leaves of a tombstone: its sandbox, nothing, or a file that is none. */
const tombstoneIn = (image: DiskImage, sandbox: SandboxId): SandboxId | "torn" | null => {
  const runtime = image.kind === "directory" ? image.entries.get("runtime") : undefined
  const folder = runtime?.kind === "directory" ? runtime.entries.get(sandbox) : undefined
  const file = folder?.kind === "directory" ? folder.entries.get("tombstone.json") : undefined
  if (file?.kind !== "file") return null
  try {
    return tombstoneOf(file.content.toString()).sandbox
  } catch {
    return "torn"
  }
}

const draw = (random: SeededRandom, number: number): readonly [name: string, program: Program] => {
  const sandbox = sandboxOf(number)
  return random.pick<readonly [string, Program]>([
    ["create", createSandbox(requestOf(number))],
    ["create", createSandbox(requestOf(number))],
    ["start", startSandbox(sandbox)],
    ["pause", pauseSandbox(sandbox)],
    ["resume", resumeSandbox(sandbox)],
    ["reconcile", reconcileSandboxes],
    ["delete", deleteSandbox(sandbox, { reason: "user", actor: "tester" })]
  ])
}

/** One history of a node; answers the first state that may not be, or null. */
const runHistory = (
  seed: number,
  seen: { readonly enumeration: ReturnType<typeof makeEnumeration>; readonly adapt?: Adapt }
): string | null => {
  const random = makeSeededRandom(seed)
  const guests = makeScriptedState()
  const identifiers = numberedIdentifiers()
  /** Sandboxes whose creation was answered: from then on a record or a tombstone tells of them. */
  const promised = new Set<SandboxId>()
  let disk = makeSimulatedDisk()
  let violation: string | null = null

  const faultOf = (image: DiskImage): string | null => {
    const opened = openOnce(seen.enumeration, image)
    if ("refused" in opened) return `the open refuses: ${opened.refused}`
    for (const sandbox of numbers.map(sandboxOf)) {
      const text = opened.records.get(sandbox)
      const tombstone = tombstoneIn(image, sandbox)
      const guest = guests.guests.get(sandbox)
      if (tombstone !== null && tombstone !== sandbox) return `the tombstone of ${sandbox} is not its own`
      if (guest?.isAlive === true && !text?.includes(guest.identity.attemptId)) {
        return `the guest of ${sandbox} has no intention`
      }
      if (guest?.isAlive === true && tombstone !== null) return `${sandbox} is alive behind its tombstone`
      if (promised.has(sandbox) && text === undefined && tombstone === null) {
        return `${sandbox} has neither record nor tombstone`
      }
    }
    return null
  }

  const compare = (): void => {
    if (violation !== null) return
    seen.enumeration.moments += 1
    try {
      for (const image of crashImagesOf(disk)) {
        seen.enumeration.comparisons += 1
        const why = faultOf(image)
        if (why === null) continue
        violation = `${why}\n${describeImage(image).join("\n")}`
        return
      }
    } catch (error) {
      // Thrown into the call, it would be taken for a fault of the disk.
      violation = `the states cannot be enumerated: ${String(error)}`
    }
  }

  const live = (): void => {
    let changesLeft = 1 + random.below(changesOfLife)
    let node: SimulatedNode | null = null
    const done = ({ changes }: { readonly changes: boolean }): void => {
      if (!changes) return
      compare()
      changesLeft -= 1
      if (changesLeft === 0) node?.life.end()
    }
    node = Effect.runSync(
      quietly(
        openSimulatedNode({
          disk,
          guests,
          identifiers,
          life: { done },
          ...(seen.adapt === undefined ? {} : { adapt: seen.adapt })
        })
      )
    )
    for (let count = 0; count < stepsOfLife && !node.life.isOver(); count += 1) {
      const number = random.pick(numbers)
      const [name, program] = draw(random, number)
      const exit = Effect.runSyncExit(quietly(Effect.provideContext(program, node.context)))
      if (name === "create" && exit._tag === "Success") promised.add(sandboxOf(number))
      compare()
    }
    node.life.end()
    if (random.percent(50)) return
    disk = diskOf(random.pick(crashImagesOf(disk)))
    reboot(guests)
    for (const guest of guests.guests.values()) guest.isAlive = false
  }

  for (let count = 0; count < livesMax && violation === null; count += 1) live()
  return violation
}

/** A deletion that takes the record out before it writes the tombstone. */
const removesFirst: Adapt = ({ registry, runState, supervisor }) => {
  const putOff: Array<Effect.Effect<void>> = []
  return {
    supervisor,
    runState: {
      ...runState,
      publishTombstone: (tombstone) =>
        // It runs in the removal of the record, whose failures are of another kind.
        Effect.sync(() => void putOff.push(Effect.orDie(runState.publishTombstone(tombstone)))),
      reclaim: () => Effect.void
    },
    registry: {
      ...registry,
      remove: (proof) =>
        Effect.andThen(
          registry.remove(proof),
          Effect.suspend(() => Effect.all(putOff.splice(0), { discard: true }))
        )
    }
  }
}

/** A launch that is made before its attempt is on the record. */
const launchesFirst: Adapt = ({ registry, runState, supervisor }) => ({
  registry: {
    ...registry,
    update: (sandbox, change) =>
      Effect.andThen(
        Effect.flatMap(registry.get(sandbox), (record) => {
          const next = change(record)
          return next._tag === "Success" && next.success.attemptId !== record.attemptId
            ? Effect.ignore(supervisor.start(specOf(next.success)))
            : Effect.void
        }),
        registry.update(sandbox, change)
      )
  },
  runState,
  supervisor
})

const firstViolation = (adapt: Adapt): string => {
  const enumeration = makeEnumeration()
  for (let seed = 1; seed <= histories; seed += 1) {
    const violation = runHistory(seed, { enumeration, adapt })
    if (violation !== null) return violation
  }
  return "nothing"
}

describe("registry/crash, of sandboxes with guests", () => {
  it(
    "RG-DEL-05 RG-DEL-10 BX-01 after any call a record or a tombstone tells of every sandbox, and a record of every guest",
    { timeout: 60_000 },
    () => {
      const enumeration = makeEnumeration()
      for (let seed = 1; seed <= histories; seed += 1) {
        assert.isNull(runHistory(seed, { enumeration }), `seed ${seed}`)
      }
      assert.isAbove(enumeration.opened.size, 500)
    }
  )

  it("RG-DEL-04 the enumeration finds that a record is removed before its tombstone is durable", () => {
    assert.include(firstViolation(removesFirst), "neither record nor tombstone")
  })

  it("BX-01 the enumeration finds that a guest is started before its attempt is durable", () => {
    assert.include(firstViolation(launchesFirst), "has no intention")
  })
})
