/**
 * An execution under its lease: admission, the handle, and the end. The lease stays durable from before the command
 * starts until there is evidence that its processes are gone. What runs in the guest is the caller's business.
 *
 *     admitExecution ─ tx: Project, access, runtime observed running, insert ─> handle ─> finalize(evidence)
 *     heartbeat.ts renews meanwhile; cancellation.ts writes the marker
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { projectLeasesMax } from "../Bounds.ts"
import { type AccessRefused, type Asker, HostAccounts } from "../host/Accounts.ts"
import { HostProjects, type ProjectNotActive } from "../host/Projects.ts"
import { Identifiers } from "../Identifiers.ts"
import { LeaseId, type ProjectId, type SandboxId } from "../Identity.ts"
import {
  PluginDb,
  type PluginTx,
  type StorageError,
  type StorageFailure,
  type TransactionEnded
} from "../persistence/PluginDb.ts"
import { awaitIntent, intendCancel, readCancellation } from "./cancellation.ts"
import { admittingExecution, type HeldExecution, HeldLeases } from "./HeldLeases.ts"
import {
  type CancelMarker,
  type ExecutionEvidence,
  type ExecutionLabel,
  Lease,
  LeaseLost,
  LeasesFull,
  RuntimeNotRunning
} from "./Lease.ts"
import { LeaseAdmission } from "./LeaseAdmission.ts"
import { LeaseStore, type SettledLease } from "./LeaseStore.ts"
import { isEnded, settle } from "./settlement.ts"

export interface ExecutionRequest {
  readonly project: ProjectId
  readonly label: ExecutionLabel
}

export type AdmissionRefused = ProjectNotActive | AccessRefused | RuntimeNotRunning | LeasesFull

/**
 * How an execution's lease ended. `retained`: no evidence, so the lease stays durable and renewed until the guest is
 * proved gone. `intentFailure`: the cancellation could not be written; the cleanup learns it here. Source: SP-LEASE-06.
 */
export interface Finalized {
  readonly outcome: SettledLease | "retained"
  readonly intentFailure: Option.Option<StorageFailure>
}

/** What is written with the lease: an intent that must not be there without it, nor it without the intent. */
export type WithLease<E> = (lease: Lease) => Effect.Effect<unknown, E, PluginTx>

/** What the holder of an execution lease works with. */
export interface LeaseHandle {
  readonly lease: Lease
  /** The guest to run in: the one that was the runtime's at admission. */
  readonly sandbox: SandboxId
  /** By this process's monotonic clock and the last heartbeats; costs nothing. Source: FC-11. */
  readonly isValid: Effect.Effect<boolean>
  /** Asks the table too. Called before anything is started in the guest. Source: SP-LEASE-07. */
  readonly confirm: Effect.Effect<void, LeaseLost | StorageFailure>
  /** Begins a cancellation and returns at once; its intent is written meanwhile. Source: SP-LEASE-05. */
  readonly requestCancel: Effect.Effect<void>
  /** Returns when a cancellation is known here, whoever asked for it. */
  readonly cancelRequested: Effect.Effect<void>
  /** Whether a cancellation is known here by now; costs nothing. */
  readonly isCancelled: Effect.Effect<boolean>
  /** Awaits the pending intent, then reads; a failed intent fails here. Source: SP-LEASE-05. */
  readonly cancellation: Effect.Effect<CancelMarker, StorageFailure>
  /**
   * Ends the lease on evidence; without evidence for this very execution it is retained. A cancelled one leaves its
   * tombstone. Where the database fails the heartbeat settles it later. Repeatable. Source: SP-LEASE-03, SP-LEASE-06.
   */
  readonly finalize: (evidence: Option.Option<ExecutionEvidence>) => Effect.Effect<Finalized, StorageFailure>
}

const admit = Effect.fnUntraced(function* <E>(
  asker: Asker,
  request: ExecutionRequest,
  {
    announce,
    withLease
  }: {
    readonly announce: { readonly id: LeaseId; readonly sentAtNanos: bigint }
    readonly withLease: WithLease<E>
  }
) {
  const projects = yield* HostProjects
  const accounts = yield* HostAccounts
  const admission = yield* LeaseAdmission
  const register = yield* HeldLeases
  yield* projects.requireActive(request.project)
  if (asker !== "system") yield* accounts.requireAccess(asker, request.project, "write")
  const runtime = Option.getOrUndefined(yield* admission.holdRuntime(request.project))
  if (runtime?.observed !== "running" || runtime.sandbox === null) {
    return yield* new RuntimeNotRunning({
      project: request.project,
      state: runtime?.observed ?? "unprovisioned"
    })
  }
  const lease = new Lease({
    id: announce.id,
    project: request.project,
    generation: runtime.generation,
    sandbox: runtime.sandbox,
    process: register.written,
    label: request.label
  })
  register.executions.announce(admittingExecution(lease, announce.sentAtNanos))
  if (!(yield* admission.insert(lease))) {
    return yield* new LeasesFull({ project: request.project, leasesMax: projectLeasesMax })
  }
  yield* withLease(lease)
})

