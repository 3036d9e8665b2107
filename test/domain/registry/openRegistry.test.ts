import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { metaName } from "../../../src/domain/registry/entryRoles.ts"
import {
  contentsOf,
  type Disk,
  failNext,
  lookAt,
  makeDisk,
  openOn,
  recordOf,
  sandboxOf,
  temporaryDirectory
} from "./fixture.ts"

const owner = "11111111-1111-4111-8111-111111111111"
const other = "22222222-2222-4222-8222-222222222222"
const headerText = (version: number, sandboxes: object = {}) => JSON.stringify({ version, owner, sandboxes })
const recordText = (fields: object = {}, wrapper: object = {}) =>
  JSON.stringify({ version: 2, owner, record: { ...recordOf(1), ...fields }, ...wrapper })
const recordPath = `records/${sandboxOf(1)}.json`

/** A version-2 layout with one record, written by hand. */
const layOut = Effect.map(temporaryDirectory, (directory) => {
  Files.mkdirSync(Path.join(directory, "records"), { mode: 0o700 })
  const write = (name: string, text: string | Buffer) =>
    Files.writeFileSync(Path.join(directory, name), text, { mode: 0o600 })
  write("sandboxes.json", headerText(2))
  Files.mkdirSync(Path.join(directory, "runtime"), { mode: 0o711 })
  write("runtime/owner.json", JSON.stringify({ version: 1, owner }))
  write(`records/${metaName}`, JSON.stringify({ version: 2, owner }))
  write(recordPath, recordText())
  return {
    directory,
    write,
    remove: (name: string) => Files.rmSync(Path.join(directory, name), { recursive: true })
  }
})

/** Opens and expects a refusal at this path that changed nothing. */
const refusedAt = (directory: string, path: string) =>
  Effect.gen(function* () {
    const before = contentsOf(directory)
    const refusal = yield* Effect.flip(lookAt(directory))
    assert.strictEqual(refusal._tag, "RegistryOpenRefused")
    assert.strictEqual("path" in refusal && refusal.path, path)
    assert.include(refusal.message, path)
    assert.deepStrictEqual(contentsOf(directory), before)
    return refusal
  })

