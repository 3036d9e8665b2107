/** The built-in provider `node` over a real registry and real guests. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { EnvironmentId, RunId, TenantId } from "../../../src/domain/Identity.ts"
import type { BuiltInAcquisition } from "../../../src/domain/providers/BuiltInProviders.ts"
import { makeNodeProvider } from "../../../src/domain/providers/nodeProvider.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import * as Digests from "../../../src/infra/Digests.ts"
import * as WorkspaceArchives from "../../../src/infra/filesystem/WorkspaceArchives.ts"
import { ensureStateDirectory } from "../../../src/infra/filesystem/RegistryFiles.ts"
import * as Live from "../../../src/layers/live.ts"
import { failureOf } from "../../support/failures.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-nodes-"))),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

const node = Layer.unwrap(
  Effect.gen(function* () {
    const stateDirectory = Path.join(yield* folder, "state")
    yield* ensureStateDirectory(stateDirectory)
    return Live.machine({ stateDirectory, supervisor: "auto" }).pipe(
      Layer.provideMerge(
        Live.registry({
          stateDirectory,
          capacity: { sandboxes: 8, cpuMillis: 16_000, memoryBytes: 8 * 1024 ** 3 }
        })
      ),
      Layer.provideMerge(Layer.merge(Digests.layer, WorkspaceArchives.layer))
    )
  })
)

const asked = (changes: Partial<BuiltInAcquisition> = {}): BuiltInAcquisition => ({
  tenant: TenantId.make(randomUUID()),
  environment: EnvironmentId.make(randomUUID()),
  task: null,
  run: RunId.make(randomUUID()),
  config: { provider: "node", memoryBytes: 256 * 1024 ** 2 },
  intent: { name: `holdfast-${randomUUID()}`, installation: "here", generation: 1 },
  ...changes
})

const command = (providerLeaseId: string, script: string) => ({
  providerLeaseId,
  config: {},
  command: "sh",
  args: ["-c", script],
  cwd: null,
  env: { NAME: "value" }
})

layer(node, { excludeTestServices: true, timeout: 60_000 })("providers/nodeProvider", (it) => {
  it.effect("a lease's workspace is realized, commands run in its guest, and its end is proved", () =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const local = yield* folder
      Files.writeFileSync(Path.join(local, "given.txt"), "from outside")
      const lease = yield* provider.acquireLease(asked())
      assert.match(lease.expiresAt, /^\d{4}-\d\d-\d\dT/)
      const realized = yield* provider.realizeWorkspace({
        ...lease,
        localPath: local,
        mode: "shared_workspace"
      })
      assert.strictEqual(realized.cwd, "/workspace")
      const said: Array<string> = []
      const result = yield* provider.execute({
        ...command(lease.providerLeaseId, 'cat given.txt; echo "-$NAME" >&2; cat; exit 3'),
        stdin: "+typed",
        logSink: ({ stream, text }) => said.push(`${stream}:${text}`)
      })
      assert.deepStrictEqual(result, {
        exitCode: 3,
        signal: null,
        timedOut: false,
        stdout: "from outside+typed",
        stderr: "-value\n"
      })
      assert.include(said.join(" "), "stderr:-value")
      const late = yield* provider.execute({
        ...command(lease.providerLeaseId, "sleep 60"),
        timeoutMillis: 200
      })
      assert.isTrue(late.timedOut)
      assert.deepStrictEqual(yield* provider.destroyLease(lease), {
        providerLeaseId: lease.providerLeaseId,
        state: "destroyed"
      })
      assert.strictEqual((yield* (yield* Registry).charges).sandboxes, 0)
      // Again, and of one that never was: there is nothing, which is what was asked for.
      assert.deepInclude(yield* provider.destroyLease(lease), { state: "destroyed" })
    })
  )

  it.effect("FC-02 FC-04 the same intent is the same sandbox, and a lost answer is found by its label", () =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const wanted = asked()
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, () => provider.acquireLease(wanted)),
        {
          concurrency: "unbounded"
        }
      )
      assert.strictEqual(new Set(answers.map(({ providerLeaseId }) => providerLeaseId)).size, 1)
      assert.strictEqual((yield* (yield* Registry).charges).sandboxes, 1)
      assert.deepStrictEqual(yield* provider.listLeases("here"), [
        { providerLeaseId: answers[0]!.providerLeaseId, intentName: wanted.intent.name }
      ])
      assert.deepStrictEqual(yield* provider.listLeases("elsewhere"), [])
      const other = { ...wanted, config: { memoryBytes: 512 * 1024 ** 2 } }
      assert.deepInclude(failureOf(yield* Effect.exit(provider.acquireLease(other))), {
        _tag: "IdempotencyConflict"
      })
      yield* provider.destroyLease(answers[0]!)
      assert.deepStrictEqual(yield* provider.listLeases("here"), [])
    })
  )

  it.effect("a stopped lease runs nothing and is still listed; a release ends it", () =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const lease = yield* provider.acquireLease(asked())
      assert.deepStrictEqual(yield* provider.stopLease({ ...lease, cancelActiveWork: true }), {
        providerLeaseId: lease.providerLeaseId,
        state: "stopped"
      })
      assert.deepInclude(
        failureOf(yield* Effect.exit(provider.execute(command(lease.providerLeaseId, "true")))),
        {
          _tag: "GuestStateRefused"
        }
      )
      assert.lengthOf(yield* provider.listLeases("here"), 1)
      yield* provider.releaseLease(lease)
      assert.strictEqual((yield* (yield* Registry).charges).sandboxes, 0)
    })
  )

  it.effect("FC-13 a lease of another node is neither run nor said to be destroyed", () =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const foreign = { providerLeaseId: `node://${randomUUID()}/sb-${randomUUID()}` }
      for (const call of [
        provider.destroyLease(foreign),
        provider.stopLease({ ...foreign, cancelActiveWork: false }),
        provider.execute(command(foreign.providerLeaseId, "true"))
      ] as ReadonlyArray<Effect.Effect<unknown, Error>>) {
        assert.deepInclude(failureOf(yield* Effect.exit(call)), { _tag: "ResourceElsewhere" })
      }
    })
  )

  it.effect.each([
    ["memoryBytes", "much"],
    ["image", 3],
    ["cpuMillis", 1.5]
  ] as const)("a config whose %s is none is refused before anything is charged", ([field, value]) =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const refused = yield* Effect.exit(provider.acquireLease(asked({ config: { [field]: value } })))
      assert.deepInclude(failureOf(refused), { _tag: "NodeConfigRefused" })
      assert.strictEqual((yield* (yield* Registry).charges).sandboxes, 0)
    })
  )

  it.effect("a workspace that is no directory is refused, and the guest stays", () =>
    Effect.gen(function* () {
      const provider = yield* makeNodeProvider
      const lease = yield* provider.acquireLease(asked())
      yield* Effect.addFinalizer(() => Effect.ignore(provider.destroyLease(lease)))
      const refused = yield* Effect.exit(
        provider.realizeWorkspace({ ...lease, localPath: "/nowhere/at/all", mode: "shared_workspace" })
      )
      assert.deepInclude(failureOf(refused), { _tag: "WorkspaceUnpackable", why: "absent" })
    })
  )
})
