/** Private run state on a real disk: the tombstone's durability and fence, and the removal of whatever a guest left. */
import { layer, type Vitest } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { afterAll, expect } from "vitest"
import { decideObservation } from "../../../src/domain/guests/GuestFacts.ts"
import { proveAbsence } from "../../../src/domain/guests/absence.ts"
import type { GuestIdentity } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { Tombstone } from "../../../src/domain/reclamation/Tombstone.ts"
import { layer as fileLayer } from "../../../src/infra/filesystem/RunState.ts"
import { facts } from "../../domain/guests/facts.ts"
import { drawIdentity, makeScriptedState } from "../../../src/infra/guests/scriptedState.ts"
import { drawSandbox, makeSpec, makeStateDirectory } from "../../suites/guestHarness.ts"

// In memory where there is such a place: removing a directory costs most disks a millisecond.
const stateDirectory = makeStateDirectory(Files.existsSync("/dev/shm") ? "/dev/shm" : undefined)
const runtime = Path.join(stateDirectory, "runtime")
Files.mkdirSync(runtime)
afterAll(() => Files.rmSync(stateDirectory, { recursive: true, force: true }))

const proofOf = (sandbox: SandboxId, observedAtMillis = 5) =>
  Effect.fromResult(proveAbsence(sandbox, decideObservation(facts({})), { observedAtMillis }))

const tombstoneOf = (sandbox: SandboxId) =>
  Effect.map(proofOf(sandbox), (proof) => new Tombstone({ version: 1, sandbox, proof }))

const identityOf = (sandbox: SandboxId): GuestIdentity =>
  drawIdentity(makeScriptedState(), makeSpec({ sandbox }))

const makeFolder = (sandbox: SandboxId): string => {
  const folder = Path.join(runtime, sandbox)
  Files.mkdirSync(Path.join(folder, "run/workspace"), { recursive: true })
  Files.writeFileSync(Path.join(folder, "owner.lock"), "")
  Files.writeFileSync(Path.join(folder, "identity.json"), "secret")
  return folder
}

/** A sandbox with files, fenced, and ready to be reclaimed. */
const fenced = Effect.gen(function* () {
  const runState = yield* RunState
  const sandbox = drawSandbox()
  const folder = makeFolder(sandbox)
  yield* runState.publishTombstone(yield* tombstoneOf(sandbox))
  return { sandbox, folder, workspace: Path.join(folder, "run/workspace") }
})

const reclaimed = (sandbox: SandboxId, folder: string) =>
  Effect.gen(function* () {
    yield* (yield* RunState).reclaim(sandbox)
    expect(Files.readdirSync(folder).toSorted()).toEqual(["owner.lock", "tombstone.json"])
  })

