import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { makeFile, type SimulatedDisk } from "../../support/simulatedDisk.ts"
import { type Life, startLife, type SystemCall } from "../../support/simulatedDiskCalls.ts"
import { crashImagesOf, type DiskImage, diskOf, visibleImageOf } from "../../support/simulatedDiskCrash.ts"
import { fillRegistry, freshBeginning, unactivatedBeginning } from "./crashBeginnings.ts"
import { makeEnumeration, openOnce, portsOver } from "./crashOracle.ts"
import { callsOf, type FaultOutcome, type FaultPath, faultTable } from "./faultTable.ts"
import { proofOf, recordOf, type RegistryService, roomy, sandboxOf, withReason } from "./fixture.ts"

const errors = ["EIO", "ENOSPC", "EMFILE", "EACCES"] as const
const enumeration = makeEnumeration()

/** A call without the ids in the names of its files. */
const nameOf = ({ name, path }: SystemCall): string => `${name} ${path.replace(/-[0-9a-f-]{36}/g, "-*")}`

const openIn = (life: Life) =>
  Effect.gen(function* () {
    const ports = yield* portsOver(life)
    return yield* Effect.provideContext(
      Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, roomy)),
      ports
    )
  }).pipe(Scope.provide(Scope.makeUnsafe()))

const quietly = <A, E>(effect: Effect.Effect<A, E>): A =>
  Effect.runSync(Effect.provide(effect, Logger.layer([])))

const mutations: Partial<
  Record<FaultPath, (registry: RegistryService) => Effect.Effect<unknown, { readonly _tag: string }>>
> = {
  "an admission": (registry) => registry.admit(recordOf(3)),
  "a replacement": (registry) => registry.update(sandboxOf(1), withReason("changed")),
  "a removal": (registry) => registry.remove(proofOf(sandboxOf(2)))
}

/** A committed registry at rest. */
const committed = (): DiskImage => {
  const { disk } = freshBeginning()
  quietly(Effect.flatMap(openIn(startLife(disk)), fillRegistry))
  return visibleImageOf(disk.root)
}

/** The same with one record, beside what was never committed. */
const besideLeftovers = (): DiskImage => {
  const disk = freshBeginning().disk
  quietly(Effect.flatMap(openIn(startLife(disk)), (registry) => registry.admit(recordOf(1))))
  const id = "00000000-0000-4000-a000-000000000000"
  disk.root.entries.set(`.sandboxes.json-${id}`, makeFile(Buffer.from("{")))
  const records = disk.root.entries.get("records")
  if (records?.kind === "directory") records.entries.set(`.record-${id}`, makeFile(Buffer.alloc(0)))
  return visibleImageOf(disk.root)
}

const atRest = committed()
const beginnings: Record<FaultPath, DiskImage> = {
  "creating the layout": visibleImageOf(freshBeginning().disk.root),
  "opening a committed registry": besideLeftovers(),
  "migrating a version-1 registry": visibleImageOf(unactivatedBeginning().disk.root),
  "an admission": atRest,
  "a replacement": atRest,
  "a removal": atRest
}

/** What can be seen of a fault: the answer, what readers are told, and what comes up after a restart or a power failure. */
interface Seen {
  readonly answer: string
  readonly saysUncertain: boolean
  readonly readers: "before" | "refused" | "nothing"
  readonly restart: string
  readonly powerFailure: ReadonlyArray<string>
}

const expected: Record<FaultOutcome, Seen> = {
  refused: {
    answer: "RegistryOpenRefused",
    saysUncertain: false,
    readers: "nothing",
    restart: "before",
    powerFailure: ["before"]
  },
  uncertain: {
    answer: "RegistryOpenRefused",
    saysUncertain: true,
    readers: "nothing",
    restart: "before",
    powerFailure: ["before"]
  },
  failed: {
    answer: "RegistryWriteFailed",
    saysUncertain: false,
    readers: "before",
    restart: "before",
    powerFailure: ["before"]
  },
  latched: {
    answer: "StorageFailed",
    saysUncertain: false,
    readers: "refused",
    restart: "before",
    powerFailure: ["before"]
  },
  "latched, unknown": {
    answer: "StorageFailed",
    saysUncertain: false,
    readers: "refused",
    restart: "after",
    powerFailure: ["after", "before"]
  }
}

