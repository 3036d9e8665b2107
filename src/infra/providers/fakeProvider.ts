/**
 * The built-in provider `fake`: sandboxes that exist in this process's memory alone, for tests, for trying things out, and
 * for consumers who prove their own programs against it. It keeps the contract of a good provider; what goes wrong is told
 * by its script, call by call. A released sandbox is gone, a stopped one is kept. A process that has started anew knows
 * none of the former ones, and takes them for gone.
 *
 *     const fake = makeFakeProvider()
 *     fake.script("stop", () => Effect.fail(new Error("unavailable")))     the next stop throws
 *     fake.script("destroy", (real) => Effect.andThen(real, lostAnswer))   the next destroy is done, its answer lost
 *     fake.always("release", () => Effect.succeed({ … }))                  every release lies
 *     fake.withdrawStop()                                                  the provider has no stop at all
 *
 * A command is answered by the config's `commands`, which map a command line to what it prints and how it ends; any other
 * prints itself. Source: RL section 3.2, RL-ACQ-03, RL-STOP-09, RL-STOP-10, BX-06.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { fakeCallsKeptMax, fakeSandboxesMax } from "../../domain/Bounds.ts"
import type { RunId } from "../../domain/Identity.ts"
import type { JsonObject } from "../../domain/Json.ts"
import type {
  BuiltInProvider,
  CommandResult,
  HeldResource,
  ProviderCommand
} from "../../domain/providers/BuiltInProviders.ts"

export const fakeProviderKey = "fake"

export type FakeVerb = "acquire" | "release" | "stop" | "destroy" | "realize" | "execute" | "list"

/** One call's way: given what the call would do, what is done and answered instead. The last word is the script's. */
export type FakeStep = (real: Effect.Effect<unknown, Error>) => Effect.Effect<unknown, Error>

export interface FakeCall {
  readonly verb: FakeVerb
  readonly asked: unknown
}

export interface FakeSandbox {
  readonly providerLeaseId: string
  readonly intentName: string
  readonly installation: string
  readonly run: RunId
  readonly state: "running" | "stopped"
}

/** The provider failed as a provider does: in its own words, which go to the caller and nowhere else. */
export class FakeProviderFailure extends Error {}

const workingDirectory = "/workspace"

const Answers = Schema.Record(
  Schema.String,
  Schema.Struct({
    exitCode: Schema.optionalKey(Schema.Int),
    stdout: Schema.optionalKey(Schema.String),
    stderr: Schema.optionalKey(Schema.String)
  })
)
const decodeAnswers = Schema.decodeUnknownOption(Answers)

const lineOf = ({ args, command }: ProviderCommand): string => [command, ...args].join(" ")

/** What the config says of the command; one that it does not know prints itself. */
const resultOf = (asked: ProviderCommand): CommandResult => {
  const answers = Option.getOrUndefined(decodeAnswers(asked.config["commands"])) ?? {}
  const line = lineOf(asked)
  const answer = Object.hasOwn(answers, line) ? answers[line] : undefined
  return {
    exitCode: answer?.exitCode ?? 0,
    signal: null,
    timedOut: false,
    stdout: answer === undefined ? `${line}\n` : (answer.stdout ?? ""),
    stderr: answer?.stderr ?? ""
  }
}

const report = (result: CommandResult, sink: ProviderCommand["logSink"]): void => {
  if (result.stdout !== "") sink?.({ stream: "stdout", text: result.stdout })
  if (result.stderr !== "") sink?.({ stream: "stderr", text: result.stderr })
}

/** The sandboxes of one provider. A name that was created already is the same sandbox. Source: BX-01, FC-04. */
const makeSandboxes = () => {
  const held = new Map<string, FakeSandbox>()
  const byName = new Map<string, FakeSandbox>()
  const create = (run: RunId, intentName: string, installation: string): FakeSandbox => {
    const name = JSON.stringify([installation, intentName])
    const existing = byName.get(name)
    if (existing !== undefined) return existing
    if (held.size >= fakeSandboxesMax) throw new FakeProviderFailure("there is no room for another sandbox")
    const providerLeaseId = `sandbox://${fakeProviderKey}/${run}/${randomUUID()}`
    const made = { providerLeaseId, intentName, installation, run, state: "running" } as const
    held.set(providerLeaseId, made)
    byName.set(name, made)
    return made
  }
  const remove = (providerLeaseId: string): void => {
    const found = held.get(providerLeaseId)
    if (found === undefined) return
    held.delete(providerLeaseId)
    byName.delete(JSON.stringify([found.installation, found.intentName]))
  }
  const stop = (providerLeaseId: string): void => {
    const found = held.get(providerLeaseId)
    if (found !== undefined) held.set(providerLeaseId, { ...found, state: "stopped" })
  }
  const requireRunning = (providerLeaseId: string): void => {
    if (held.get(providerLeaseId)?.state !== "running") {
      throw new FakeProviderFailure("no sandbox of that id is running")
    }
  }
  return { held, create, remove, stop, requireRunning }
}

