/** A Project that owes as many machines as it may: each is proved absent, by itself, and nothing is left of any. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { Generation, SandboxId } from "../../../src/domain/Identity.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { machineOf } from "../../../src/domain/operations/Operation.ts"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { describeProjectRemoval } from "../../../src/domain/removal/inspection.ts"
import { removeProject } from "../../../src/domain/removal/removal.ts"
import { Disks } from "../../../src/domain/runtimes/Disks.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"
import { Clone } from "../../support/clone.ts"
import { admitDeletion, fixture, provisioned, requestOf, type Scene, Scripted } from "./fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const
const machines = 250

/** A machine that a failed request of before has made, and that its receipt still owes. Every third one runs. */
const owedMachine = (scene: Scene, number: number) =>
  Effect.gen(function* () {
    const disks = yield* Disks
    const { node } = yield* Registry
    const { admin } = yield* Clone
    const digits = String(number).padStart(12, "0")
    const recipe = new MachineRecipe({
      supervisor: "auto",
      image: "host",
      cpuMillis: 100,
      memoryBytes: 128 * 1024 ** 2,
      processesMax: 64,
      node,
      sandbox: SandboxId.make(`sb-00000000-0000-4000-8000-${digits}`),
      generation: Generation.make(1),
      disks: [disks.pathOf(scene.project, `00000000-0000-4000-9000-${digits}`)]
    })
    yield* Effect.forEach(recipe.disks, disks.ensure, { discard: true })
    yield* createSandbox({
      id: recipe.sandbox,
      generation: recipe.generation,
      image: recipe.image,
      argv: [],
      environment: {},
      metadata: { project: String(scene.project) },
      cpuMillis: recipe.cpuMillis,
      memoryBytes: recipe.memoryBytes,
      processesMax: recipe.processesMax,
      disk: recipe.disks[0] ?? null,
      lifeSeconds: 3_600
    })
    if (number % 3 === 0) yield* startSandbox(recipe.sandbox)
    yield* admin(
      `insert into plugin_sandbox.runtime_operations
        (id, project_id, initiator, action, request_key, generation, state, settled_at, error_code, new_recipe, owed)
        values (gen_random_uuid(), $1::bigint, 'user', 'provision', $2::text, 1, 'failed', now(), 'broken', $3::jsonb,
          array[$4::text])`,
      [BigInt(scene.project), `earlier-${number}`, JSON.stringify({ ...recipe }), machineOf(recipe)]
    )
    return recipe
  })

layer(fixture, live)("removal of many machines", (it) => {
  it.effect(
    `FC-14 SP-DEL-11 a Project of ${machines} machines goes with as many proofs, and nothing asked for meanwhile is begun`,
    () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const registry = yield* Registry
        const { guests } = yield* Scripted
        const recipes = [
          scene.operation.newRecipe!,
          ...(yield* Effect.forEach(
            Array.from({ length: machines - 1 }, (_, index) => index + 1),
            (number) => owedMachine(scene, number)
          ))
        ]
        const sandboxes = recipes.map(({ sandbox }) => sandbox)
        const held = yield* registry.inventory
        assert.isTrue(sandboxes.every((sandbox) => held.has(sandbox)))
        const { labels, paths } = yield* describeProjectRemoval(scene.project)
        assert.deepStrictEqual([...labels], sandboxes.toSorted())
        yield* admitDeletion(scene, paths)
        const refused = yield* Effect.flip(
          admitOperation(scene.caller, requestOf(scene.project, "provision"))
        )
        assert.strictEqual(refused._tag, "ProjectNotActive")
        const { proofs } = yield* removeProject(scene.project)
        assert.lengthOf(new Set(proofs), machines)
        for (const sandbox of sandboxes) {
          assert.isTrue(
            proofs.some((proof) => proof.startsWith(`${sandbox} `)),
            sandbox
          )
        }
        const inventory = yield* registry.inventory
        assert.isFalse(sandboxes.some((sandbox) => inventory.has(sandbox)))
        assert.isFalse(sandboxes.some((sandbox) => guests.guests.get(sandbox)?.isAlive === true))
        assert.isFalse(recipes.some(({ disks }) => disks.some((disk) => existsSync(disk))))
        const { admin } = yield* Clone
        const owing = yield* admin(
          "select id from plugin_sandbox.runtime_operations where project_id = $1::bigint and owed <> '{}'",
          [BigInt(scene.project)]
        )
        assert.deepStrictEqual(owing, [])
      })
  )
})
