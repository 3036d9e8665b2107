/**
 * Cases of the supervisor's conformance about the end of everything: proof, reclamation, what stays.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { expect } from "vitest"
import { Generation } from "../../src/domain/Identity.ts"
import { reclaimSandbox } from "../../src/domain/reclamation/reclamation.ts"
import {
  drawSandbox,
  type GuestMethods,
  GuestSupervisor,
  leftOf,
  makeSpec,
  run,
  RunState,
  shell,
  withGuest
} from "./guestHarness.ts"

/** Declares the cases for a daemon over the given state directory. */
export const absenceCases = (it: GuestMethods, stateDirectory: string, guestsAtOnce: number): void => {
  it.effect(
    "RG-DEL-04 after a reclamation only tombstone and owner lock are left, and it may be repeated",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const spec = makeSpec({ environment: { TOKEN: "secret" } })
        const identity = yield* supervisor.start(spec)
        yield* shell(spec.sandbox, "ln -s / /workspace/root; mkdir -p /workspace/a/b; chmod 0 /workspace/a")
        const proof = yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
        expect(proof.evidence).toMatchObject({
          _tag: identity.groups.length > 0 ? "GroupsEmpty" : "InitGone"
        })
        expect(leftOf(stateDirectory, identity)).toEqual({
          groups: [],
          entries: ["owner.lock", "tombstone.json"]
        })
        expect(yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })).toEqual(proof)
        const refused = yield* Effect.flip(
          supervisor.start(makeSpec({ sandbox: spec.sandbox, generation: Generation.make(2) }))
        )
        expect(refused).toMatchObject({ code: "invalid_guest_state" })
        expect(leftOf(stateDirectory, identity).entries).toEqual(["owner.lock", "tombstone.json"])
      })
  )

  it.effect(
    "RG-DEL-06 a replaced cgroup is uncertain: nothing is reclaimed, and the guest is not touched",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const spec = makeSpec()
        yield* withGuest(spec, (identity) =>
          Effect.gen(function* () {
            const file = Path.join(stateDirectory, "runtime", spec.sandbox, "identity.json")
            const written = Files.readFileSync(file, "utf8")
            const [group] = identity.groups
            if (group === undefined) return
            Files.writeFileSync(file, written.replace(`"inode":"${group.inode}"`, '"inode":"1"'))
            const error = yield* Effect.flip(reclaimSandbox(spec.sandbox, { graceMillis: 0 }))
            expect(error).toMatchObject({ code: "absence_not_proved", state: "Uncertain" })
            expect(Option.isNone(yield* (yield* RunState).readTombstone(spec.sandbox))).toBe(true)
            expect((yield* supervisor.end(spec.sandbox, { graceMillis: 0 }))._tag).toBe("Uncertain")
            Files.writeFileSync(file, written)
            expect((yield* run(spec.sandbox, ["true"])).exitCode).toBe(0)
          })
        )
      })
  )

  it.effect(
    "a launch that cannot succeed leaves no process and no member behind, and the next one works",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const disk = Path.join(stateDirectory, "disks", randomUUID())
        Files.mkdirSync(disk)
        const spec = makeSpec({ disk })
        const image = Path.join(stateDirectory, "disks", "image")
        const refused = yield* Effect.flip(supervisor.start(makeSpec({ ...spec, image })))
        expect(refused).toMatchObject({ code: "guest_spec_refused", field: "image" })
        Files.rmdirSync(disk)
        expect(yield* Effect.flip(supervisor.start(spec))).toMatchObject({
          code: "guest_spec_refused",
          field: "disk"
        })
        expect(yield* supervisor.inspect(spec.sandbox)).toMatchObject({
          _tag: "Gone",
          evidence: { _tag: "NeverStarted" }
        })
        yield* withGuest(makeSpec({ sandbox: spec.sandbox }), () => run(spec.sandbox, ["true"]))
      })
  )

  it.effect("RG-DEL-03 a guest is reclaimed when its disk and image are long gone", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const disk = Path.join(stateDirectory, "disks", randomUUID())
      Files.mkdirSync(disk)
      const spec = makeSpec({ disk })
      const identity = yield* supervisor.start(spec)
      expect((yield* shell(spec.sandbox, "echo on disk >/workspace/file; cat /workspace/file")).stdout).toBe(
        "on disk\n"
      )
      expect(Files.readFileSync(Path.join(disk, "file"), "utf8")).toBe("on disk\n")
      Files.rmSync(disk, { recursive: true })
      yield* reclaimSandbox(spec.sandbox, { graceMillis: 0 })
      expect(leftOf(stateDirectory, identity).groups).toEqual([])
    })
  )

  it.effect(
    "SP-DEL-07 a directory of the host's own keeps its owner and its modes, and is reached by no link",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const home = Files.realpathSync(Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-host-")))
        yield* Effect.addFinalizer(() => Effect.sync(() => Files.rmSync(home, { recursive: true })))
        Files.chmodSync(home, 0o755)
        const disk = Path.join(home, "site")
        Files.mkdirSync(disk)
        Files.chmodSync(disk, 0o757)
        Files.writeFileSync(Path.join(disk, "page"), "theirs", { mode: 0o644 })
        const before = Files.statSync(disk)
        const spec = makeSpec({ disk })
        yield* withGuest(spec, () =>
          Effect.map(shell(spec.sandbox, "cat /workspace/page; echo made >/workspace/file"), ({ stdout }) =>
            expect(stdout).toBe("theirs")
          )
        )
        const after = Files.statSync(disk)
        expect([after.uid, after.gid, after.mode]).toEqual([before.uid, before.gid, before.mode])
        expect(Files.statSync(Path.join(disk, "page")).uid).toBe(process.getuid?.())
        expect(Files.readFileSync(Path.join(disk, "file"), "utf8")).toBe("made\n")
        Files.symlinkSync(disk, Path.join(home, "link"))
        Files.symlinkSync(home, Path.join(home, "way"))
        for (const refused of [
          Path.join(home, "link"),
          Path.join(home, "way", "site"),
          stateDirectory,
          Path.dirname(stateDirectory),
          "/"
        ]) {
          expect(yield* Effect.flip(supervisor.start(makeSpec({ disk: refused })))).toMatchObject({
            code: "guest_spec_refused",
            field: "disk"
          })
        }
      }).pipe(Effect.scoped)
  )

  it.effect("a disk belongs to the guest that has it, and another sandbox's reclamation leaves it", () =>
    Effect.gen(function* () {
      const disk = Path.join(stateDirectory, "disks", randomUUID())
      Files.mkdirSync(disk)
      const outside = Path.join(stateDirectory, "outside")
      Files.writeFileSync(outside, "ours")
      for (const sandbox of [drawSandbox(), drawSandbox()]) {
        const spec = makeSpec({ sandbox, disk })
        yield* withGuest(spec, () =>
          shell(sandbox, `ln -sf ${outside} /workspace/link; echo ${sandbox} >>/workspace/file`)
        )
      }
      expect(Files.readFileSync(Path.join(disk, "file"), "utf8").trim().split("\n").length).toBe(2)
      expect(Files.statSync(outside).uid).toBe(process.getuid?.())
    })
  )

  it.effect(
    `${guestsAtOnce} guests at once share no user and no folder, and nothing of them is left`,
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const specs = Array.from({ length: guestsAtOnce }, () => makeSpec())
        const identities = yield* Effect.forEach(specs, (spec) => supervisor.start(spec), {
          concurrency: 8
        })
        if (supervisor.capabilities.privateUser) {
          expect(new Set(identities.map((identity) => identity.userId)).size).toBe(guestsAtOnce)
        }
        const names = yield* Effect.forEach(
          specs,
          (spec) => shell(spec.sandbox, "touch /workspace/mine; ls /workspace"),
          { concurrency: 8 }
        )
        expect(new Set(names.map((answer) => answer.stdout))).toEqual(new Set(["mine\n"]))
        yield* Effect.forEach(specs, (spec) => reclaimSandbox(spec.sandbox, { graceMillis: 0 }), {
          concurrency: 8
        })
        for (const identity of identities) {
          expect(leftOf(stateDirectory, identity)).toEqual({
            groups: [],
            entries: ["owner.lock", "tombstone.json"]
          })
        }
      }),
    60_000
  )
}
