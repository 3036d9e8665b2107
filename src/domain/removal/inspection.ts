/**
 * Reads what a Project's runtime owns, in one repeatable-read snapshot and without asking any machine: the preview of
 * a deletion, and the check before every destructive step. Source: SP-DEL-02, SP-DEL-05 to SP-DEL-07.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { HostProjects } from "../host/Projects.ts"
import type { ProjectId } from "../Identity.ts"
import type { Operation } from "../operations/Operation.ts"
import { OperationRows } from "../operations/OperationStore.ts"
import { Disks } from "../runtimes/Disks.ts"
import type { MachineRecipe } from "../runtimes/Runtime.ts"
import { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import { type Snapshot, SnapshotRows } from "../runtimes/SnapshotRows.ts"
import {
  ConfirmationNeeded,
  describeOwned,
  MetadataBusy,
  MetadataUnreadable,
  missingCondition,
  type Owned,
  RemovalNotAdmitted,
  SandboxPaths,
  storageParticipant,
  unconfirmedPaths
} from "./RemovalPlan.ts"

/** A machine or a snapshot is being made, and its paths are not written down yet. */
const isUndescribed = (live: Option.Option<Operation>, snapshots: ReadonlyArray<Snapshot>): boolean =>
  Option.exists(live, ({ action, id, newRecipe, state }) => {
    if (state !== "claimed") return false
    if (action === "snapshot") return !snapshots.some(({ operation }) => operation === id)
    return (action === "provision" || action === "restore") && newRecipe === null
  })

/** Recipes of the runtime and of every receipt that may still owe a machine, and the snapshots. */
const readOwned = Effect.fnUntraced(function* (project: ProjectId) {
  const runtimes = yield* RuntimeStore
  const rows = yield* OperationRows
  const projects = yield* HostProjects
  const copies = yield* SnapshotRows
  return yield* runtimes
    .snapshot("removal.inspect", (store) =>
      Effect.gen(function* () {
        const deletion = yield* projects.deletion(project)
        const runtime = yield* store.runtime(project)
        const live = yield* rows.live(project)
        const owing = yield* rows.owing(project)
        const absences = yield* rows.absences(project)
        const recipes: Array<MachineRecipe> = []
        for (const recipe of [
          Option.getOrUndefined(runtime)?.recipe,
          ...owing.flatMap((operation) => [operation.oldRecipe, operation.newRecipe])
        ]) {
          if (recipe !== null && recipe !== undefined) recipes.push(recipe)
        }
        const snapshots = yield* copies.ofProject(project)
        return { absences, deletion, runtime, live, recipes, snapshots }
      })
    )
    .pipe(Effect.catchDefect(() => Effect.fail(new MetadataUnreadable({ project }))))
})

const describe = Effect.fnUntraced(function* (project: ProjectId, owned: Owned) {
  const disks = yield* Disks
  const sandboxes = yield* SandboxPaths
  return describeOwned(owned, { storageRoot: disks.rootOf(project), sandboxPath: sandboxes.pathOf })
})

/**
 * What deleting the Project would remove here. Refused with `MetadataBusy` and `MetadataUnreadable`; then the host
 * must not admit the deletion. No machine is asked, and what was never provisioned has no paths.
 */
export const describeProjectRemoval = Effect.fn("removal.describe")(function* (project: ProjectId) {
  const { live, ...owned } = yield* readOwned(project)
  if (isUndescribed(live, owned.snapshots)) return yield* new MetadataBusy({ project })
  return yield* describe(project, owned)
})

/**
 * Lets a destructive step begin, or refuses: the host's record must admit the storage phase, and every path must be
 * among the confirmed ones. Answers what is still to be removed, what was confirmed, and the proofs so far.
 */
export const verifyRemoval = Effect.fn("removal.verify")(function* (project: ProjectId) {
  const { absences, deletion, recipes, runtime, snapshots } = yield* readOwned(project)
  const missing = missingCondition(deletion, storageParticipant)
  if (missing !== undefined) return yield* new RemovalNotAdmitted({ project, missing })
  const description = yield* describe(project, { recipes, snapshots })
  const confirmed = Option.match(deletion, {
    onNone: (): ReadonlyArray<string> => [],
    onSome: (record) => record.confirmedPaths
  })
  const paths = unconfirmedPaths(description, confirmed)
  if (paths.length > 0) return yield* new ConfirmationNeeded({ project, paths })
  return { absences, confirmed, recipes, runtime, snapshots }
})
