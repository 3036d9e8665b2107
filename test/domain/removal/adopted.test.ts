/** A directory of the host's that a Project has adopted: mounted, snapshotted, and left as it is by whatever ends. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../../src/domain/operations/admissionStepwise.ts"
import { OperationStore } from "../../../src/domain/operations/OperationStore.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { RuntimeStore } from "../../../src/domain/runtimes/RuntimeStore.ts"
import { SnapshotRows } from "../../../src/domain/runtimes/SnapshotRows.ts"
import type { Admit } from "../../infra/postgres/operationsFixture.ts"
import { Clone } from "../../support/clone.ts"
import { admitDeletion, ask, fixture, newProject, requestOf, type Scene, settled } from "./fixture.ts"

/** A directory of the host's with what a removal could meet: files, modes, and a link to somewhere else. */
const hostDirectory = Effect.acquireRelease(
  Effect.sync(() => {
    const made = mkdtempSync(join(tmpdir(), "hf-adopted-"))
    mkdirSync(join(made, "src"), { mode: 0o750 })
    writeFileSync(join(made, "src", "main.c"), "int main;", { mode: 0o640 })
    symlinkSync("/etc/hostname", join(made, "link"))
    chmodSync(made, 0o751)
    return made
  }),
  (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
)

/** Every entry with its kind, mode, owner and content. */
const treeOf = (path: string): ReadonlyArray<string> => {
  const entries = ["", ...(readdirSync(path, { recursive: true }) as ReadonlyArray<string>).toSorted()]
  return entries.map((name) => {
    const { gid, ino, mode, mtimeMs, uid } = lstatSync(join(path, name))
    const text = lstatSync(join(path, name)).isFile() ? readFileSync(join(path, name), "utf8") : ""
    return [name, ino, mode, uid, gid, mtimeMs, text].join(" ")
  })
}

const adopting = (scene: Scene, adoptDisk: string) => ({
  ...requestOf(scene.project, "provision"),
  parameters: { cpuMillis: 100, memoryMebibytes: 128, adoptDisk }
})

const provisionOn = Effect.fnUntraced(function* (directory: string) {
  const scene = yield* newProject
  const { operation } = yield* admitOperation(scene.caller, adopting(scene, directory))
  assert.strictEqual((yield* settled(operation)).state, "succeeded")
  return scene
})

const machineOf = ({ project }: Scene) =>
  Effect.flatMap(RuntimeStore, (runtimes) =>
    Effect.map(runtimes.runtime(project), (found) => Option.getOrThrow(found).recipe!)
  )

describe("adopted directories", () => {
  layer(fixture, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("SP-DEL-07 a rebuild and a deletion leave it untouched, and the preview does not list it", () =>
      Effect.gen(function* () {
        const directory = yield* hostDirectory
        const before = treeOf(directory)
        const scene = yield* provisionOn(directory)
        const first = yield* machineOf(scene)
        assert.deepInclude(first, { adoptedDisk: directory, disks: [] })
        assert.strictEqual((yield* Effect.flatMap(ask(scene, "rebuild"), settled)).state, "succeeded")
        const second = yield* machineOf(scene)
        assert.notStrictEqual(second.sandbox, first.sandbox)
        assert.strictEqual(second.adoptedDisk, directory)
        assert.deepStrictEqual(treeOf(directory), before)

        const { labels, paths } = yield* describeProjectRemoval(scene.project)
        assert.deepStrictEqual(
          [...paths, ...labels].filter((each) => each.includes(directory)),
          []
        )
        yield* admitDeletion(scene, paths)
        yield* removeProject(scene.project)
        assert.deepStrictEqual(treeOf(directory), before)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "SP-DEL-07 a snapshot copies it; a restore puts the copy on a disk of its own and leaves it",
      () =>
        Effect.gen(function* () {
          const directory = yield* hostDirectory
          const before = treeOf(directory)
          const scene = yield* provisionOn(directory)
          assert.strictEqual((yield* Effect.flatMap(ask(scene, "snapshot"), settled)).state, "succeeded")
          const [copy] = yield* (yield* SnapshotRows).ofProject(scene.project)
          assert.strictEqual(readFileSync(join(copy!.path, "src", "main.c"), "utf8"), "int main;")
          assert.strictEqual((yield* Effect.flatMap(ask(scene, "restore"), settled)).state, "succeeded")
          const { adoptedDisk, disks } = yield* machineOf(scene)
          assert.isUndefined(adoptedDisk)
          assert.strictEqual(readFileSync(join(disks[0]!, "src", "main.c"), "utf8"), "int main;")
          assert.deepStrictEqual(treeOf(directory), before)
          const { paths } = yield* describeProjectRemoval(scene.project)
          yield* admitDeletion(scene, paths)
          yield* removeProject(scene.project)
          assert.isFalse(existsSync(disks[0]!))
          assert.deepStrictEqual(treeOf(directory), before)
        }).pipe(Effect.scoped)
    )

    const forms: ReadonlyArray<readonly [string, Admit]> = [
      ["one statement", admitOperation],
      ["step by step", admitOperationStepwise]
    ]
    for (const [form, admit] of forms) {
      it.effect(`SP-ADM-04 only administrators adopt, by the account's row too: ${form}`, () =>
        Effect.gen(function* () {
          const scene = yield* newProject
          const member = new Caller({ ...scene.caller, administrator: false })
          const refused = yield* Effect.flip(admit(member, adopting(scene, "/srv/site")))
          assert.deepInclude(refused, { code: "invalid_parameters", field: "adoptDisk" })
          assert.include(refused.message, "administrators")

          const { admin } = yield* Clone
          const demote = (isAdministrator: boolean) =>
            admin("update core.accounts set administrator = $2 where id = $1::uuid", [
              scene.caller.account,
              isAdministrator
            ])
          yield* demote(false)
          const revoked = yield* Effect.flip(admit(scene.caller, adopting(scene, "/srv/site")))
          yield* demote(true)
          assert.strictEqual(revoked._tag, "AccessRefused")
          assert.deepStrictEqual(
            yield* (yield* OperationStore).newestOfProject(scene.project, { limit: 9 }),
            []
          )
        })
      )
    }
  })
})