const finalizeHeld = Effect.fn("leases.finalize")(function* (
  held: HeldExecution,
  evidence: Option.Option<ExecutionEvidence>
) {
  const intentFailure = yield* awaitIntent(held)
  if (!isEnded(held, evidence)) return { outcome: "retained", intentFailure } as const
  return { outcome: yield* settle(held), intentFailure }
}, Effect.uninterruptible)

/**
 * The end of the scope. A lease that never reached its holder is settled, whether or not its admission committed;
 * one whose holder said nothing is retained.
 */
const close = Effect.fnUntraced(function* (id: LeaseId) {
  const held = (yield* HeldLeases).executions.get(id)
  if (held === undefined) return
  if (held.phase === "admitting") held.phase = "settling"
  const ended = yield* finalizeHeld(held, Option.none()).pipe(Effect.option)
  if (Option.exists(ended, ({ outcome }) => outcome === "retained")) {
    yield* Effect.logWarning(
      `lease ${held.lease.id} of project ${held.lease.project} is kept: its execution is not known to have ended`
    )
  }
})

const makeHandle = Effect.fnUntraced(function* (held: HeldExecution) {
  const store = yield* LeaseStore
  const { executions } = yield* HeldLeases
  const context = yield* Effect.context<LeaseStore | HeldLeases>()
  const whyNot = Effect.map(Clock.monotonicTimeNanos, (now) => executions.whyInvalid(held, now))
  const confirm = Effect.gen(function* () {
    const reason = (yield* whyNot) ?? Option.getOrNull(yield* store.whyUnusable(held.lease))
    if (reason !== null) return yield* new LeaseLost({ lease: held.lease.id, reason })
  })
  const handle: LeaseHandle = {
    lease: held.lease,
    sandbox: held.sandbox,
    isValid: Effect.map(whyNot, (reason) => reason === null),
    confirm: confirm.pipe(Effect.withSpan("leases.confirm")),
    requestCancel: intendCancel(held).pipe(Effect.provideContext(context)),
    cancelRequested: held.cancelled.await,
    isCancelled: Effect.sync(() => held.cancel !== "none"),
    cancellation: readCancellation(held).pipe(Effect.provideContext(context)),
    finalize: (evidence) => finalizeHeld(held, evidence).pipe(Effect.provideContext(context))
  }
  return handle
})

const nothingMore: WithLease<never> = () => Effect.void

/**
 * Admits an execution and holds its lease until the scope ends or `finalize` is given evidence.
 * One transaction: the Project active, the caller's access, the runtime's row FOR SHARE and observed running, the
 * insert, and what `withLease` writes. Refused with `ProjectNotActive`, `AccessRefused`, `RuntimeNotRunning`,
 * `LeasesFull`, and with what `withLease` refuses. The system asks for no account. Source: SP-ADM-01, SP-ADM-04.
 */
export const admitExecution: <E = never>(
  asker: Asker,
  request: ExecutionRequest,
  withLease?: WithLease<E>
) => Effect.Effect<
  LeaseHandle,
  AdmissionRefused | StorageError | TransactionEnded | E,
  | Scope.Scope
  | PluginDb
  | HostProjects
  | HostAccounts
  | LeaseAdmission
  | LeaseStore
  | HeldLeases
  | Identifiers
> = Effect.fn("leases.admitExecution")(function* <E>(
  asker: Asker,
  request: ExecutionRequest,
  withLease: WithLease<E> = nothingMore
) {
  const db = yield* PluginDb
  const register = yield* HeldLeases
  const id = LeaseId.make(yield* (yield* Identifiers).uuid)
  const announce = { id, sentAtNanos: yield* Clock.monotonicTimeNanos }
  const admitting = db.transaction("leases.admitExecution", admit(asker, request, { announce, withLease }))
  return yield* Effect.uninterruptibleMask(
    Effect.fnUntraced(function* (restore) {
      // Before the transaction: whatever becomes of it, the scope's end leaves no row without a holder.
      yield* Effect.addFinalizer(() => close(id))
      yield* restore(admitting)
      const held = register.executions.admitted(id)
      if (held === undefined) return yield* Effect.die(new Error("an admitted lease is not in the register"))
      return yield* makeHandle(held)
    })
  )
})

/**
 * Runs `use` under an execution lease and ends the lease on the evidence that `use` answers. Where `use` fails or is
 * interrupted there is no evidence: the lease is retained, see `finalizeProvenGone`. Source: SP-LEASE-07.
 */
export const holdExecution = Effect.fn("leases.holdExecution")(function* <A, E, R>(
  asker: Asker,
  request: ExecutionRequest,
  use: (
    handle: LeaseHandle
  ) => Effect.Effect<readonly [value: A, evidence: Option.Option<ExecutionEvidence>], E, R>
) {
  const handle = yield* admitExecution(asker, request)
  const [value, evidence] = yield* use(handle)
  return { value, finalized: yield* handle.finalize(evidence) }
}, Effect.scoped)
