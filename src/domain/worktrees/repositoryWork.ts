/**
 * Work of git on one repository of a Project, in its guest: under the claim of the repository and under an execution
 * lease, both held from before git begins until its processes are known to have ended. Source: SP-ADM-05, SP-LEASE-07.
 *
 *     workOnRepository ─ claim ─> underLease ─ tx: Project, access, runtime, lease, intent ─> run ─> outcome
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { worktreeAnswerBytesMax, worktreeStepMillisMax } from "../Bounds.ts"
import { type ExecutionEvent, GuestCommand } from "../guests/GuestSpec.ts"
import { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Asker } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { makeCommandEnd } from "../leases/commandEnd.ts"
import { admitExecution, type LeaseHandle } from "../leases/execution.ts"
import {
  ExecutionEvidence,
  type GuestPlace,
  labelOfCommand,
  LeaseLost,
  RuntimeNotRunning
} from "../leases/Lease.ts"
import { claimRepository, type RepositoryHandle } from "../leases/repository.ts"
import type { RepositoryName } from "../leases/RepositoryClaim.ts"
import type { PluginTx } from "../persistence/PluginDb.ts"
import { observeStep } from "../registry/observeStep.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { gitEnvironment } from "./gitScripts.ts"

/** A repository that this process works on. */
export interface RepositoryWork {
  readonly claim: RepositoryHandle
  readonly project: ProjectId
  readonly repository: RepositoryName
  /** Whether everything that was begun in the guest is known to have ended: else nobody works on, and the claim stays. */
  isOver: boolean
}

/** What a script answered; its output is cut at `worktreeAnswerBytesMax`. */
export interface ScriptAnswer {
  readonly exitCode: number
  readonly output: string
}

const label = labelOfCommand(["git"])

/** The machine that carries the repository now. */
const runningPlace = Effect.fnUntraced(function* (project: ProjectId) {
  const runtime = Option.getOrUndefined(yield* (yield* RuntimeStore).runtime(project))
  if (runtime?.observed !== "running" || runtime.sandbox === null) {
    return yield* new RuntimeNotRunning({ project, state: runtime?.observed ?? "unprovisioned" })
  }
  const place: GuestPlace = { sandbox: runtime.sandbox, generation: runtime.generation }
  return place
})

const releasedLater = (what: string) => (failure: { readonly message: string }) =>
  Effect.logWarning(`${what} is settled by a later heartbeat: ${failure.message}`)

/**
 * Claims the repository and runs `use` with it. Refused with `RuntimeNotRunning` and with what `claimRepository` refuses.
 * The claim is given up at the end, unless something of it may still go on in the guest.
 */
export const workOnRepository = Effect.fn("worktrees.workOnRepository")(function* <A, E, R>(
  request: {
    readonly project: ProjectId
    readonly repository: RepositoryName
    readonly waitMillis?: number
  },
  use: (work: RepositoryWork) => Effect.Effect<A, E, R>
) {
  const { project, repository } = request
  const claim = yield* claimRepository({ ...request, ...(yield* runningPlace(project)) })
  const work: RepositoryWork = { claim, project, repository, isOver: true }
  const ended = Option.some(ExecutionEvidence.cases.NeverStarted.make({}))
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => claim.finalize(work.isOver ? ended : Option.none())).pipe(
      Effect.catch(releasedLater(`the claim of repository ${repository}`))
    )
  )
  return yield* use(work)
}, Effect.scoped)

const decode = (events: ReadonlyArray<ExecutionEvent>): string => {
  const decoder = new TextDecoder()
  const text = events
    .flatMap((event) => (event._tag === "Output" && event.stream === "stdout" ? [event.bytes] : []))
    .map((bytes) => decoder.decode(bytes, { stream: true }))
    .join("")
  return text.trim()
}

/** A script in the guest of the lease, under the name of its step and with words of its own. */
export type RunScript = (
  step: "look" | "add" | "check" | "remove",
  script: string,
  words: ReadonlyArray<string>
) => Effect.Effect<ScriptAnswer, Effect.Error<ReturnType<typeof runOnce>>, GuestSupervisor>

const commandOf = (script: string, words: ReadonlyArray<string>): GuestCommand =>
  new GuestCommand({
    argv: ["sh", "-c", script, "git", ...words],
    environment: gitEnvironment,
    workingDirectory: "/workspace",
    standardInput: null,
    timeoutMillis: worktreeStepMillisMax
  })

/** Both are still ours: asked right before something is begun, and before its outcome is written. Source: SP-LEASE-07. */
const confirmBoth = ({ claim }: RepositoryWork, lease: LeaseHandle) =>
  Effect.andThen(claim.confirm, lease.confirm)

const runOnce = Effect.fnUntraced(function* (
  work: RepositoryWork,
  held: { readonly lease: LeaseHandle; readonly end: ReturnType<typeof makeCommandEnd> },
  command: GuestCommand
) {
  const { end, lease } = held
  const supervisor = yield* GuestSupervisor
  yield* confirmBoth(work, lease)
  let bytes = 0
  const events = yield* supervisor.execute(lease.sandbox, command).pipe(
    end.follow,
    Stream.interruptWhen(lease.cancelRequested),
    Stream.filter((event) => {
      if (event._tag === "Output") bytes += event.bytes.length
      return event._tag === "Exited" || bytes <= worktreeAnswerBytesMax
    }),
    Stream.runCollect
  )
  const last = events.at(-1)
  if (last?._tag !== "Exited") return yield* new LeaseLost({ lease: lease.lease.id, reason: "cancelled" })
  yield* confirmBoth(work, lease)
  return { exitCode: last.exitCode, output: decode(events) } satisfies ScriptAnswer
})

/**
 * Admits an execution with the intent that `intend` writes, and runs `use` with what that answers. Refused with what
 * `admitExecution` and `intend` refuse, and with `LeaseLost` where the machine is another one than the claim's.
 */
export const underLease = Effect.fn("worktrees.underLease")(function* <I, E, A, E2, R>(
  work: RepositoryWork,
  asked: { readonly asker: Asker; readonly intend: Effect.Effect<I, E, PluginTx> },
  use: (intended: I, run: RunScript) => Effect.Effect<A, E2, R>
) {
  const { claim } = work.claim
  let intended: Option.Option<I> = Option.none()
  const withLease = Effect.fnUntraced(function* ({ generation, sandbox }: GuestPlace) {
    if (generation !== claim.generation || sandbox !== claim.sandbox) {
      return yield* new LeaseLost({ lease: claim.id, reason: "generation" })
    }
    intended = Option.some(yield* asked.intend)
  })
  const lease = yield* admitExecution(asked.asker, { project: work.project, label }, withLease)
  const end = makeCommandEnd()
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      const evidence = end.evidence()
      if (Option.isNone(evidence)) work.isOver = false
      return lease.finalize(evidence)
    }).pipe(Effect.catch(releasedLater(`lease ${lease.lease.id}`)))
  )
  const run: RunScript = (step, script, words) =>
    observeStep("worktrees", step, runOnce(work, { lease, end }, commandOf(script, words)))
  if (Option.isNone(intended)) return yield* Effect.die(new Error("a lease was admitted without its intent"))
  return yield* use(intended.value, run)
}, Effect.scoped)
