/**
 * The overview of a Project's runtime for somebody who asks from outside: access is checked in the very snapshot that
 * is read, no row is locked, nothing is provisioned and no machine is asked. Source: SP-HTTP-03, SP-HTTP-04.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { receiptsKeptMin } from "../Bounds.ts"
import { type Caller, HostAccounts } from "../host/Accounts.ts"
import type { ProjectId } from "../Identity.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { OperationRows, type Overview } from "./OperationStore.ts"

/** One snapshot. Refused with `AccessRefused`, for a Project that does not exist too. */
export const readEnvironment = Effect.fn("operations.readEnvironment")(function* (
  caller: Caller,
  project: ProjectId
) {
  const accounts = yield* HostAccounts
  const rows = yield* OperationRows
  const runtimes = yield* RuntimeStore
  return yield* runtimes.snapshot("operations.readEnvironment", (store) =>
    Effect.gen(function* () {
      yield* accounts.requireAccess(caller, project, "read")
      const overview: Overview = {
        runtime: yield* store.runtime(project),
        live: yield* rows.live(project),
        newest: yield* rows.newest(project, receiptsKeptMin)
      }
      const live = Option.toArray(overview.live).map(({ id }) => id)
      return { ...overview, sights: live.length === 0 ? [] : yield* rows.queueSights(live) }
    })
  )
})
