/**
 * Brings what the database says of this node's runtimes to what the node knows: a guest that ended by itself, was
 * lost to a reboot or is still there after a restart. It takes no input and starts nothing; it only records what was
 * observed, under the generation it was asked about, and leaves alone what an operation is working on.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { reconcilePageRows, sandboxLifeSecondsMax } from "../Bounds.ts"
import type { SandboxRecord } from "../registry/Record.ts"
import { Registry } from "../registry/Registry.ts"
import { renewSandbox } from "../registry/renewal.ts"
import type { Runtime, RuntimeObserved } from "./Runtime.ts"
import { RuntimeStore } from "./RuntimeStore.ts"

/** What a runtime is observed as, and why, when its record says so; null where nothing can be said. */
export interface Verdict {
  readonly observed: RuntimeObserved
  readonly reason: string | null
}

/**
 * The runtime's state by its sandbox's record. States between two others say nothing: somebody is at work there.
 * A machine without a record is failed, and stays owed until its absence is proved.
 */
export const verdictOf = (record: SandboxRecord | undefined): Verdict | null => {
  if (record === undefined)
    return { observed: "failed", reason: "the node's registry has no record of its machine" }
  switch (record.status) {
    case "Running":
    case "Paused":
      return { observed: "running", reason: null }
    case "Terminated":
      return { observed: "stopped", reason: record.statusReason }
    case "Failed":
      return { observed: "failed", reason: record.statusReason }
    default:
      return null
  }
}

/** `starting` is one: its operation was taken back half way. `deleting` belongs to a deletion, which goes on. */
const correctable: ReadonlyArray<RuntimeObserved> = ["running", "stopped", "failed", "starting"]

const neverMade: Verdict = { observed: "failed", reason: "what was to make its machine was taken back" }

/** The correction that the row of a runtime needs that no operation is at, or null. */
export const correctionOf = (runtime: Runtime, record: SandboxRecord | undefined): Verdict | null => {
  if (!correctable.includes(runtime.observed)) return null
  if (runtime.sandbox === null) return runtime.observed === "starting" ? neverMade : null
  const verdict = verdictOf(record)
  return verdict === null || verdict.observed === runtime.observed ? null : verdict
}

/**
 * Whether the sandbox's life is half over. A runtime's machine lives as long as its Project wants it, and a sandbox at
 * most as long as the node lets any; so it is renewed while the node still hears of the runtime.
 */
export const isRenewalDue = (record: SandboxRecord, nowMillis: number): boolean =>
  record.deletion === null && record.expiresAtMillis - nowMillis < (sandboxLifeSecondsMax * 1_000) / 2

const renewWhereDue = Effect.fnUntraced(function* (record: SandboxRecord | undefined) {
  if (record === undefined || !isRenewalDue(record, yield* Clock.currentTimeMillis)) return
  const life = { lifeSeconds: sandboxLifeSecondsMax, lifeSecondsMax: sandboxLifeSecondsMax }
  yield* renewSandbox(record.id, life).pipe(
    // A deletion or the sandbox's own end got in first, or the registry has no room: the next pass looks again.
    Effect.catch((refusal) =>
      Effect.logWarning(`the life of a runtime's machine was not extended: ${refusal.message}`)
    )
  )
})

/**
 * One pass over the runtimes of this node that no operation is at; answers how many rows were corrected. The node is
 * asked after the rows were read, and a row that was written since is left as it is: its writer knew more.
 */
export const reconcileRuntimes = Effect.fn("runtimes.reconcile")(function* (
  isBusy: (project: Runtime["project"]) => boolean
) {
  const runtimes = yield* RuntimeStore
  const registry = yield* Registry
  let corrected = 0
  let after = 0
  for (;;) {
    const page = yield* runtimes.idlePage({ after, limit: reconcilePageRows })
    const inventory = yield* registry.inventory
    for (const runtime of page) {
      after = runtime.project
      const isElsewhere = runtime.recipe !== null && runtime.recipe.node !== registry.node
      if (isElsewhere || isBusy(runtime.project)) continue
      const sandbox = Option.fromNullishOr(runtime.sandbox)
      const record = Option.getOrUndefined(Option.map(sandbox, (id) => inventory.get(id)))
      yield* renewWhereDue(record)
      const correction = correctionOf(runtime, record)
      if (correction === null) continue
      const { generation, project, refreshEpoch } = runtime
      if (yield* runtimes.observe(project, { generation, refreshEpoch, ...correction })) corrected += 1
    }
    if (page.length < reconcilePageRows) return corrected
  }
})
