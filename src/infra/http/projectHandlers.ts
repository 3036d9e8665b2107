/**
 * Handlers of the group `projects`: create, list, read, and delete by the host's protocol. A deletion that was
 * admitted goes on when its caller hangs up; only the daemon's end stops it, and the next daemon goes on with it.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Fiber from "effect/Fiber"
import type { DeletionStore } from "../../domain/host/DeletionStore.ts"
import type { Participants } from "../../domain/host/Participants.ts"
import { deleteProject, previewDeletion } from "../../domain/host/projectDeletion.ts"
import { ProjectStore } from "../../domain/host/ProjectStore.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { deletionView, projectView } from "./present.ts"
import { historyOf, readStatus } from "./projectStatus.ts"

type DeletionNeeds = ProjectStore | DeletionStore | Participants

const create = Effect.fnUntraced(function* (name: string) {
  const store = yield* ProjectStore
  return projectView(yield* answering(store.create(yield* CurrentCaller, name)))
})

const list = Effect.fnUntraced(function* (after: number) {
  const store = yield* ProjectStore
  const projects = yield* answering(store.list(yield* CurrentCaller, after))
  return projects.map(projectView)
})

const preview = Effect.fnUntraced(function* (reference: string) {
  const project = yield* resolveProject(reference)
  const { labels, paths } = yield* answering(previewDeletion(project.id))
  return { project: project.id, name: project.name, paths, labels }
})

export const layer = HttpApiBuilder.group(
  Api,
  "projects",
  Effect.fnUntraced(function* (handlers) {
    const scope = yield* Effect.scope
    const context = yield* Effect.context<DeletionNeeds>()
    return handlers.handleAll({
      create: ({ payload }) => create(payload.name),
      list: ({ query }) => list(query.after ?? 0),
      get: ({ params }) => Effect.map(resolveProject(params.project), projectView),
      previewDeletion: ({ params }) => preview(params.project),
      delete: Effect.fnUntraced(function* ({ params, payload }) {
        const caller = yield* CurrentCaller
        const project = yield* resolveProject(params.project)
        const deletion = yield* deleteProject(caller, project.id, payload.confirmedPaths).pipe(
          Effect.provideContext(context),
          Effect.forkIn(scope)
        )
        return deletionView(yield* answering(Fiber.join(deletion)))
      }),
      status: ({ params }) => Effect.flatMap(resolveProject(params.project), readStatus),
      history: ({ params, query }) =>
        Effect.flatMap(resolveProject(params.project), (project) => historyOf(project, query))
    })
  })
)
