/**
 * The host's protocol of deleting a Project: preview, confirmation, admission, each participant in its order with a
 * durable acknowledgement, finalization. It may die anywhere: the record says where to go on. Source: SP-DEL.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import {
  deletionOperatorRetrySeconds,
  deletionPassMillisMax,
  deletionsPageMax,
  deletionUnattendedTriesMax
} from "../Bounds.ts"
import type { ProjectId } from "../Identity.ts"
import { StepObserver } from "../StepObserver.ts"
import type { Caller } from "./Accounts.ts"
import {
  ConfirmationStale,
  DeletionBlocked,
  DeletionFailed,
  DeletionOwnerUnavailable,
  type DeletionRecord,
  DeletionStore
} from "./DeletionStore.ts"
import { type Participant, type ParticipantError, Participants } from "./Participants.ts"
import { ProjectStore } from "./ProjectStore.ts"

const program = "delete project"
const finalization = "finalize"

/** The participants, if one of them owns storage. Source: SP-DEL-12. */
const participantsFor = Effect.fnUntraced(function* (project: ProjectId) {
  const participants = yield* (yield* Participants).inOrder
  if (participants.some((each) => each.phase === "storage")) return participants
  return yield* new DeletionBlocked({ project })
})

/**
 * What deleting the Project would remove, from every owner: paths and labels, sorted. Refused with `DeletionBlocked`
 * and `DeletionOwnerUnavailable`. Changes nothing. Source: SP-DEL-05, SP-DEL-06.
 */
export const previewDeletion = Effect.fn("host.previewDeletion")(function* (project: ProjectId) {
  const participants = yield* participantsFor(project)
  const described = yield* Effect.forEach(participants, (participant) =>
    Effect.mapError(
      participant.describe(project),
      ({ code }) => new DeletionOwnerUnavailable({ project, participant: participant.name, reason: code })
    )
  )
  return {
    paths: [...new Set(described.flatMap(({ paths }) => paths))].toSorted(),
    labels: [...new Set(described.flatMap(({ labels }) => labels))].toSorted()
  }
})

/** Confirmed and described paths compared both ways; null when they are the same set. Pure. */
export const staleness = (
  described: ReadonlyArray<string>,
  confirmed: ReadonlyArray<string>
): { readonly unconfirmed: ReadonlyArray<string>; readonly unknown: ReadonlyArray<string> } | null => {
  const unconfirmed = described.filter(isNotIn(confirmed))
  const unknown = confirmed.filter(isNotIn(described))
  return unconfirmed.length === 0 && unknown.length === 0 ? null : { unconfirmed, unknown }
}

const isNotIn = (paths: ReadonlyArray<string>): ((path: string) => boolean) => {
  const known = new Set(paths)
  return (path) => !known.has(path)
}

/**
 * Admits the deletion of exactly the confirmed paths. From then on the Project takes no new work. Asked again for a
 * Project that is being deleted, it joins that deletion and renews the confirmation: paths that were confirmed before
 * may be gone meanwhile. Refused with `AccessRefused` before any owner is asked, with `ConfirmationStale`, and with
 * what a preview refuses; then nothing is admitted. Source: SP-DEL-06, SP-DEL-07, SP-DEL-12.
 */
export const admitDeletion = Effect.fn("host.admitDeletion")(function* (
  caller: Caller,
  project: ProjectId,
  confirmedPaths: ReadonlyArray<string>
) {
  const store = yield* DeletionStore
  yield* store.requireOwner(caller, project)
  const earlier = Option.match(yield* store.byProject(project), {
    onNone: (): ReadonlyArray<string> => [],
    onSome: (record) => record.confirmedPaths
  })
  const { paths } = yield* previewDeletion(project)
  const removedMeanwhile = new Set(earlier.filter(isNotIn(paths)))
  const stale = staleness(
    paths,
    confirmedPaths.filter((path) => !removedMeanwhile.has(path))
  )
  if (stale !== null) return yield* new ConfirmationStale({ project, ...stale })
  const participants = (yield* participantsFor(project)).map(({ name }) => name)
  return yield* store.admit({
    caller,
    project,
    participants,
    confirmedPaths: [...new Set(confirmedPaths)].toSorted()
  })
})

/** Whether another run of the same deletion has acknowledged the step meanwhile. */
const isDoneElsewhere = (project: ProjectId, step: string) =>
  Effect.map(
    DeletionStore.use((store) => store.byProject(project)),
    Option.exists((record) => record.state === "completed" || record.completedSteps.includes(step))
  )

/** Said once, and not at each try. Source: FC-09. */
const callOperator = Effect.fnUntraced(function* (project: ProjectId, participant: string, code: string) {
  const projects = yield* ProjectStore
  const message = `its deletion has stopped ${deletionUnattendedTriesMax} times, last at ${participant} (${code}): it is tried again every ${deletionOperatorRetrySeconds} s, and at once when it is asked for`
  yield* projects
    .raiseAlert({ project, kind: "deletion_needs_operator", message })
    .pipe(Effect.catch((failure) => Effect.logWarning(`an alert was not raised: ${failure.message}`)))
})

