import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Files from "node:fs"
import * as Path from "node:path"
import { NodeId } from "../../../src/domain/Identity.ts"
import { acceptOwner } from "../../../src/domain/registry/runtimeOwner.ts"
import { contentsOf, lookAt, openOn, recordOf, sandboxOf, temporaryDirectory } from "./fixture.ts"
import { layOutSnapshot, layOutUnactivated, markerText, owner } from "./snapshotFixture.ts"

const other = NodeId.make("22222222-2222-4222-8222-222222222222")
const markerPath = "runtime/owner.json"

/** Opens and expects a refusal of the marker that changed nothing and says what to keep. */
const refusedAtMarker = Effect.fnUntraced(function* (directory: string) {
  const before = contentsOf(directory)
  const refusal = yield* Effect.flip(lookAt(directory))
  assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: markerPath })
  assert.include(refusal.message, "preserve the original ownership state")
  assert.deepStrictEqual(contentsOf(directory), before)
})

const wrongMarkers = [
  ["missing", (path: string) => Files.rmSync(path)],
  ["missing with its directory", (path: string) => Files.rmSync(Path.dirname(path), { recursive: true })],
  [
    "another owner's",
    (path: string) => Files.writeFileSync(path, JSON.stringify({ version: 1, owner: other }))
  ],
  ["empty", (path: string) => Files.writeFileSync(path, "")],
  ["of NUL bytes", (path: string) => Files.writeFileSync(path, "\0".repeat(64))],
  ["of another version", (path: string) => Files.writeFileSync(path, markerText.replace("1", "2"))],
  [
    "with an unknown field",
    (path: string) => Files.writeFileSync(path, JSON.stringify({ version: 1, owner, more: 1 }))
  ]
] as const

describe("registry/runtimeOwner", () => {
  it.live.each(wrongMarkers)(
    "RG-MIG-06 a version-1 registry with sandboxes whose marker is %s is rejected before its migration",
    ([, spoil]) =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot()
        layOutUnactivated(place)
        spoil(Path.join(place.directory, markerPath))
        yield* refusedAtMarker(place.directory)
      })
  )

  it.live.each(wrongMarkers)(
    "RG-MIG-06 a version-2 registry without any sandbox whose marker is %s is rejected",
    ([, spoil]) =>
      Effect.gen(function* () {
        const place = yield* layOutSnapshot([])
        yield* lookAt(place.directory)
        spoil(Path.join(place.directory, markerPath))
        yield* refusedAtMarker(place.directory)
      })
  )

  it.live("RG-MIG-06 an empty version-1 registry gets its marker, unless native state lies there", () =>
    Effect.gen(function* () {
      const place = yield* layOutSnapshot([])
      Files.rmSync(Path.join(place.directory, markerPath))
      place.makeDirectory(`runtime/${sandboxOf(4)}`, 0o711)
      yield* refusedAtMarker(place.directory)
      Files.rmdirSync(Path.join(place.directory, "runtime", sandboxOf(4)))
      place.write("runtime/.owner.json-half", "{")
      yield* lookAt(place.directory)
      assert.strictEqual(place.read(markerPath), markerText)
      assert.deepStrictEqual(Files.readdirSync(Path.join(place.directory, "runtime")), ["owner.json"])
    })
  )

  it.live.each([
    [
      "a marker",
      (runtime: string) => Files.writeFileSync(Path.join(runtime, "owner.json"), markerText, { mode: 0o600 })
    ],
    ["native state", (runtime: string) => Files.mkdirSync(Path.join(runtime, sandboxOf(1)))]
  ] as const)("RG-MIG-06 RG-LAY-06 a missing header beside %s is no beginning", ([, make]) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      Files.mkdirSync(Path.join(directory, "runtime"), { mode: 0o711 })
      make(Path.join(directory, "runtime"))
      const before = contentsOf(directory)
      const refusal = yield* Effect.flip(lookAt(directory))
      assert.deepInclude(refusal, { _tag: "RegistryOpenRefused", path: "sandboxes.json" })
      assert.deepStrictEqual(contentsOf(directory), before)
    })
  )

  it.live(
    "RG-LAY-01 the runtime directory may be passed by guests, and neither listed nor changed by them",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        yield* Effect.scoped(Effect.flatMap(openOn(directory), (registry) => registry.admit(recordOf(1))))
        const runtime = Path.join(directory, "runtime")
        assert.strictEqual(Files.statSync(runtime).mode & 0o777, 0o711)
        assert.strictEqual(Files.statSync(Path.join(directory, markerPath)).mode & 0o777, 0o600)
        for (const mode of [0o731, 0o715, 0o755]) {
          Files.chmodSync(runtime, mode)
          assert.include((yield* Effect.flip(lookAt(directory))).message, "runtime")
        }
        Files.chmodSync(runtime, 0o700)
        assert.strictEqual((yield* lookAt(directory)).size, 1)
      })
  )

  it.live("RG-LAY-02 a link in place of the marker or of its directory is refused, and not followed", () =>
    Effect.gen(function* () {
      for (const path of [markerPath, "runtime"]) {
        const elsewhere = yield* temporaryDirectory
        const place = yield* layOutSnapshot()
        Files.renameSync(Path.join(place.directory, path), Path.join(elsewhere, "moved"))
        Files.symlinkSync(Path.join(elsewhere, "moved"), Path.join(place.directory, path))
        const before = [contentsOf(place.directory), contentsOf(elsewhere)]
        assert.include((yield* Effect.flip(lookAt(place.directory))).message, "link")
        assert.deepStrictEqual([contentsOf(place.directory), contentsOf(elsewhere)], before)
      }
    })
  )

  it("RG-MIG-06 the runtime accepts by owner, and takes nothing without one but an empty registry", () => {
    const outcomes = [owner, other, null].flatMap((named) =>
      [false, true].flatMap((native) =>
        [false, true].map((isOccupied) =>
          Result.isSuccess(
            acceptOwner(owner, { owner: named, isOccupied: native, leftovers: [] }, { isOccupied })
          )
        )
      )
    )
    const accepted = [true, true, true, true]
    const rejected = [false, false, false, false]
    assert.deepStrictEqual(outcomes, [...accepted, ...rejected, true, false, false, false])
  })
})
