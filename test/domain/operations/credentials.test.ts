/**
 * Credentials of a launch: a canary in everything that could carry one, searched for in everything that the test made
 * the product write: every table, every file of the node, logs, spans, events, and what a caller is told.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { ExecutionEvent, GuestCommand } from "../../../src/domain/guests/GuestSpec.ts"
import { credentialsDiagnostic, LaunchCredentials } from "../../../src/domain/host/LaunchCredentials.ts"
import { admitOperation } from "../../../src/domain/operations/admission.ts"
import { runCommand } from "../../../src/domain/operations/runCommand.ts"
import { Clone } from "../../support/clone.ts"
import { fixture, provisioned, requestOf, type Scene, Scripted, settled } from "../removal/fixture.ts"

const live = { excludeTestServices: true, timeout: "60 seconds" } as const
const canary = "canary-7f3a9c51e2"

/** Everything that is said while the effect runs: logs with their causes, spans with their attributes. */
const overheard = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const words: Array<string> = []
  const logger = Logger.make(({ cause, message }) => {
    words.push(String(message), JSON.stringify(message), Cause.pretty(cause))
  })
  const native = yield* Effect.tracer
  const tracer = Tracer.make({
    span(options) {
      const span = native.span(options)
      words.push(options.name)
      const attribute = span.attribute.bind(span)
      span.attribute = (key, value) => {
        words.push(`${key}=${String(value)}`)
        attribute(key, value)
      }
      const end = span.end.bind(span)
      span.end = (time, exit) => {
        words.push(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : (JSON.stringify(exit) ?? ""))
        end(time, exit)
      }
      return span
    }
  })
  const exit = yield* Effect.exit(
    effect.pipe(Effect.provide(Logger.layer([logger])), Effect.withTracer(tracer))
  )
  return { exit, words: words.join("\n") }
})

/** Every row of every table of the host and of the plugin. */
const storedRows = Effect.gen(function* () {
  const { admin } = yield* Clone
  const tables = yield* admin(
    "select schemaname || '.' || tablename as name from pg_tables where schemaname in ('core', 'plugin_sandbox')"
  )
  const texts: Array<string> = []
  for (const { name } of tables) {
    const rows = yield* admin(`select to_jsonb(t)::text as row from ${String(name)} t`)
    texts.push(...rows.map(({ row }) => String(row)))
  }
  assert.isAbove(texts.length, 5)
  return texts.join("\n")
})

const storedFiles = Effect.map(Scripted, ({ directory }) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
    .join("\n")
)

const commandWith = (scene: Scene, environment: Readonly<Record<string, string>> = {}) =>
  runCommand(
    scene.caller,
    scene.project,
    new GuestCommand({
      argv: ["print"],
      environment,
      workingDirectory: "/workspace",
      standardInput: null,
      timeoutMillis: 60_000
    })
  )

const owning = (resolve: LaunchCredentials["Service"]["resolve"]) =>
  Effect.provideService(LaunchCredentials, LaunchCredentials.of({ resolve }))

const handing = owning(() => Effect.succeed([{ name: "TOKEN", value: Redacted.make(canary) }]))

const output = (stream: "stdout" | "stderr", text: string) =>
  ExecutionEvent.cases.Output.make({ stream, bytes: new TextEncoder().encode(text) })

const exited = ExecutionEvent.cases.Exited.make({ exitCode: 0, ended: "exited" })

/** The guest prints its token in pieces on both of its outputs, and ends in the middle of it. */
const printsToken = Effect.gen(function* () {
  const { guests } = yield* Scripted
  const seen: Array<GuestCommand> = []
  guests.commandScript = (_, command) =>
    Effect.sync(() => {
      seen.push(command)
      const token = command.environment["TOKEN"] ?? ""
      return [
        output("stdout", `token ${token.slice(0, 9)}`),
        output("stderr", `${token}${token.slice(0, 3)}`),
        output("stdout", `${token.slice(9)} end, and ${token.slice(0, 4)}`),
        exited
      ]
    })
  return seen
})

