/** The verbs below `lease`, and `sweep`: what runs have leased, what became of it, and what is done about it by hand. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentLeaseId, RunId } from "../../domain/Identity.ts"
import { ago, table } from "../../infra/cli/text.ts"
import type { EnvironmentLeaseView, LeaseWhyView } from "../../infra/http/environmentViews.ts"
import { type Client, connected, type Target } from "./connection.ts"
import { type ExitCode, exitCodes } from "./exitCodes.ts"
import { usage } from "./Failure.ts"
import { given } from "./given.ts"
import { Output } from "./Output.ts"

const idOf = <A>(schema: Schema.Codec<A, string>, typed: string, what: string) =>
  Schema.decodeUnknownEffect(schema)(typed).pipe(
    Effect.mapError(() => usage(`${typed} is no id of a ${what}`))
  )

const stateOf = ({ cleanupTries, needsOperator, status }: EnvironmentLeaseView): string =>
  status === "pending_cleanup"
    ? `owed, ${cleanupTries} tries${needsOperator ? ", needs an operator" : ""}`
    : status

/** Leases as a table. Pure. */
export const environmentLeaseTable = (
  leases: ReadonlyArray<EnvironmentLeaseView>,
  nowMillis: number
): ReadonlyArray<string> =>
  table([
    ["LEASE", "STATE", "PROVIDER", "SINCE", "ENDED BY", "REASON"],
    ...leases.map((lease) => [
      lease.id,
      stateOf(lease),
      lease.provider ?? lease.driver ?? "-",
      ago(lease.createdAtMillis, nowMillis),
      lease.endedBy ?? "",
      lease.failureReason ?? ""
    ])
  ])

/** Prints the tenant's leases, newest first. */
export const listEnvironmentLeases = Effect.fn("cli.listEnvironmentLeases")(function* (
  target: Target,
  options: { readonly environment: string | undefined; readonly run: string | undefined }
) {
  const output = yield* Output
  const run = options.run === undefined ? undefined : yield* idOf(RunId, options.run, "run")
  const query = { ...given("environment", options.environment), ...given("run", run) }
  yield* connected(target, ({ call, client }) =>
    Effect.gen(function* () {
      const leases = yield* call(client.environmentLeases.list({ query }))
      yield* output.result(leases, environmentLeaseTable(leases, yield* Clock.currentTimeMillis))
    })
  )
})

const fieldsOf = (lease: EnvironmentLeaseView): ReadonlyArray<string> =>
  table(
    Object.entries({
      lease: lease.id,
      state: stateOf(lease),
      environment: lease.environment,
      driver: lease.driver,
      provider: lease.provider,
      resource: lease.providerLeaseId,
      policy: lease.policy,
      run: lease.run,
      "ended by": lease.endedBy,
      reason: lease.failureReason
    }).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
  )

type LeaseVerb = "get" | "release" | "destroy" | "retry"

const callOf = (client: Client, verb: LeaseVerb, lease: EnvironmentLeaseId) => {
  const params = { params: { lease } }
  switch (verb) {
    case "get":
      return client.environmentLeases.get(params)
    case "release":
      return client.environmentLeases.release(params)
    case "destroy":
      return client.environmentLeases.destroy(params)
    case "retry":
      return client.environmentLeases.retry(params)
  }
}

/** Asks one thing about one lease and prints the lease as it is then. An end that is owed is no success of `destroy`. */
export const askLease = Effect.fn("cli.askLease")(function* (target: Target, verb: LeaseVerb, typed: string) {
  const output = yield* Output
  const id = yield* idOf(EnvironmentLeaseId, typed, "lease")
  const lease = yield* connected(target, ({ call, client }) => call(callOf(client, verb, id)))
  yield* output.result(lease, fieldsOf(lease))
  const isOwed = lease.status === "pending_cleanup" && (verb === "destroy" || verb === "release")
  const exit: ExitCode = isOwed ? exitCodes.failed : exitCodes.done
  return exit
})

const storyLines = ({ steps }: LeaseWhyView): ReadonlyArray<string> =>
  table(
    steps.map(({ actor, atMillis, reason, step, text }) => [
      atMillis === null ? "" : new Date(atMillis).toISOString(),
      step,
      text,
      actor === null ? "" : `by ${actor}`,
      reason === null ? "" : `because ${reason}`
    ])
  )

/** Tells what became of a lease, from its acquisition to the proof of its end. */
export const explainLease = Effect.fn("cli.explainLease")(function* (target: Target, typed: string) {
  const output = yield* Output
  const lease = yield* idOf(EnvironmentLeaseId, typed, "lease")
  const why = yield* connected(target, ({ call, client }) =>
    call(client.environmentLeases.why({ params: { lease } }))
  )
  yield* output.result(why, storyLines(why))
})

/** One pass of the cleanup sweep. It fails when everything that it attempted did. Source: FC-05. */
export const sweepCleanups = Effect.fn("cli.sweepCleanups")(function* (target: Target) {
  const output = yield* Output
  const swept = yield* connected(target, ({ call, client }) => call(client.environmentLeases.sweep()))
  const { attempted, done, failed, recovered } = swept
  yield* output.result(swept, [
    `attempted ${attempted}, done ${done}, failed ${failed}${recovered === 0 ? "" : `, recovered ${recovered}`}`
  ])
  const exit: ExitCode = failed > 0 && done === 0 ? exitCodes.failed : exitCodes.done
  return exit
})
