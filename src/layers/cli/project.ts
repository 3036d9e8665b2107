/**
 * The verbs `project create`, `project list` and `delete`. A deletion shows every path that it would remove
 * before it asks, confirms exactly those paths, and prints every proof of absence that it was answered.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { deletionPollMillis } from "../../domain/Bounds.ts"
import { table } from "../../infra/cli/text.ts"
import type { DeletionPreviewView, DeletionView, OperationView, ProjectView } from "../../infra/http/Views.ts"
import { type Connection, connected, type Target } from "./connection.ts"
import { failed, outputClosed, usage } from "./Failure.ts"
import { endShow, show } from "./follow.ts"
import { Output } from "./Output.ts"

/** Creates a Project and prints its id. */
export const createProject = Effect.fn("cli.createProject")(function* (target: Target, name: string) {
  const output = yield* Output
  yield* connected(target, ({ call, client }) =>
    Effect.flatMap(call(client.projects.create({ payload: { name } })), (project) =>
      output.result(project, [`created project ${project.name} (id ${project.id})`])
    )
  )
})

/** All pages, in the order of ids. */
const allProjects = Effect.fnUntraced(function* ({ call, client }: Connection) {
  const projects: Array<ProjectView> = []
  for (;;) {
    const last = projects.at(-1)
    const page = yield* call(client.projects.list({ query: last === undefined ? {} : { after: last.id } }))
    if (page.length === 0) return projects
    projects.push(...page)
  }
})

/** Lists the Projects that the caller may see. */
export const listProjects = Effect.fn("cli.listProjects")(function* (target: Target) {
  const output = yield* Output
  const projects = yield* connected(target, allProjects)
  const rows = projects.map(({ id, lifecycle, name }) => [String(id), name, lifecycle])
  yield* output.result(projects, table([["ID", "NAME", "LIFECYCLE"], ...rows]))
})

/** Snapshots are labelled as such; every other label is a sandbox. */
const isSandbox = (label: string): boolean => !label.startsWith("snapshot ")

const previewLines = (preview: DeletionPreviewView): ReadonlyArray<string> => [
  `Deleting project ${preview.name} (id ${preview.project}) proves ${preview.labels.filter(isSandbox).length} sandboxes gone and removes ${preview.paths.length} paths for good:`,
  ...preview.labels.map((label) => `  ${isSandbox(label) ? "sandbox " : ""}${label}`),
  ...preview.paths.map((path) => `  ${path}`)
]

/** Reads one line from standard input. */
const answerLine = Effect.gen(function* () {
  const stdio = yield* Stdio.Stdio
  const lines = yield* stdio.stdin.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.take(1),
    Stream.runCollect,
    Effect.mapError(outputClosed)
  )
  return lines[0] ?? ""
})

const confirm = Effect.fnUntraced(function* (preview: DeletionPreviewView) {
  const output = yield* Output
  const stdio = yield* Stdio.Stdio
  if (output.json || !(yield* stdio.stdinIsTerminal) || !output.drawn) {
    return yield* usage(
      `deleting project ${preview.name} needs a confirmation and there is no terminal to ask at: give --yes`
    )
  }
  yield* output.draw(`Type the project's name to delete it: `)
  return (yield* answerLine).trim() === preview.name
})

/** Draws the durable progress of the deletion for as long as it is awaited; what it cannot see it leaves out. */
const watchDeletion = Effect.fnUntraced(function* (connection: Connection, project: string) {
  const shown = yield* Ref.make("")
  const poll = Effect.gen(function* () {
    const status = yield* connection.call(connection.client.projects.status({ params: { project } }))
    const live: OperationView | null = status.liveOperation
    if (live !== null && live.action === "delete") yield* show(shown, live)
  })
  yield* poll.pipe(Effect.ignore, Effect.andThen(Effect.sleep(deletionPollMillis)), Effect.forever)
})

const deletionLines = (deletion: DeletionView): ReadonlyArray<string> => [
  ...deletion.confirmedPaths.map((path) => `removed ${path}`),
  ...deletion.proofs.map((proof) => `proved  ${proof}`),
  `deleted project ${deletion.name} (id ${deletion.project})`
]

const confirmedDeletion = Effect.fnUntraced(function* (connection: Connection, preview: DeletionPreviewView) {
  const params = { project: String(preview.project) }
  const watcher = yield* Effect.forkChild(watchDeletion(connection, params.project))
  const deletion = yield* connection
    .call(connection.client.projects.delete({ params, payload: { confirmedPaths: preview.paths } }))
    .pipe(Effect.ensuring(Effect.andThen(Fiber.interrupt(watcher), Effect.ignore(endShow))))
  const output = yield* Output
  if (deletion.state === "completed") return yield* output.result(deletion, deletionLines(deletion))
  yield* output.result(deletion, [])
  return yield* failed(
    deletion.failureCode ?? "deletion_pending",
    `the deletion of project ${deletion.name} has not finished (done: ${deletion.completedSteps.join(", ") || "nothing yet"}): run the same command again`
  )
})

/** Previews, asks unless `yes`, and deletes. Refuses to delete unasked: exit code 2 without a terminal. */
export const deleteProject = Effect.fn("cli.deleteProject")(function* (
  target: Target,
  options: { readonly project: string; readonly yes: boolean }
) {
  const output = yield* Output
  yield* connected(target, (connection) =>
    Effect.gen(function* () {
      const params = { project: options.project }
      const preview = yield* connection.call(connection.client.projects.previewDeletion({ params }))
      for (const line of previewLines(preview)) yield* output.tell(line)
      if (!options.yes && !(yield* confirm(preview))) {
        return yield* failed("not_confirmed", `project ${preview.name} is kept`)
      }
      yield* confirmedDeletion(connection, preview)
    })
  )
})
