import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Files from "node:fs"
import * as Path from "node:path"
import { headerName, metaName } from "../../../src/domain/registry/entryRoles.ts"
import { StepObserver } from "../../../src/domain/StepObserver.ts"
import { everyStep } from "../../support/everyStep.ts"
import type { Faults } from "../../support/faults.ts"
import {
  contentsOf,
  failNext,
  lookAt,
  makeDisk,
  openOn,
  recordOf,
  sandboxOf,
  temporaryDirectory
} from "./fixture.ts"
import { layOutSnapshot, layOutUnactivated, owner, type SnapshotPlace } from "./snapshotFixture.ts"

const snapshotIds = [1, 2, 3].map(sandboxOf)

/** The registry that the snapshot of the fixture has to become, and nothing beside it. */
const assertMigrated = Effect.fnUntraced(function* ({ directory, read }: SnapshotPlace) {
  const inventory = yield* lookAt(directory)
  assert.deepStrictEqual([...inventory.keys()].toSorted(), snapshotIds)
  for (const number of [1, 2, 3]) {
    const expected = recordOf(number, number === 3 ? { status: "Running" } : {})
    assert.deepStrictEqual({ ...inventory.get(sandboxOf(number))! }, { ...expected })
  }
  assert.deepStrictEqual(JSON.parse(read(headerName)), { version: 2, owner, sandboxes: {} })
  assert.deepStrictEqual(JSON.parse(read(`records/${metaName}`)), { version: 2, owner })
  assert.deepStrictEqual(Files.readdirSync(directory).toSorted(), ["records", "runtime", headerName])
  assert.strictEqual(Files.readdirSync(Path.join(directory, "records")).length, snapshotIds.length + 1)
})

/** The names that a call has, with what is drawn left out. */
const withoutIds = (calls: ReadonlyArray<string>): ReadonlyArray<string> =>
  calls
    .filter((call) => /^(create|rename|unlink|sync|makeDirectory|removeDirectory) /.test(call))
    .map((call) => call.replaceAll(/-[0-9a-f]{8}-[0-9a-f-]{27}/g, "-*"))

/** Dies at the armed boundary, as a process would. */
const dyingAt = (faults: Faults) => {
  const look = (boundary: string) => (program: string, step: string) =>
    faults.step(`${boundary} ${program}: ${step}`, Effect.void, (): never => {
      throw new Error("an observer cannot fail")
    })
  return { before: look("before"), after: look("after") }
}