const declareCases = (it: Vitest.MethodsNonLive<RunState>): void => {
  it.effect(
    "RG-DEL-10 a published tombstone is read back as it is, and a second one does not replace it",
    () =>
      Effect.gen(function* () {
        const runState = yield* RunState
        const sandbox = drawSandbox()
        expect(Option.isNone(yield* runState.readTombstone(sandbox))).toBe(true)
        const tombstone = yield* tombstoneOf(sandbox)
        yield* runState.publishTombstone(tombstone)
        const later = new Tombstone({ version: 1, sandbox, proof: yield* proofOf(sandbox, 99) })
        yield* runState.publishTombstone(later)
        expect(Option.getOrThrow(yield* runState.readTombstone(sandbox))).toEqual(tombstone)
        expect(Files.statSync(Path.join(runtime, sandbox, "tombstone.json")).mode & 0o777).toBe(0o600)
        yield* runState.reclaim(sandbox)
        expect(Option.getOrThrow(yield* runState.readTombstone(sandbox))).toEqual(tombstone)
        expect(yield* runState.list).toContain(sandbox)
      })
  )

  it.effect("a recorded identity is read back, and one of another form, sandbox or kind is refused", () =>
    Effect.gen(function* () {
      const runState = yield* RunState
      const sandbox = drawSandbox()
      const file = Path.join(runtime, sandbox, "identity.json")
      expect(Option.isNone(yield* runState.readIdentity(sandbox))).toBe(true)
      makeFolder(sandbox)
      const identity = identityOf(sandbox)
      Files.writeFileSync(file, JSON.stringify(identity))
      expect(Option.getOrThrow(yield* runState.readIdentity(sandbox))).toEqual(identity)
      for (const text of [
        "secret",
        JSON.stringify({ ...identity, more: 1 }),
        JSON.stringify(identityOf(drawSandbox()))
      ]) {
        Files.writeFileSync(file, text)
        expect((yield* Effect.flip(runState.readIdentity(sandbox))).step).toBe("read the identity")
      }
      Files.rmSync(file)
      Files.symlinkSync("/etc/passwd", file)
      expect((yield* Effect.flip(runState.readIdentity(sandbox))).why).toBe("it is a symbolic link")
    })
  )

  it.effect("a tombstone of another sandbox is refused, written or found", () =>
    Effect.gen(function* () {
      const runState = yield* RunState
      const [sandbox, other] = [drawSandbox(), drawSandbox()]
      const mixed = new Tombstone({ version: 1, sandbox, proof: yield* proofOf(other) })
      expect(yield* Effect.flip(runState.publishTombstone(mixed))).toMatchObject({
        code: "run_state_failure"
      })
      yield* runState.publishTombstone(yield* tombstoneOf(other))
      Files.mkdirSync(Path.join(runtime, sandbox))
      Files.copyFileSync(
        Path.join(runtime, other, "tombstone.json"),
        Path.join(runtime, sandbox, "tombstone.json")
      )
      for (const call of [runState.readTombstone(sandbox), runState.reclaim(sandbox)]) {
        expect(yield* Effect.flip(call)).toMatchObject({ code: "run_state_failure" })
      }
    })
  )

  it.effect(
    "a link, a pipe, a cut and an oversized file in the tombstone's place are refused, never read as absent",
    () =>
      Effect.gen(function* () {
        const runState = yield* RunState
        const put: ReadonlyArray<(path: string) => void> = [
          (path) => Files.symlinkSync("/etc/passwd", path),
          (path) => void spawnSync("mkfifo", [path]),
          (path) => Files.writeFileSync(path, '{"version":1'),
          (path) => Files.writeFileSync(path, " ".repeat(1024 ** 2)),
          (path) => Files.mkdirSync(path)
        ]
        for (const make of put) {
          const sandbox = drawSandbox()
          make(Path.join(makeFolder(sandbox), "tombstone.json"))
          expect(yield* Effect.flip(runState.readTombstone(sandbox))).toMatchObject({
            code: "run_state_failure"
          })
          expect(yield* Effect.flip(runState.reclaim(sandbox))).toMatchObject({ code: "run_state_failure" })
          expect(Files.existsSync(Path.join(runtime, sandbox, "identity.json"))).toBe(true)
        }
      })
  )

  it.effect(
    "RG-DEL-04 nothing is removed without a tombstone; behind one all but it and the owner lock",
    () =>
      Effect.gen(function* () {
        const runState = yield* RunState
        const sandbox = drawSandbox()
        const folder = makeFolder(sandbox)
        const before = Files.readdirSync(folder)
        expect(yield* Effect.flip(runState.reclaim(sandbox))).toMatchObject({ code: "run_state_failure" })
        expect(Files.readdirSync(folder)).toEqual(before)
        yield* runState.publishTombstone(yield* tombstoneOf(sandbox))
        yield* reclaimed(sandbox, folder)
        yield* reclaimed(sandbox, folder)
      })
  )

  it.effect("RG-DEL-08 no link leads the removal out of the sandbox's folder", () =>
    Effect.gen(function* () {
      const outside = Path.join(stateDirectory, `outside-${randomUUID()}`)
      Files.mkdirSync(Path.join(outside, "directory"), { recursive: true })
      Files.writeFileSync(Path.join(outside, "directory/file"), "ours")
      const before = Files.statSync(Path.join(outside, "directory")).mode
      const { folder, sandbox, workspace } = yield* fenced
      Files.mkdirSync(Path.join(workspace, "deep/er"), { recursive: true })
      Files.symlinkSync(outside, Path.join(workspace, "deep/er/link"))
      Files.symlinkSync(Path.join(outside, "directory"), Path.join(workspace, "link"))
      Files.symlinkSync("..", Path.join(workspace, "up"))
      Files.symlinkSync(outside, Path.join(folder, "ports"))
      Files.rmSync(Path.join(folder, "identity.json"))
      Files.symlinkSync(Path.join(outside, "directory/file"), Path.join(folder, "identity.json"))
      Files.linkSync(Path.join(outside, "directory/file"), Path.join(workspace, "hard"))
      yield* reclaimed(sandbox, folder)
      expect(Files.readFileSync(Path.join(outside, "directory/file"), "utf8")).toBe("ours")
      expect(Files.statSync(Path.join(outside, "directory")).mode).toBe(before)
    })
  )

  it.effect("RG-DEL-08 a tree of 10,000 levels is removed", () =>
    Effect.gen(function* () {
      const { folder, sandbox, workspace } = yield* fenced
      // Built from the inside out: no path is ever long.
      const [inner, outer] = [Path.join(workspace, "inner"), Path.join(workspace, "outer")]
      Files.mkdirSync(inner)
      Files.writeFileSync(Path.join(inner, "file"), "")
      for (let level = 0; level < 10_000; level += 1) {
        Files.mkdirSync(outer)
        Files.renameSync(inner, Path.join(outer, "d"))
        Files.renameSync(outer, inner)
      }
      yield* reclaimed(sandbox, folder)
    })
  )

  it.effect(
    "RG-DEL-08 names of any bytes, pipes, sockets and directories without permissions are removed",
    () =>
      Effect.gen(function* () {
        const { folder, sandbox, workspace } = yield* fenced
        const at = (name: Buffer) => Buffer.concat([Buffer.from(`${workspace}/`), name])
        for (const bytes of [[0xff, 0xfe], [0x0a], [0x5c, 0x6e], [0x2d, 0x72, 0x66], [0xc3], [0x20]]) {
          const name = Buffer.from(bytes)
          Files.mkdirSync(at(name))
          Files.writeFileSync(Buffer.concat([at(name), Buffer.from("/"), name]), "x")
        }
        Files.writeFileSync(at(Buffer.alloc(255, 0x61)), "long")
        spawnSync("mkfifo", [Path.join(workspace, "pipe")])
        Files.mkdirSync(Path.join(workspace, "closed/inner/innermost"), { recursive: true })
        Files.writeFileSync(Path.join(workspace, "closed/inner/file"), "x", { mode: 0 })
        for (const path of ["closed/inner/innermost", "closed/inner", "closed"])
          Files.chmodSync(Path.join(workspace, path), 0)
        yield* reclaimed(sandbox, folder)
      })
  )

  it.effect("RG-DEL-05 a removal that was cut short goes on where it stopped", () =>
    Effect.gen(function* () {
      const { folder, sandbox, workspace } = yield* fenced
      for (let number = 0; number < 2_000; number += 1) {
        Files.mkdirSync(Path.join(workspace, `d${number}/e`), { recursive: true })
      }
      const runState = yield* RunState
      const cut = yield* Effect.timeoutOption(runState.reclaim(sandbox), 1)
      expect(Option.isNone(cut)).toBe(true)
      expect(Files.readdirSync(folder).length).toBeGreaterThan(2)
      yield* reclaimed(sandbox, folder)
    })
  )

  it.effect("the list holds every sandbox's folder and refuses what is none", () =>
    Effect.gen(function* () {
      const runState = yield* RunState
      const sandbox = drawSandbox()
      makeFolder(sandbox)
      expect(yield* runState.list).toContain(sandbox)
      const stranger = Path.join(runtime, "stranger")
      Files.mkdirSync(stranger)
      expect(yield* Effect.flip(runState.list)).toMatchObject({
        code: "run_state_failure",
        path: "runtime/stranger"
      })
      Files.rmdirSync(stranger)
      Files.writeFileSync(Path.join(runtime, drawSandbox()), "a file")
      expect(yield* Effect.flip(runState.list)).toMatchObject({ code: "run_state_failure" })
    })
  )
}

layer(fileLayer({ stateDirectory }), { excludeTestServices: true })("RunState on disk", (it) => {
  declareCases(it)
})