const textsOf = (image: DiskImage): string => {
  const opened = openOnce(enumeration, image)
  return "refused" in opened ? opened.refused : JSON.stringify([...opened.records].toSorted())
}

interface Struck {
  readonly disk: SimulatedDisk
  readonly life: Life
  readonly begun: DiskImage
  readonly registry: RegistryService | null
  readonly answer: Result.Result<unknown, { readonly _tag: string; readonly message?: string }>
}

/** Goes along the path with one call failing, by its number from 0, or with none. */
const goAlong = (path: FaultPath, at: number | null, why: string): Struck => {
  const begun = beginnings[path]
  const disk = diskOf(begun)
  const mutate = mutations[path]
  let toGo: number | null = null
  const life = startLife(disk, {
    fault: () => {
      if (toGo === null) return null
      toGo -= 1
      return toGo === -1 ? why : null
    }
  })
  if (mutate === undefined) {
    toGo = at
    return { disk, life, begun, registry: null, answer: quietly(Effect.result(openIn(life))) }
  }
  const registry = quietly(openIn(life))
  life.order.length = 0
  toGo = at
  return { disk, life, begun, registry, answer: quietly(Effect.result(mutate(registry))) }
}

const readersOf = ({ begun, registry }: Struck): Seen["readers"] => {
  if (registry === null) return "nothing"
  const inventory = quietly(Effect.result(registry.inventory))
  if (Result.isFailure(inventory)) return "refused"
  const told = JSON.stringify(
    [...inventory.success].map(([id, record]) => [id, JSON.stringify(record)] as const).toSorted()
  )
  return told === textsOf(begun) ? "before" : "nothing"
}

/** What the mutation makes of the beginning. */
const afterOf = (path: FaultPath): string => textsOf(visibleImageOf(goAlong(path, null, "").disk.root))

const lookAt = (struck: Struck, after: string): Seen => {
  const before = textsOf(struck.begun)
  const named = (image: DiskImage): string => {
    const texts = textsOf(image)
    return texts === before ? "before" : texts === after ? "after" : texts
  }
  const failure = Result.isFailure(struck.answer) ? struck.answer.failure : null
  return {
    answer: failure?._tag ?? "done",
    saysUncertain: failure?.message?.includes("uncertain") === true,
    readers: readersOf(struck),
    restart: named(visibleImageOf(struck.disk.root)),
    powerFailure: [...new Set(crashImagesOf(struck.disk).map(named))].toSorted()
  }
}

/** Nothing is asked of the disk any more, and nobody is told anything. */
const assertLatched = ({ life, registry }: Struck): void => {
  const calls = life.order.length
  for (const access of [
    registry!.inventory,
    registry!.charges,
    registry!.get(sandboxOf(1)),
    ...Object.values(mutations).map((mutate) => mutate(registry!))
  ]) {
    const refusal = quietly(Effect.flip(access as Effect.Effect<unknown, { readonly _tag: string }>))
    assert.strictEqual(refusal._tag, "StorageFailed")
  }
  assert.strictEqual(life.order.length, calls)
}

describe("registry/faults", () => {
  for (const path of Object.keys(faultTable) as ReadonlyArray<FaultPath>) {
    const rows = callsOf(path)

    it(`RG-COM-07 every call of ${path} has its row`, () => {
      assert.deepStrictEqual(
        goAlong(path, null, "").life.order.map(nameOf),
        rows.map(([call]) => call)
      )
    })

    it.each(errors)(`RG-COM-05 RG-COM-07 %s at any call of ${path} ends as its row says`, (why) => {
      const after = afterOf(path)
      for (const [at, [call, outcome]] of rows.entries()) {
        const struck = goAlong(path, at, why)
        const place = `${why} at ${call} (${at})`
        assert.deepStrictEqual(lookAt(struck, after), expected[outcome], place)
        const failure = Result.isFailure(struck.answer) ? struck.answer.failure : null
        if (!outcome.startsWith("latched")) assert.include(failure?.message, why, place)
        if (outcome.startsWith("latched")) assertLatched(struck)
        if (outcome === "failed" || !struck.life.order.slice(0, at).some(({ changes }) => changes)) {
          assert.strictEqual(visibleImageOf(struck.disk.root).key, struck.begun.key, place)
        }
        if (outcome === "failed") quietly(mutations[path]!(struck.registry!))
      }
    })
  }
})
