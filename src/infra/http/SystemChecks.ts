/**
 * What the daemon can tell about itself and the machine that it runs on, as checks. The port is filled by whoever
 * composes the daemon; `layer` here looks at the registry, the database and the supervisor that was chosen.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { sweepSilentMillisMax, systemCheckMillisMax } from "../../domain/Bounds.ts"
import type { GuestCapabilities } from "../../domain/guests/GuestSpec.ts"
import { GuestSupervisor } from "../../domain/guests/GuestSupervisor.ts"
import { OperationStore } from "../../domain/operations/OperationStore.ts"
import { Registry } from "../../domain/registry/Registry.ts"
import { OrphanSpool } from "../../domain/runLeases/OrphanSpool.ts"
import { isWhollyFailed, reportText, type SweepReport, SweepReports } from "../../domain/SweepReports.ts"
import type { CheckView } from "./Views.ts"

export class SystemChecks extends Context.Service<
  SystemChecks,
  {
    readonly version: string
    readonly node: string
    /** Whether what every request needs answers now. */
    readonly health: Effect.Effect<ReadonlyArray<CheckView>>
    /** What the supervisor can do on this machine, as its probe found it. */
    readonly doctor: Effect.Effect<ReadonlyArray<CheckView>>
  }
>()("holdfast/infra/http/SystemChecks") {}

const ok = (name: string, detail: string): CheckView => ({ name, state: "ok", detail, advice: null })

/** A check of something that must answer: its refusal is the finding, with the refusal's own sentence. */
const answers = <A, E extends { readonly message: string }>(
  name: string,
  looking: Effect.Effect<A, E>,
  found: (answer: A) => string,
  advice: string
): Effect.Effect<CheckView> =>
  looking.pipe(
    Effect.timeoutOrElse({
      duration: Duration.millis(systemCheckMillisMax),
      orElse: () => Effect.fail({ message: `no answer within ${systemCheckMillisMax} ms` })
    }),
    Effect.match({
      onFailure: ({ message }) => ({ name, state: "failed" as const, detail: message, advice }),
      onSuccess: (answer) => ok(name, found(answer))
    })
  )

const lacking = (name: string, detail: string, advice: string): CheckView => ({
  name,
  state: "warning",
  detail,
  advice
})

/** The probed capabilities, each with what it means. Pure. */
export const capabilityChecks = (capabilities: GuestCapabilities): ReadonlyArray<CheckView> => [
  capabilities.isolation === "none"
    ? lacking(
        "isolation",
        "guests share the machine's namespaces",
        "use bubblewrap or unshare for work that is not trusted"
      )
    : ok("isolation", `${capabilities.supervisor} isolates guests by ${capabilities.isolation}`),
  capabilities.limits === "cgroup"
    ? ok("limits", "cgroups keep the limits of guests")
    : lacking("limits", "limits of guests are not kept", "run the daemon where it may write cgroups"),
  capabilities.privateUser
    ? ok("users", "each guest has a host user of its own")
    : lacking("users", "guests run under the daemon's user", "run the daemon as root"),
  capabilities.seccomp
    ? ok("seccomp", "guests are kept from dangerous system calls")
    : lacking(
        "seccomp",
        "system calls of guests are not filtered",
        "install a bubblewrap that takes --seccomp"
      ),
  capabilities.survivesDaemon
    ? ok("survival", "guests go on when the daemon dies")
    : lacking("survival", "guests end with the daemon", "use bubblewrap"),
  ok("proof", `absence is proved by ${capabilities.proof}`)
]

/**
 * What the newest pass of a sweep says: failed where nothing of it was done, a warning where some of it failed, or where
 * it has been silent for long. Pure. Source: FC-05.
 */
export const sweepCheck = (report: SweepReport, nowMillis: number): CheckView => {
  const name = `sweep of ${report.sweep}`
  const detail = reportText(report)
  if (isWhollyFailed(report)) {
    return { name, state: "failed", detail, advice: "see the daemon's log; the next pass tries again" }
  }
  if (report.failed > 0) return lacking(name, detail, "see the daemon's log; the next pass tries again")
  return nowMillis - report.atMillis > sweepSilentMillisMax
    ? lacking(name, `${detail}; silent since`, "see the daemon's log for what the sweep waits for")
    : ok(name, detail)
}

/** The spool of orphans can be read, and holds nothing that could not be. Source: FC-05, FC-19. */
export const spoolCheck = Effect.flatMap(OrphanSpool, (spool) =>
  Effect.all([spool.load, spool.quarantined]).pipe(
    Effect.match({
      onFailure: ({ message }): CheckView => ({
        name: "orphan spool",
        state: "failed",
        detail: message,
        advice: "until then nobody knows which resources the database was not told of"
      }),
      onSuccess: ([records, quarantined]): CheckView =>
        quarantined === 0
          ? ok("orphan spool", `${records.length} resources wait for the database`)
          : {
              name: "orphan spool",
              state: "failed",
              detail: `${quarantined} files could not be read and were put aside`,
              advice: "see its folder quarantine: each file names a resource that somebody has to end"
            }
    })
  )
)

const sweepChecks = Effect.gen(function* () {
  const reports = yield* (yield* SweepReports).all
  const nowMillis = yield* Clock.currentTimeMillis
  return reports.map((report) => sweepCheck(report, nowMillis))
})

/** Checks over the daemon's own parts. */
export const layer = (options: {
  readonly version: string
}): Layer.Layer<
  SystemChecks,
  never,
  Registry | OperationStore | GuestSupervisor | SweepReports | OrphanSpool
> =>
  Layer.effect(
    SystemChecks,
    Effect.gen(function* () {
      const registry = yield* Registry
      const operations = yield* OperationStore
      const supervisor = yield* GuestSupervisor
      const reports = yield* SweepReports
      const spool = yield* OrphanSpool
      return {
        version: options.version,
        node: registry.node,
        health: Effect.all([
          answers(
            "registry",
            registry.charges,
            ({ sandboxes }) => `${sandboxes} of ${registry.capacity.sandboxes} sandboxes`,
            "restart the daemon once the disk is sound"
          ),
          answers(
            "database",
            operations.claimed({ node: registry.node, afterRow: 0, limit: 1 }),
            () => "answers",
            "see why the database does not answer; work goes on when it does"
          ),
          Effect.provideService(spoolCheck, OrphanSpool, spool),
          Effect.provideService(sweepChecks, SweepReports, reports)
        ]).pipe(
          Effect.map(([registryCheck, databaseCheck, spoolFound, sweeps]) => [
            registryCheck,
            databaseCheck,
            spoolFound,
            ...sweeps
          ])
        ),
        doctor: Effect.sync(() => capabilityChecks(supervisor.capabilities))
      }
    })
  )