/** Notes where the deletion stopped, as far as the database can be reached, and fails with it. */
const stopAt = Effect.fnUntraced(function* (
  project: ProjectId,
  participant: string,
  { code, message }: Pick<ParticipantError, "code" | "message">
) {
  const store = yield* DeletionStore
  const attempts = yield* Effect.catch(store.noteFailure(project, code), (failure) =>
    Effect.as(
      Effect.logWarning(
        `why the deletion of project ${project} stopped could not be noted: ${failure.message}`
      ),
      0
    )
  )
  if (attempts === deletionUnattendedTriesMax) yield* callOperator(project, participant, code)
  return yield* new DeletionFailed({ project, participant, reason: code, why: message })
})

/** One participant's step: its verified success is acknowledged durably, its failure reaches the caller. */
const runParticipant = Effect.fnUntraced(function* (project: ProjectId, participant: Participant) {
  const store = yield* DeletionStore
  const observer = yield* StepObserver
  const { name } = participant
  yield* observer.before(program, name)
  const removal = yield* participant.remove(project).pipe(
    Effect.asSome,
    Effect.catch((error) =>
      Effect.catch(isDoneElsewhere(project, name), () => Effect.succeed(false)).pipe(
        Effect.flatMap((done) => (done ? Effect.succeedNone : stopAt(project, name, error)))
      )
    )
  )
  if (Option.isSome(removal)) {
    yield* store.completeStep(project, { participant: name, proofs: removal.value.proofs })
  }
  yield* observer.after(program, name)
})

/**
 * Carries an admitted deletion to its end: participants that have not been acknowledged, in the order of the record,
 * each after the ones before it, then the finalization. Answers the completed record, also when another run completed
 * it. `DeletionFailed` leaves it pending, with the failure's code. Source: SP-DEL-02, SP-DEL-11.
 */
export const runDeletion = Effect.fn("host.runDeletion")(function* (record: DeletionRecord) {
  if (record.state === "completed") return record
  const { project } = record
  const store = yield* DeletionStore
  const observer = yield* StepObserver
  const participants = yield* participantsFor(project)
  for (const name of record.participants.filter(isNotIn(record.completedSteps))) {
    const participant = participants.find((each) => each.name === name)
    yield* participant === undefined
      ? stopAt(project, name, { code: "participant_missing", message: "its plugin is not loaded" })
      : runParticipant(project, participant)
  }
  yield* observer.before(program, finalization)
  const completed = yield* store.finalize(project)
  yield* observer.after(program, finalization)
  return completed
})

/** Admits and carries out, and notes both in the audit log. */
export const deleteProject = Effect.fn("host.deleteProject")(function* (
  caller: Caller,
  project: ProjectId,
  confirmedPaths: ReadonlyArray<string>
) {
  const projects = yield* ProjectStore
  const entry = { account: caller.account, actor: caller.name, action: program, project }
  const admitted = yield* admitDeletion(caller, project, confirmedPaths)
  yield* projects.audit({ ...entry, outcome: "admitted" })
  const completed = yield* runDeletion(admitted)
  yield* projects.audit({ ...entry, outcome: "completed" })
  return completed
})

const needingOperator = Metric.gauge("holdfast_deletions_need_operator", {
  description: "Deletions of Projects that have stopped so often that somebody has to look at them"
})

/**
 * Goes on with one pending deletion and answers whether it is completed; its failure is logged, since nobody waits for
 * it. One that waits for a node that does not come is left to itself after `deletionPassMillisMax`, so that it holds no
 * other one up: then it answers none.
 */
const continueDeletion = (record: DeletionRecord) =>
  runDeletion(record).pipe(
    Effect.as(true),
    Effect.catch((failure) =>
      Effect.as(
        Effect.logWarning(`the deletion of project ${record.project} stays pending: ${failure.message}`),
        false
      )
    ),
    Effect.timeoutOption(deletionPassMillisMax)
  )

/**
 * Goes on with every pending deletion that is due, the oldest first; one that fails stays pending. Answers how many were
 * completed, and how many failed; one that still waits is neither.
 */
export const continueDeletions = Effect.fn("host.continueDeletions")(function* () {
  const store = yield* DeletionStore
  let done = 0
  let failed = 0
  let after: ProjectId | null = null
  for (;;) {
    const page: ReadonlyArray<DeletionRecord> = yield* store.due(after)
    for (const record of page) {
      const completed = Option.getOrUndefined(yield* continueDeletion(record))
      if (completed === true) done += 1
      if (completed === false) failed += 1
    }
    after = page.at(-1)?.project ?? null
    if (page.length < deletionsPageMax) break
  }
  yield* Metric.update(needingOperator, yield* store.needingOperator)
  return { attempted: done + failed, done, failed }
})
