/**
 * Which supervisor carries the guests of this machine, decided from what was asked and what the probe found. Pure;
 * probing is the adapter's part. A weaker supervisor than asked for is never taken silently.
 */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type GuestCapabilities, SupervisorKind } from "./GuestSpec.ts"

/** The supervisors that isolate, the strongest first. The scripted one carries no guest and is never chosen by itself. */
export const supervisorsByStrength = [
  "bubblewrap",
  "unshare"
] as const satisfies ReadonlyArray<SupervisorKind>

/** Result of one real run of a supervisor on this machine. `why` is a sentence for the operator. */
export type ProbeResult = Data.TaggedEnum<{
  Works: { readonly capabilities: GuestCapabilities }
  Fails: { readonly kind: SupervisorKind; readonly why: string }
}>
export const ProbeResult = Data.taggedEnum<ProbeResult>()

/** The chosen supervisor, and for each stronger one why it was not taken. */
export interface SupervisorChoice {
  readonly capabilities: GuestCapabilities
  readonly passedOver: ReadonlyArray<{ readonly kind: SupervisorKind; readonly why: string }>
}

/** What was asked for is no supervisor of this product. */
export class UnknownSupervisor extends Schema.TaggedError<UnknownSupervisor>()("UnknownSupervisor", {
  asked: Schema.String
}) {
  readonly code = "unknown_supervisor"
  override get message(): string {
    return `there is no supervisor "${this.asked}": ask for auto, ${SupervisorKind.literals.join(", ")}`
  }
}

/** The supervisor is known and does not work on this machine. */
export class SupervisorUnavailable extends Schema.TaggedError<SupervisorUnavailable>()(
  "SupervisorUnavailable",
  { asked: Schema.String, why: Schema.String }
) {
  readonly code = "supervisor_unavailable"
  override get message(): string {
    return `the supervisor ${this.asked} is not available here: ${this.why}`
  }
}

const isKind = Schema.is(SupervisorKind)

/**
 * Reads what a user asked for. Refuses a name that is none of ours, and lists ours. The answer is still only a wish:
 * `chooseSupervisor` holds it against the probe.
 */
export const readSupervisorKind = (
  asked: string
): Result.Result<"auto" | SupervisorKind, UnknownSupervisor> =>
  asked === "auto" || isKind(asked) ? Result.succeed(asked) : Result.fail(new UnknownSupervisor({ asked }))

const reasonOf = (results: ReadonlyArray<ProbeResult>, kind: SupervisorKind): string => {
  for (const result of results) {
    if (result._tag === "Fails" && result.kind === kind) return result.why
  }
  return "it was not probed"
}

const workingOf = (
  results: ReadonlyArray<ProbeResult>,
  kind: SupervisorKind
): GuestCapabilities | undefined => {
  for (const result of results) {
    if (result._tag === "Works" && result.capabilities.supervisor === kind) return result.capabilities
  }
  return undefined
}

/**
 * Chooses among the probed supervisors: the asked one or none; with `auto` the strongest that works, keeping the
 * reason of each stronger one that does not.
 */
export const chooseSupervisor = (
  asked: string,
  results: ReadonlyArray<ProbeResult>
): Result.Result<SupervisorChoice, UnknownSupervisor | SupervisorUnavailable> => {
  const kind = readSupervisorKind(asked)
  if (Result.isFailure(kind)) return Result.fail(kind.failure)
  const wished: ReadonlyArray<SupervisorKind> =
    kind.success === "auto" ? supervisorsByStrength : [kind.success]
  const passedOver: Array<{ readonly kind: SupervisorKind; readonly why: string }> = []
  for (const candidate of wished) {
    const capabilities = workingOf(results, candidate)
    if (capabilities !== undefined) return Result.succeed({ capabilities, passedOver })
    passedOver.push({ kind: candidate, why: reasonOf(results, candidate) })
  }
  return Result.fail(
    new SupervisorUnavailable({
      asked,
      why: passedOver.map((each) => `${each.kind}: ${each.why}`).join("; ")
    })
  )
}