const failures: ReadonlyArray<readonly [what: string, failing: Effect.Effect<never, unknown>]> = [
  ["a text", Effect.fail(`no luck with ${canary}`)],
  ["an error with a cause", Effect.fail(new Error(canary, { cause: new Error(`https://x/?t=${canary}`) }))],
  ["a defect", Effect.die(new Error(`at ${canary}`))],
  [
    "something that is thrown",
    Effect.suspend(() => {
      throw new Error(canary)
    })
  ]
]

describe("credentials of a launch", () => {
  layer(
    fixture,
    live
  )((it) => {
    it.effect(
      "SP-TX-11 FC-21 a launch token is in the launch's environment, and in nothing that is written or told",
      () =>
        Effect.gen(function* () {
          const scene = yield* provisioned
          const seen = yield* printsToken
          const { exit, words } = yield* overheard(Stream.runCollect(commandWith(scene)).pipe(handing))
          assert.isTrue(Exit.isSuccess(exit))
          assert.strictEqual(seen[0]?.environment["TOKEN"], canary)
          const events = Exit.isSuccess(exit) ? exit.value : []
          const told = (stream: string) =>
            events
              .flatMap((event) => (event._tag === "Output" && event.stream === stream ? [event.bytes] : []))
              .map((bytes) => new TextDecoder().decode(bytes))
              .join("")
          assert.deepStrictEqual(
            [told("stdout"), told("stderr")],
            ["token [redacted] end, and cana", "[redacted]can"]
          )
          assert.strictEqual(events.at(-1)?._tag, "Exited")
          for (const written of [words, yield* storedRows, yield* storedFiles]) {
            assert.notInclude(written, canary)
          }
        })
    )

    it.effect("what the command asks for itself goes before what the host hands it", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const seen = yield* printsToken
        yield* Stream.runDrain(commandWith(scene, { TOKEN: "its own value", OTHER: "x" })).pipe(handing)
        assert.deepStrictEqual(seen[0]?.environment, { TOKEN: "its own value", OTHER: "x" })
      })
    )

    for (const [what, failing] of failures) {
      it.effect(
        `SP-TX-11 FC-21 an owner that fails with ${what} is told by one fixed sentence, and nothing is started`,
        () =>
          Effect.gen(function* () {
            const scene = yield* provisioned
            const seen = yield* printsToken
            const { exit, words } = yield* overheard(
              Stream.runDrain(commandWith(scene)).pipe(owning(() => failing))
            )
            assert.isTrue(Exit.isFailure(exit))
            const told = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
            assert.include(told, "could not be had, and nothing was started")
            assert.include(words, credentialsDiagnostic)
            for (const written of [told, words, yield* storedRows, yield* storedFiles]) {
              assert.notInclude(written, canary)
            }
            assert.deepStrictEqual(seen, [])
          })
      )
    }

    it.effect("SP-TX-10 credentials are resolved with no transaction open", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        yield* printsToken
        const { admin } = yield* Clone
        let open: unknown = "not asked"
        const looking = owning(() =>
          Effect.gen(function* () {
            const [row] = yield* admin(
              "select count(*)::int as open from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
            )
            open = row?.["open"]
            return []
          })
        )
        yield* Stream.runDrain(commandWith(scene)).pipe(looking)
        assert.strictEqual(open, 0)
      })
    )

    it.effect("FC-21 a guest's own words are on no receipt, and in no row", () =>
      Effect.gen(function* () {
        const scene = yield* provisioned
        const { guests } = yield* Scripted
        guests.commandScript = () => Effect.succeed([output("stderr", canary), { ...exited, exitCode: 3 }])
        const { operation } = yield* admitOperation(scene.caller, requestOf(scene.project, "restart"))
        const failed = yield* settled(operation)
        assert.strictEqual(failed.errorCode, "workspace_not_writable")
        assert.notInclude(JSON.stringify(failed), canary)
        assert.notInclude(yield* storedRows, canary)
      })
    )
  })
})