describe("registry/layoutCreation", () => {
  it.live("RG-MIG-01 RG-MIG-02 a version-1 registry becomes records/ with the same owner and records", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      const registry = yield* openOn(place.directory)
      assert.strictEqual(registry.node, owner)
      yield* assertMigrated(place)
      for (const name of ["sandboxes.json", "records/meta.json", `records/${sandboxOf(1)}.json`]) {
        assert.strictEqual(Files.statSync(Path.join(place.directory, name)).mode & 0o777, 0o600)
      }
      assert.strictEqual(Files.statSync(Path.join(place.directory, "records")).mode & 0o777, 0o700)
    })
  )

  it.live(
    "RG-MIG-02 staging, sync, rename, sync, then the header, in this order; each record is synced",
    () =>
      Effect.gen(function* () {
        const { directory } = yield* layOutSnapshot([recordOf(1), recordOf(2)])
        const disk = makeDisk()
        yield* Effect.scoped(openOn(directory, { disk }))
        assert.deepStrictEqual(withoutIds(disk.calls), [
          "sync state",
          "sync runtime",
          "sync state",
          "makeDirectory .records-*",
          "create .records-*/meta.json",
          "create .records-*/sb-*.json",
          "create .records-*/sb-*.json",
          "sync .records-*",
          "rename state/.records-* records",
          "sync state",
          "create state/.sandboxes.json-*",
          "rename state/.sandboxes.json-* sandboxes.json",
          "sync state",
          "sync records",
          "sync state"
        ])
      })
  )

  it.live(
    "RG-MIG-02 a records/ that was not activated is set aside, durably, before anything is staged",
    () =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        layOutUnactivated(place)
        const disk = makeDisk()
        yield* Effect.scoped(openOn(place.directory, { disk }))
        const calls = withoutIds(disk.calls)
        const aside = calls.indexOf("rename state/records .records-retired-*")
        assert.deepStrictEqual(calls.slice(aside, aside + 3), [
          "rename state/records .records-retired-*",
          "sync state",
          "makeDirectory .records-*"
        ])
        const removal = calls.findIndex((call) => call.startsWith("removeDirectory"))
        assert.isAbove(removal, calls.lastIndexOf("sync records"))
      })
  )

  it.live(
    "RG-MIG-03 RG-MIG-04 staging and a records/ that was never activated do not override the snapshot, and go",
    () =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        layOutUnactivated(place)
        yield* assertMigrated(place)
      })
  )

  it.live("RG-MIG-03 an empty snapshot is in force too: what was never activated beside it goes", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot([])
      layOutUnactivated(place)
      assert.strictEqual((yield* lookAt(place.directory)).size, 0)
      assert.deepStrictEqual(Files.readdirSync(Path.join(place.directory, "records")), [metaName])
    })
  )

  it.live(
    "RG-MIG-03 a migration that dies at any boundary of any step is done again by the next open",
    () =>
      Effect.gen(function* () {
        let place: SnapshotPlace
        const steps = yield* everyStep({
          kinds: ["crashAfter"],
          program: (faults) =>
            Effect.gen(function* () {
              place = yield* layOutSnapshot()
              layOutUnactivated(place)
              yield* Effect.scoped(openOn(place.directory)).pipe(
                Effect.provideService(StepObserver, dyingAt(faults))
              )
            }),
          check: ({ exit, fault }) =>
            Effect.gen(function* () {
              assert.strictEqual(Exit.isFailure(exit), fault !== null)
              if (Exit.isFailure(exit)) assert.isTrue(Cause.hasDies(exit.cause))
              yield* assertMigrated(place)
            })
        })
        // Three records, staged side by side, and every other step once.
        assert.strictEqual(steps.filter((step) => step.endsWith("stage a record")).length, 6)
        assert.isAbove(new Set(steps).size, 24)
      }),
    60_000
  )

  it.live.each(["before", "after"] as const)(
    "RG-MIG-05 an activation whose rename fails %s it happened fails the open; the next reads what survived",
    (when) =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        const disk = makeDisk()
        failNext(disk, "rename", when, "EIO", /sandboxes\.json$/)
        const refusal = yield* Effect.flip(Effect.scoped(openOn(place.directory, { disk })))
        assert.include(refusal.message, "uncertain")
        assert.strictEqual(JSON.parse(place.read(headerName)).version, when === "before" ? 1 : 2)
        yield* assertMigrated(place)
      })
  )

  it.live("RG-MIG-05 an activation that is not synced fails the open; the next reads what survived", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      const disk = makeDisk()
      const push = disk.calls.push.bind(disk.calls)
      disk.calls.push = (...calls) => {
        if (/^rename .* sandboxes\.json$/.test(calls[0]!)) failNext(disk, "sync")
        return push(...calls)
      }
      const refusal = yield* Effect.flip(Effect.scoped(openOn(place.directory, { disk })))
      assert.include(refusal.message, "uncertain")
      assert.strictEqual(JSON.parse(place.read(headerName)).version, 2)
      yield* assertMigrated(place)
    })
  )

  it.live(
    "RG-MIG-05 no way leads back: an activated registry without records/ is refused, whatever is beside it",
    () =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        const snapshot = place.read(headerName)
        yield* lookAt(place.directory)
        place.write("sandboxes.json.bak", snapshot)
        Files.renameSync(
          Path.join(place.directory, "records"),
          Path.join(place.directory, ".records-retired-1")
        )
        const before = contentsOf(place.directory)
        const refusal = yield* Effect.flip(lookAt(place.directory))
        assert.include(refusal.message, "records")
        assert.deepStrictEqual(contentsOf(place.directory), before)
      })
  )

  it.live("RG-MIG-02 RG-RUN-03 what an open has read is durable before it is answered", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot()
      yield* lookAt(place.directory)
      for (const directory of ["records", "state"]) {
        const disk = makeDisk()
        failNext(disk, "sync", "before", "EIO", new RegExp(`^${directory}$`))
        const refusal = yield* Effect.flip(Effect.scoped(openOn(place.directory, { disk })))
        assert.include(refusal.message, "sync: EIO")
      }
    })
  )

  it.live(
    "RG-MIG-02 a fresh directory is the migration of nothing: header, marker, records/, activation",
    () =>
      Effect.gen(function* () {
        const disk = makeDisk()
        yield* Effect.scoped(openOn(yield* temporaryDirectory, { disk }))
        assert.deepStrictEqual(withoutIds(disk.calls).slice(0, 9), [
          "create state/.sandboxes.json-*",
          "rename state/.sandboxes.json-* sandboxes.json",
          "sync state",
          "makeDirectory runtime",
          "create runtime/.owner.json-*",
          "rename runtime/.owner.json-* owner.json",
          "sync runtime",
          "sync state",
          "makeDirectory .records-*"
        ])
      })
  )
})