describe("registry/openRegistry", () => {
  it.live("RG-LAY-04 a committed layout is read from records/ with its owner", () =>
    Effect.gen(function* () {
      const { directory } = yield* layOut
      const registry = yield* openOn(directory)
      assert.strictEqual(registry.node, owner)
      assert.deepStrictEqual({ ...(yield* registry.get(sandboxOf(1))) }, { ...recordOf(1) })
    })
  )

  it.live.each([
    ["header version", "sandboxes.json", headerText(3)],
    ["header owner", `records/${metaName}`, null],
    ["header with a sandbox in version 2", "sandboxes.json", headerText(2, { [sandboxOf(1)]: {} })],
    ["meta version", `records/${metaName}`, JSON.stringify({ version: 1, owner })],
    ["meta owner", `records/${metaName}`, JSON.stringify({ version: 2, owner: other })],
    ["record version", recordPath, recordText({}, { version: 1 })],
    ["record owner", recordPath, recordText({}, { owner: other })]
  ] as const)("RG-LAY-04 a disagreement in the %s fails closed", ([, path, text]) =>
    Effect.gen(function* () {
      const { directory, write } = yield* layOut
      if (text !== null) write(path, text)
      else {
        write("sandboxes.json", JSON.stringify({ version: 2, owner: other, sandboxes: {} }))
        write("runtime/owner.json", JSON.stringify({ version: 1, owner: other }))
      }
      yield* refusedAt(directory, path)
    })
  )

  it.live.each([
    ["another id than its name", { id: sandboxOf(2) }],
    ["an id that is none", { id: "sb-1" }],
    ["no CPU", { cpuMillis: 0 }],
    ["negative memory", { memoryBytes: -1 }],
    ["half a process", { processesMax: 0.5 }],
    ["a short token", { endpointToken: "00" }],
    ["an upper-case token", { endpointToken: "A".repeat(64) }],
    ["an unknown status", { status: "Sleeping" }],
    ["an unknown field", { colour: "red" }],
    ["a missing field", { image: undefined }],
    ["a number in its environment", { environment: { A: 1 } }],
    [
      "an unknown field in its deletion",
      { deletion: { reason: "user", actor: "", requestedAtMillis: 1, why: "" } }
    ]
  ] as const)("RG-LAY-05 a record with %s is refused", ([, fields]) =>
    Effect.gen(function* () {
      const { directory, write } = yield* layOut
      write(recordPath, recordText(fields))
      yield* refusedAt(directory, recordPath)
    })
  )

  it.live.each([
    ["truncated", recordText().slice(0, -20)],
    ["empty", ""],
    ["of NUL bytes", "\0".repeat(512)],
    ["of bytes that are no text", Buffer.from(recordText().replace("s3cret", "\xff"), "latin1")],
    ["an array", "[]"]
  ] as const)(
    "RG-LAY-06 FC-18 a record file that is %s fails the open, is named and is not touched",
    ([, text]) =>
      Effect.gen(function* () {
        const { directory, write } = yield* layOut
        write(`records/${sandboxOf(2)}.json`, recordText({ id: sandboxOf(2) }))
        write(recordPath, text)
        const refusal = yield* refusedAt(directory, recordPath)
        assert.notInclude(refusal.message, "s3cret")
      })
  )

  it.live.each([
    ["header", "sandboxes.json"],
    ["metadata", `records/${metaName}`],
    ["records directory", "records"]
  ] as const)("RG-LAY-06 a missing %s fails closed", ([, path]) =>
    Effect.gen(function* () {
      const { directory, remove } = yield* layOut
      remove(path)
      yield* refusedAt(directory, path)
    })
  )

  it.live.each([
    "sb-1.json",
    "notes.txt",
    `${sandboxOf(1)}.json~`,
    ".record-",
    ".record-a b",
    "meta.json.bak"
  ])("RG-LAY-06 BX-07 the unknown name %s in records/ fails closed", (name) =>
    Effect.gen(function* () {
      const { directory, write } = yield* layOut
      write(`records/${name}`, recordText())
      yield* refusedAt(directory, `records/${name}`)
    })
  )

  it.live(
    "RG-LAY-07 an uncommitted replacement is ignored for its content and removed by a successful open",
    () =>
      Effect.gen(function* () {
        const { directory, write } = yield* layOut
        write("records/.record-abc", "{ half a rec")
        write("records/.record-0f", recordText({ image: "/other" }))
        write(".sandboxes.json-7", "half a header")
        const inventory = yield* lookAt(directory)
        assert.strictEqual(inventory.get(sandboxOf(1))?.image, "host")
        assert.deepStrictEqual(Files.readdirSync(Path.join(directory, "records")).toSorted(), [
          metaName,
          `${sandboxOf(1)}.json`
        ])
        assert.deepStrictEqual(Files.readdirSync(directory).toSorted(), [
          "records",
          "runtime",
          "sandboxes.json"
        ])
      })
  )

  it.live("RG-LAY-07 a leftover stays when the open is refused", () =>
    Effect.gen(function* () {
      const { directory, write } = yield* layOut
      write("records/.record-abc", "")
      write(recordPath, "")
      yield* refusedAt(directory, recordPath)
    })
  )

  it.live.each([
    ["open to others", (path: string) => Files.writeFileSync(path, "", { mode: 0o644 })],
    ["a link", (path: string) => Files.symlinkSync("/etc/hostname", path)],
    ["a directory", (path: string) => Files.mkdirSync(path, { mode: 0o700 })]
  ] as const)("RG-LAY-07 a leftover that is %s is refused, not removed", ([, make]) =>
    Effect.gen(function* () {
      const { directory } = yield* layOut
      make(Path.join(directory, "records/.record-abc"))
      yield* refusedAt(directory, "records/.record-abc")
    })
  )

  it.live("RG-LAY-01 a fresh directory gets a private version-2 layout, whatever the umask", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const before = yield* Effect.sync(() => process.umask(0o077 ^ 0o777))
      const registry = yield* openOn(directory).pipe(
        Effect.tap((opened) => opened.admit(recordOf(1))),
        Effect.ensuring(Effect.sync(() => process.umask(before)))
      )
      const modeOf = (name: string) => (Files.statSync(Path.join(directory, name)).mode & 0o777).toString(8)
      assert.strictEqual(modeOf("records"), "700")
      for (const name of ["sandboxes.json", `records/${metaName}`, recordPath])
        assert.strictEqual(modeOf(name), "600")
      assert.deepStrictEqual(JSON.parse(Files.readFileSync(Path.join(directory, "sandboxes.json"), "utf8")), {
        version: 2,
        owner: registry.node,
        sandboxes: {}
      })
    })
  )

  it.live(
    "RG-MIG-03 a creation that is interrupted at any step, before or after it, is finished by the next open",
    () =>
      Effect.gen(function* () {
        const steps = yield* Effect.gen(function* () {
          const disk = makeDisk()
          yield* openOn(yield* temporaryDirectory, { disk })
          return disk.calls.length
        })
        assert.isAbove(steps, 12)
        for (let step = 0; step < steps; step += 1) {
          for (const when of ["before", "after"] as const) {
            const directory = yield* temporaryDirectory
            const refusal = yield* Effect.flip(
              Effect.scoped(openOn(directory, { disk: failingAt(step, when) }))
            )
            assert.strictEqual(refusal._tag, "RegistryOpenRefused")
            const registry = yield* openOn(directory)
            yield* registry.admit(recordOf(1))
            assert.deepStrictEqual(Files.readdirSync(directory).toSorted(), [
              "records",
              "runtime",
              "sandboxes.json"
            ])
            assert.strictEqual((yield* lookAt(directory)).size, 1)
          }
        }
      })
  )

  it.live("RG-MIG-03 an owner that was once durable stays through an interrupted creation", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const disk = makeDisk()
      failNext(disk, "makeDirectory")
      yield* Effect.flip(Effect.scoped(openOn(directory, { disk })))
      const { owner: begun } = JSON.parse(Files.readFileSync(Path.join(directory, "sandboxes.json"), "utf8"))
      assert.strictEqual((yield* openOn(directory)).node, begun)
    })
  )

  it.live.each([
    ["a file", (path: string) => Files.writeFileSync(path, "", { mode: 0o600 }), ".records-x"],
    ["a link", (path: string) => Files.symlinkSync("/etc", path), ".records-x"],
    ["open to others", (path: string) => Files.mkdirSync(path, { mode: 0o755 }), ".records-x"],
    [
      "the home of a directory",
      (path: string) => Files.mkdirSync(Path.join(path, "sub"), { recursive: true, mode: 0o700 }),
      ".records-x/sub"
    ]
  ] as const)(
    "RG-MIG-04 a staging directory that is %s is refused before anything changes",
    ([, make, path]) =>
      Effect.gen(function* () {
        const { directory, write } = yield* layOut
        write("records/.record-abc", "")
        make(Path.join(directory, ".records-x"))
        yield* refusedAt(directory, path)
      })
  )
})

/** Fails at the numbered call of the port, whichever it is. */
const failingAt = (step: number, when: "before" | "after"): Disk => {
  const disk = makeDisk()
  const push = disk.calls.push.bind(disk.calls)
  disk.calls.push = (...calls) => {
    if (disk.calls.length === step)
      failNext(disk, calls[0]!.split(" ")[0] as Parameters<typeof failNext>[1], when)
    return push(...calls)
  }
  return disk
}
