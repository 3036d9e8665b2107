/**
 * A worker manager that does as a test says and writes down every call with the arguments that it really had: their
 * number counts too. What it is told may be changed between two steps of a test. Source: RL section 3.3.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ProviderPluginId } from "../../../src/domain/Identity.ts"
import type { JsonObject } from "../../../src/domain/Json.ts"
import { type ProviderWorkerManager, ProviderWorkers } from "../../../src/domain/providers/ProviderWorkers.ts"

/** One call. `given` is its real argument list, as a spy on rest arguments sees it. */
export interface RecordedCall {
  readonly plugin: ProviderPluginId
  readonly method: string
  readonly params: JsonObject
  readonly given: ReadonlyArray<unknown>
}

export interface WorkerScript {
  /** By the number of the check, from 1. */
  isRunning: (plugin: ProviderPluginId, check: number) => boolean
  /** Supported methods by the number of the read, from 1; null is a manager without discovery. */
  methods: ((plugin: ProviderPluginId, read: number) => ReadonlyArray<string> | undefined) | null
  call: (call: RecordedCall) => Effect.Effect<unknown, Error>
}

export const lifecycleMethods: ReadonlyArray<string> = [
  "environmentAcquireLease",
  "environmentResumeLease",
  "environmentReleaseLease",
  "environmentStopLease",
  "environmentDestroyLease",
  "environmentRealizeWorkspace",
  "environmentExecute"
]

const pluginOf = (given: ReadonlyArray<unknown>): ProviderPluginId => given[0] as ProviderPluginId

/** Runs always, lists all lifecycle methods and answers undefined, unless told otherwise. */
export const scriptedWorkers = (told: Partial<WorkerScript> = {}) => {
  const script: WorkerScript = {
    isRunning: () => true,
    methods: () => lifecycleMethods,
    call: () => Effect.succeed(undefined),
    ...told
  }
  const calls: Array<RecordedCall> = []
  const counts = { checks: 0, reads: 0 }
  const getWorker: NonNullable<ProviderWorkerManager["getWorker"]> = (plugin) => {
    counts.reads += 1
    const supportedMethods = script.methods?.(plugin, counts.reads)
    return supportedMethods === undefined ? undefined : { supportedMethods }
  }
  const base: ProviderWorkerManager = {
    isRunning: (plugin) => {
      counts.checks += 1
      return script.isRunning(plugin, counts.checks)
    },
    call: (...given) =>
      Effect.suspend(() => {
        const call = { plugin: pluginOf(given), method: given[1], params: given[2], given }
        calls.push(call)
        return script.call(call)
      })
  }
  /** The member itself is absent where there is no discovery: it is asked for at each use. */
  const manager = new Proxy(base, {
    get: (target, name, receiver) =>
      name === "getWorker" && script.methods !== null ? getWorker : Reflect.get(target, name, receiver),
    has: (target, name) => (name === "getWorker" ? script.methods !== null : Reflect.has(target, name))
  })
  return {
    script,
    calls,
    counts,
    manager,
    layer: Layer.succeed(ProviderWorkers, manager),
    methods: () => calls.map(({ method }) => method),
    callsOf: (method: string) => calls.filter((call) => call.method === method),
    /** Forgets what was called and counted; what it was told stays. */
    reset: () => {
      calls.length = 0
      Object.assign(counts, { checks: 0, reads: 0 })
    }
  }
}

/** Methods that answer what stands here: a value, an error to fail with, or a function of the call. */
export type Answers = Readonly<
  Record<string, Error | ((call: RecordedCall) => unknown) | JsonObject | undefined>
>

/** A script of fixed answers; a method that is not in it answers undefined. */
export const answering =
  (answers: Answers): WorkerScript["call"] =>
  (call) => {
    const answer = answers[call.method]
    const given = typeof answer === "function" ? answer(call) : answer
    if (given instanceof Error) return Effect.fail(given)
    return Effect.isEffect(given) ? (given as Effect.Effect<unknown, Error>) : Effect.succeed(given)
  }

/** The receipt that a method gives for exactly the lease that it was asked about. */
export const receiptOf =
  (state: "stopped" | "destroyed") =>
  ({ params }: RecordedCall): JsonObject => ({ providerLeaseId: params["providerLeaseId"], state })
