/** The worktrees of the scripted daemon: one that is there, and others as they are asked for. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { Api } from "../../../src/infra/http/Api.ts"
import { Conflict, type NotFound } from "../../../src/infra/http/ApiErrors.ts"
import { WorktreeView } from "../../../src/infra/http/Views.ts"

export const worktreeOfWeb: WorktreeView = Schema.decodeUnknownSync(WorktreeView)({
  name: "task",
  repository: "app",
  branch: "task",
  path: "/workspace/.worktrees/task",
  state: "ready",
  createdAtMillis: 1_000
})

const conflict = (code: string) =>
  Effect.fail(new Conflict({ code, message: "it cannot be done", details: {} }))

/** It cannot be made twice, and goes only by force. `known` refuses a Project that is not there. */
export const scriptedWorktrees = (known: (project: string) => Effect.Effect<void, NotFound>) =>
  HttpApiBuilder.group(Api, "worktrees", (group) =>
    group.handleAll({
      list: ({ params }) => Effect.as(known(params.project), [worktreeOfWeb]),
      create: ({ params, payload }) =>
        Effect.andThen(
          known(params.project),
          payload.name === worktreeOfWeb.name
            ? conflict("worktree_exists")
            : Effect.succeed({ ...worktreeOfWeb, ...Struct.omit(payload, ["startPoint"]) })
        ),
      remove: ({ params, query }) =>
        Effect.andThen(
          known(params.project),
          query.force === "true" ? Effect.void : conflict("worktree_dirty")
        )
    })
  )
