/** What the tests of worktrees over scripted guests share: git as a script, and what is stored of worktrees. */
import * as Effect from "effect/Effect"
import { ExecutionEvent } from "../../../src/domain/guests/GuestSpec.ts"
import type { GuestFailure } from "../../../src/domain/guests/GuestSupervisor.ts"
import { RepositoryName } from "../../../src/domain/leases/RepositoryClaim.ts"
import { addScript, checkScript, lookScript, removeScript } from "../../../src/domain/worktrees/gitScripts.ts"
import { createWorktree } from "../../../src/domain/worktrees/creation.ts"
import { removeWorktree } from "../../../src/domain/worktrees/removal.ts"
import { BranchName, WorktreeName } from "../../../src/domain/worktrees/Worktree.ts"
import { Clone } from "../../support/clone.ts"
import { type Scene, Scripted } from "../removal/fixture.ts"

export const live = { excludeTestServices: true, timeout: "60 seconds" } as const
export const repository = RepositoryName.make("app")
export const task = WorktreeName.make("task")
export const base = "0123456789012345678901234567890123456789"

type Step = "look" | "add" | "check" | "remove"
const scripts = new Map<string | undefined, Step>([
  [lookScript, "look"],
  [addScript, "add"],
  [checkScript, "check"],
  [removeScript, "remove"]
])

export interface Git {
  /** What was run, with its last word: a commit, or nothing. */
  readonly ran: Array<string>
  /** What a step does, and its exit code. */
  readonly steps: Partial<Record<Step, Effect.Effect<number, GuestFailure>>>
}

/** Git in every guest of the fixture, until the next one: it finds no branch, and does all that it is asked. */
export const scriptGit = (steps: Git["steps"] = {}) =>
  Effect.map(Scripted, ({ guests }): Git => {
    const git: Git = { ran: [], steps: { ...steps } }
    guests.commandScript = (_, command) =>
      Effect.gen(function* () {
        const step = scripts.get(command.argv[2])
        if (step !== undefined) git.ran.push([step, command.argv.at(-1) ?? ""].join(" ").trim())
        const exitCode = step === undefined ? 0 : yield* git.steps[step] ?? Effect.succeed(0)
        const bytes = new TextEncoder().encode(`${base}\n`)
        return [
          ...(step === "look"
            ? [ExecutionEvent.cases.Output.make({ stream: "stdout" as const, bytes })]
            : []),
          ExecutionEvent.cases.Exited.make({ exitCode, ended: "exited" as const })
        ]
      })
    return git
  })

export const create = ({ caller, project }: Scene, name = task) =>
  createWorktree(caller, { project, repository, name, branch: BranchName.make(name), startPoint: null })

export const remove = ({ caller, project }: Scene, isForced = false, name = task) =>
  removeWorktree(caller, { project, name, isForced })

const look = (text: string, { project }: Scene) =>
  Effect.flatMap(Clone, ({ admin }) => admin(text, [BigInt(project)]))

/** Worktrees, leases and claims of the Project, as short words; tombstones of leases are left out. */
export const stored = (scene: Scene) =>
  Effect.map(
    look(
      `select name || ' ' || state as word from plugin_sandbox.worktrees where project_id = $1
        union all select 'lease ' || label from plugin_sandbox.execution_leases where project_id = $1 and cancel <> 'verified'
        union all select 'claim ' || repository from plugin_sandbox.repository_claims where project_id = $1
        order by 1`,
      scene
    ),
    (rows) => rows.map(({ word }) => String(word))
  )

export const logged = (scene: Scene) =>
  Effect.map(
    look(
      "select line from plugin_sandbox.runtime_logs where project_id = $1 and line like 'worktree%' order by row_id",
      scene
    ),
    (rows) => rows.map(({ line }) => String(line))
  )
