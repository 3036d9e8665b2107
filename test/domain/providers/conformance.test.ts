/** The conformance checks against the plugins that ship as examples, in processes of their own: whole, and with faults. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { ProviderPluginId } from "../../../src/domain/Identity.ts"
import { checkProvider, type CheckReport } from "../../../src/domain/providers/conformance.ts"
import { ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"
import { readPluginFolder } from "../../../src/infra/providers/pluginFolder.ts"
import { layer as workers, WorkerKeeping } from "../../../src/infra/providers/ProviderWorkers.ts"
import { waitFor } from "../../support/waiting.ts"

const examples = Path.resolve(import.meta.dirname, "../../../examples/provider-plugins")
const plugin = ProviderPluginId.make("00000000-0000-4000-8000-0000000000a1")
const secret = "canary-in-the-configuration"

const folder = Effect.acquireRelease(
  Effect.sync(() => Files.mkdtempSync(Path.join(Os.tmpdir(), "hf-conform-"))),
  (path) => Effect.sync(() => Files.rmSync(path, { recursive: true, force: true }))
)

/** Every check on the plugin of that name; `faults` are those of the scripted one. */
const checked = Effect.fnUntraced(function* (name: string, faults: object = {}) {
  const stateDirectory = yield* folder
  Files.writeFileSync(Path.join(stateDirectory, "faults.json"), JSON.stringify(faults))
  const { files, manifest } = yield* readPluginFolder(Path.join(examples, name))
  const manager = (yield* ProviderWorkers)!
  const { keep } = yield* WorkerKeeping
  yield* keep([{ plugin, files }])
  yield* Effect.addFinalizer(() => keep([]))
  yield* waitFor({
    fact: "the worker runs",
    look: Effect.sync(() => manager.isRunning(plugin)),
    holds: (runs) => runs,
    deadlineMillis: 20_000
  })
  const reports = yield* checkProvider({
    manager,
    plugin,
    entry: manifest.environmentDrivers![0]!,
    config: { stateDirectory, apiKey: secret },
    secrets: [secret],
    installation: "conformance",
    tenant: randomUUID(),
    environment: randomUUID(),
    uuid: Effect.sync(() => randomUUID())
  })
  return { reports, stateDirectory }
})

const notPassed = (reports: ReadonlyArray<CheckReport>) =>
  reports
    .filter(({ outcome }) => outcome._tag !== "Passed")
    .map(({ check, outcome }) => [check, outcome._tag])

const names = {
  again: "a destroyed resource can be destroyed again",
  two: "two creations are two resources",
  stop: "a stop is answered with a receipt that names the resource, also the second time",
  resume: "a resource that is there is resumed, and one that is gone is said to be gone",
  output: "a command's output and its end are told apart",
  same: "FC-04 the same creation again is the same resource",
  list: "BX-03 a resource is listed under its installation's label, under no other, and no longer once it is destroyed",
  secret: "FC-21 no answer has a secret of the config in it"
}

const lie = (receipt: unknown) => [{ fault: "lie", receipt }]
const nothing = { fault: "none" }

layer(workers({ installation: "conformance" }), { excludeTestServices: true, timeout: 60_000 })(
  "providers/conformance",
  (it) => {
    it.effect(
      "BX-06 the plugin that carries bubblewrap guests passes every check and leaves nothing behind",
      () =>
        Effect.gen(function* () {
          const { reports, stateDirectory } = yield* checked("bubblewrap")
          assert.deepStrictEqual(notPassed(reports), [])
          assert.isAtLeast(reports.length, 11)
          assert.deepStrictEqual(Files.readdirSync(Path.join(stateDirectory, "leases")), [])
        })
    )

    it.effect("BX-06 the scripted plugin passes every check while its script has no fault", () =>
      Effect.gen(function* () {
        const { reports, stateDirectory } = yield* checked("scripted")
        assert.deepStrictEqual(notPassed(reports), [])
        assert.deepStrictEqual(
          JSON.parse(Files.readFileSync(Path.join(stateDirectory, "resources.json"), "utf8")),
          {}
        )
      })
    )

    it.effect.each([
      ["a creation without an id", { environmentAcquireLease: lie({ metadata: {} }) }, names.two],
      [
        "one id for two creations",
        { environmentAcquireLease: [...lie({ providerLeaseId: "one" }), ...lie({ providerLeaseId: "one" })] },
        names.two
      ],
      [
        "a destruction of another resource",
        {
          environmentDestroyLease: [
            nothing,
            nothing,
            ...lie({ providerLeaseId: "other", state: "destroyed" })
          ]
        },
        names.again
      ],
      ["a stop that is a word of nothing", { environmentStopLease: lie({}) }, names.stop],
      [
        "a second stop that is refused",
        { environmentStopLease: [nothing, { fault: "status", status: 404 }] },
        names.stop
      ],
      ["a resume of another", { environmentResumeLease: lie({ providerLeaseId: "other" }) }, names.resume],
      [
        "output that is made up",
        { environmentExecute: lie({ exitCode: 0, stdout: "hello\n" }) },
        names.output
      ],
      [
        "a second resource for the same intent",
        // Two creations each by the five checks before it; then the first of its own.
        {
          environmentAcquireLease: [
            ...Array.from({ length: 6 }, () => nothing),
            ...lie({ providerLeaseId: "second" })
          ]
        },
        names.same
      ],
      ["a listing without it", { environmentListLeases: lie({ leases: [] }) }, names.list],
      [
        "a listing of everybody's",
        { environmentListLeases: [nothing, ...lie({ leases: [{ providerLeaseId: "x", intentName: "x" }] })] },
        names.list
      ],
      [
        "a secret in an answer",
        {
          environmentAcquireLease: lie({ providerLeaseId: "x", metadata: { apiKey: secret } })
        },
        names.secret
      ],
      ["a secret in an error", { environmentDestroyLease: [{ fault: "canary", text: secret }] }, names.secret]
    ] as const)("BX-06 %s is found", ([, faults, check]) =>
      Effect.gen(function* () {
        const { reports } = yield* checked("scripted", faults)
        assert.deepInclude(notPassed(reports), [check, "Failed"])
        assert.isAtMost(notPassed(reports).length, check === names.secret ? 2 : 1)
        assert.notInclude(JSON.stringify(reports), secret)
      })
    )
  }
)