const failureOf = (error: unknown): Error =>
  error instanceof Error ? error : new FakeProviderFailure("the script threw something that is no error")

const real = <A>(run: () => A): Effect.Effect<A, Error> => Effect.try({ try: run, catch: failureOf })

/** What is scripted, and what was asked: the newest `fakeCallsKeptMax` calls. */
const makeScript = () => {
  const calls: Array<FakeCall> = []
  const once = new Map<FakeVerb, Array<FakeStep>>()
  const always = new Map<FakeVerb, FakeStep>()
  const perform = <A>(verb: FakeVerb, asked: unknown, run: () => A): Effect.Effect<A, Error> =>
    Effect.suspend(() => {
      calls.push({ verb, asked })
      if (calls.length > fakeCallsKeptMax) calls.shift()
      const step = once.get(verb)?.shift() ?? always.get(verb)
      // A script may answer anything: what the port promises is what a good provider keeps, and callers check it.
      return step === undefined ? real(run) : (step(real(run)) as Effect.Effect<A, Error>)
    })
  return { calls, once, always, perform }
}

export interface FakeProvider {
  readonly provider: BuiltInProvider
  /** What was asked, the oldest first. */
  readonly calls: ReadonlyArray<FakeCall>
  /** The sandboxes that there are, in the order of their creation. */
  readonly sandboxes: () => ReadonlyArray<FakeSandbox>
  /** The next calls of the verb go these ways, one each. */
  readonly script: (verb: FakeVerb, ...steps: ReadonlyArray<FakeStep>) => void
  /** Every call of the verb that has no step of its own goes this way; null ends it. */
  readonly always: (verb: FakeVerb, step: FakeStep | null) => void
  /** From now on the provider has no `stopLease`, or has it again. */
  readonly withdrawStop: () => void
  readonly offerStop: () => void
}

type Sandboxes = ReturnType<typeof makeSandboxes>
type Perform = ReturnType<typeof makeScript>["perform"]

const makeVerbs = ({ create, held, remove, requireRunning, stop }: Sandboxes, perform: Perform) => ({
  acquireLease: ((asked) =>
    perform("acquire", asked, () => {
      const { providerLeaseId } = create(asked.run, asked.intent.name, asked.intent.installation)
      const metadata: JsonObject = { remoteCwd: workingDirectory }
      return { providerLeaseId, metadata }
    })) satisfies BuiltInProvider["acquireLease"],
  releaseLease: ((asked) =>
    perform("release", asked, () => {
      remove(asked.providerLeaseId)
      return { providerLeaseId: asked.providerLeaseId, state: "stopped" }
    })) satisfies BuiltInProvider["releaseLease"],
  destroyLease: ((asked) =>
    perform("destroy", asked, () => {
      remove(asked.providerLeaseId)
      return { providerLeaseId: asked.providerLeaseId, state: "destroyed" }
    })) satisfies BuiltInProvider["destroyLease"],
  stopLease: ((asked) =>
    perform("stop", asked, () => {
      stop(asked.providerLeaseId)
      return { providerLeaseId: asked.providerLeaseId, state: "stopped" }
    })) satisfies NonNullable<BuiltInProvider["stopLease"]>,
  realizeWorkspace: ((asked) =>
    perform("realize", asked, () => {
      const metadata: JsonObject = { provider: fakeProviderKey, remoteCwd: workingDirectory }
      return { cwd: workingDirectory, metadata }
    })) satisfies NonNullable<BuiltInProvider["realizeWorkspace"]>,
  execute: ((asked) =>
    perform("execute", asked, () => {
      requireRunning(asked.providerLeaseId)
      const result = resultOf(asked)
      report(result, asked.logSink)
      return result
    })) satisfies NonNullable<BuiltInProvider["execute"]>,
  listLeases: ((installation) =>
    perform("list", installation, (): ReadonlyArray<HeldResource> =>
      [...held.values()].filter((each) => each.installation === installation)
    )) satisfies NonNullable<BuiltInProvider["listLeases"]>
})

/** A provider of its own, with nothing in it. */
export const makeFakeProvider = (): FakeProvider => {
  const sandboxes = makeSandboxes()
  const { always, calls, once, perform } = makeScript()
  const { stopLease, ...verbs } = makeVerbs(sandboxes, perform)
  let canStop = true
  const provider: BuiltInProvider = {
    key: fakeProviderKey,
    ...verbs,
    // Asked anew each time, as a provider's abilities may change while rows of it are there.
    get stopLease() {
      return canStop ? stopLease : undefined
    }
  }
  return {
    provider,
    calls,
    sandboxes: () => [...sandboxes.held.values()],
    script: (verb, ...steps) => void once.set(verb, [...(once.get(verb) ?? []), ...steps]),
    always: (verb, step) => void (step === null ? always.delete(verb) : always.set(verb, step)),
    withdrawStop: () => void (canStop = false),
    offerStop: () => void (canStop = true)
  }
}
