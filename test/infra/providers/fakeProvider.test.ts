import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { fakeCallsKeptMax } from "../../../src/domain/Bounds.ts"
import { EnvironmentId, RunId, TenantId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { BuiltInProviders } from "../../../src/domain/providers/BuiltInProviders.ts"
import type { LogSink } from "../../../src/domain/providers/ProviderWorkers.ts"
import { layer } from "../../../src/infra/providers/BuiltInProviders.ts"
import { type FakeProvider, makeFakeProvider } from "../../../src/infra/providers/fakeProvider.ts"

const run = RunId.make("00000000-0000-4000-8000-00000000000c")

const acquire = ({ provider }: FakeProvider, name: string, installation = "ours") =>
  provider.acquireLease({
    tenant: TenantId.make("00000000-0000-4000-8000-00000000000a"),
    environment: EnvironmentId.make("00000000-0000-4000-8000-00000000000b"),
    task: null,
    run,
    config: { image: "ubuntu:24.04" },
    intent: { name, installation, generation: 1 }
  })

const execute = (
  { provider }: FakeProvider,
  providerLeaseId: string,
  args: ReadonlyArray<string>,
  more: { readonly config?: JsonObject; readonly logSink?: LogSink } = {}
) =>
  provider.execute!({
    providerLeaseId,
    config: more.config ?? {},
    command: "sh",
    args,
    cwd: null,
    env: {},
    ...(more.logSink === undefined ? {} : { logSink: more.logSink })
  })

const stop = ({ provider }: FakeProvider, providerLeaseId: string) =>
  provider.stopLease!({ providerLeaseId, cancelActiveWork: true })

const held = (fake: FakeProvider): ReadonlyArray<string> => fake.sandboxes().map(({ state }) => state)

describe("providers/fakeProvider", () => {
  it.effect("a sandbox's id names the provider, the run and a uuid", () =>
    Effect.gen(function* () {
      const { providerLeaseId } = yield* acquire(makeFakeProvider(), "one")
      assert.match(providerLeaseId, new RegExp(`^sandbox://fake/${run}/[0-9a-f-]{36}$`))
    })
  )

  it.effect("a name that was created already is the same sandbox, within its installation", () =>
    Effect.gen(function* () {
      const fake = makeFakeProvider()
      const first = yield* acquire(fake, "one")
      assert.deepStrictEqual(yield* acquire(fake, "one"), first)
      assert.notStrictEqual((yield* acquire(fake, "one", "theirs")).providerLeaseId, first.providerLeaseId)
      yield* fake.provider.destroyLease(first)
      assert.notStrictEqual((yield* acquire(fake, "one")).providerLeaseId, first.providerLeaseId)
    })
  )

  it.effect("a listing holds the sandboxes of the asked installation, by name", () =>
    Effect.gen(function* () {
      const fake = makeFakeProvider()
      const ours = yield* acquire(fake, "one")
      yield* acquire(fake, "two", "theirs")
      const listed = yield* fake.provider.listLeases!("ours")
      assert.deepStrictEqual(
        listed.map(({ intentName, providerLeaseId }) => [intentName, providerLeaseId]),
        [["one", ours.providerLeaseId]]
      )
    })
  )

  it.effect(
    "release ends a sandbox, stop keeps it, destroy removes it; each says so by a receipt of its id",
    () =>
      Effect.gen(function* () {
        const fake = makeFakeProvider()
        const { providerLeaseId } = yield* acquire(fake, "one")
        assert.deepStrictEqual(yield* stop(fake, providerLeaseId), { providerLeaseId, state: "stopped" })
        assert.deepStrictEqual(held(fake), ["stopped"])
        assert.deepStrictEqual(yield* fake.provider.destroyLease({ providerLeaseId }), {
          providerLeaseId,
          state: "destroyed"
        })
        const other = yield* acquire(fake, "two")
        assert.deepInclude(yield* fake.provider.releaseLease(other), { state: "stopped" })
        assert.deepStrictEqual(held(fake), [])
        // One of a former process is gone, whatever is asked for it.
        const former = "sandbox://fake/former"
        assert.deepInclude(yield* stop(fake, former), { providerLeaseId: former, state: "stopped" })
        assert.deepInclude(yield* fake.provider.destroyLease({ providerLeaseId: former }), {
          state: "destroyed"
        })
      })
  )

  it.effect(
    "a command is answered by the config's commands, another prints itself, to the sink as well",
    () =>
      Effect.gen(function* () {
        const fake = makeFakeProvider()
        const { providerLeaseId } = yield* acquire(fake, "one")
        const said: Array<string> = []
        const logSink: LogSink = ({ stream, text }) => void said.push(`${stream}: ${text}`)
        const config = { commands: { "sh -c test": { exitCode: 3, stdout: "ran", stderr: "badly" } } }
        const scripted = yield* execute(fake, providerLeaseId, ["-c", "test"], { config, logSink })
        assert.deepStrictEqual(scripted, {
          exitCode: 3,
          signal: null,
          timedOut: false,
          stdout: "ran",
          stderr: "badly"
        })
        const echoed = yield* execute(fake, providerLeaseId, ["-c", "toString"], { config, logSink })
        assert.deepInclude(echoed, { exitCode: 0, stdout: "sh -c toString\n", stderr: "" })
        const inherited = fake.provider.execute!({
          providerLeaseId,
          config,
          command: "toString",
          args: [],
          cwd: null,
          env: {}
        })
        assert.deepInclude(yield* inherited, { stdout: "toString\n" })
        assert.deepStrictEqual(said, ["stdout: ran", "stderr: badly", "stdout: sh -c toString\n"])
      })
  )

  it.effect("a sandbox that is stopped, or was never there, executes nothing", () =>
    Effect.gen(function* () {
      const fake = makeFakeProvider()
      const { providerLeaseId } = yield* acquire(fake, "one")
      yield* stop(fake, providerLeaseId)
      for (const id of [providerLeaseId, "sandbox://fake/none"]) {
        assert.instanceOf(yield* Effect.flip(execute(fake, id, [])), Error)
      }
    })
  )

  it.effect("a workspace is realized at one place", () =>
    Effect.gen(function* () {
      const fake = makeFakeProvider()
      const { providerLeaseId } = yield* acquire(fake, "one")
      const realized = yield* fake.provider.realizeWorkspace!({
        providerLeaseId,
        localPath: "/tmp/x",
        mode: "ephemeral"
      })
      assert.deepStrictEqual(realized, {
        cwd: "/workspace",
        metadata: { provider: "fake", remoteCwd: "/workspace" }
      })
    })
  )

  it.effect(
    "a script decides call by call: an error, another receipt, a lost answer, and then the truth again",
    () =>
      Effect.gen(function* () {
        const fake = makeFakeProvider()
        const { providerLeaseId } = yield* acquire(fake, "one")
        const error = new Error("provider unavailable")
        const wrong = { providerLeaseId: "sandbox://fake/other", state: "stopped" }
        fake.script(
          "stop",
          () => Effect.fail(error),
          () => Effect.succeed(wrong)
        )
        fake.script("stop", (real) => Effect.andThen(real, Effect.fail(error)))
        assert.strictEqual(yield* Effect.flip(stop(fake, providerLeaseId)), error)
        assert.deepStrictEqual(yield* stop(fake, providerLeaseId), wrong)
        assert.deepStrictEqual(held(fake), ["running"])
        assert.strictEqual(yield* Effect.flip(stop(fake, providerLeaseId)), error)
        assert.deepStrictEqual(held(fake), ["stopped"])
        assert.deepInclude(yield* stop(fake, providerLeaseId), { providerLeaseId })
        fake.always("stop", () => Effect.undefined)
        assert.isUndefined(yield* stop(fake, providerLeaseId))
        assert.isUndefined(yield* stop(fake, providerLeaseId))
        fake.always("stop", null)
        assert.deepInclude(yield* stop(fake, providerLeaseId), { providerLeaseId })
        assert.deepStrictEqual(
          fake.calls.map(({ verb }) => verb),
          ["acquire", ...Array.from({ length: 7 }, () => "stop")]
        )
        assert.deepStrictEqual(fake.calls[1]?.asked, { providerLeaseId, cancelActiveWork: true })
      })
  )

  it.effect("a provider may have no stop, and get it later", () =>
    Effect.sync(() => {
      const fake = makeFakeProvider()
      fake.withdrawStop()
      assert.isUndefined(fake.provider.stopLease)
      fake.offerStop()
      assert.isDefined(fake.provider.stopLease)
    })
  )

  it.effect("it remembers the newest calls and no more than it may", () =>
    Effect.gen(function* () {
      const fake = makeFakeProvider()
      for (let at = 0; at < fakeCallsKeptMax; at += 1) yield* fake.provider.listLeases!("ours")
      yield* fake.provider.destroyLease({ providerLeaseId: "last" })
      assert.lengthOf(fake.calls, fakeCallsKeptMax)
      assert.strictEqual(fake.calls.at(-1)?.verb, "destroy")
    })
  )

  it.effect("a provider is found by its key; two of one key are refused", () =>
    Effect.gen(function* () {
      const { provider } = makeFakeProvider()
      const found = yield* Effect.provide(Effect.service(BuiltInProviders), layer([provider]))
      assert.strictEqual(found.find("fake"), provider)
      assert.isUndefined(found.find("other"))
      const twice = Effect.provide(Effect.service(BuiltInProviders), layer([provider, provider]))
      assert.strictEqual((yield* Effect.exit(twice))._tag, "Failure")
    })
  )
})
