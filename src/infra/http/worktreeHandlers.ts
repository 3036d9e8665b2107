/** Handlers of the group `worktrees`: what there is, one more, one less. Each is done when it is answered. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { createWorktree } from "../../domain/worktrees/creation.ts"
import { removeWorktree } from "../../domain/worktrees/removal.ts"
import { BranchName } from "../../domain/worktrees/Worktree.ts"
import { WorktreeRows } from "../../domain/worktrees/WorktreeRows.ts"
import { answering, resolveProject } from "./access.ts"
import { Api, CurrentCaller } from "./Api.ts"
import { worktreeView } from "./present.ts"

export const layer = HttpApiBuilder.group(Api, "worktrees", (handlers) =>
  handlers.handleAll({
    list: Effect.fnUntraced(function* ({ params }) {
      const project = yield* resolveProject(params.project)
      const rows = yield* WorktreeRows
      return (yield* answering(rows.ofProject(project.id))).map(worktreeView)
    }),
    create: Effect.fnUntraced(function* ({ params, payload }) {
      const caller = yield* CurrentCaller
      const project = yield* resolveProject(params.project)
      const { name, repository, startPoint = null } = payload
      const branch = payload.branch ?? BranchName.make(name)
      return worktreeView(
        yield* answering(
          createWorktree(caller, { project: project.id, repository, name, branch, startPoint })
        )
      )
    }),
    remove: Effect.fnUntraced(function* ({ params, query }) {
      const caller = yield* CurrentCaller
      const project = yield* resolveProject(params.project)
      const isForced = query.force === "true"
      yield* answering(removeWorktree(caller, { project: project.id, name: params.name, isForced }))
    })
  })
)
