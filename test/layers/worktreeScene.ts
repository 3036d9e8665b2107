/** A Project with a repository in the guest of a real daemon, for the tests of worktrees, and what is asked of it. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { RequestKey } from "../../src/domain/Identity.ts"
import { RepositoryName } from "../../src/domain/leases/RepositoryClaim.ts"
import { BranchName, WorktreeName } from "../../src/domain/worktrees/Worktree.ts"
import type { ApiClient } from "../../src/infra/http/apiClient.ts"
import { isApiError } from "../../src/infra/http/ApiErrors.ts"
import type { OperationView } from "../../src/infra/http/Views.ts"
import type { Place } from "../support/daemonProcess.ts"
import { outcomeOf } from "../support/executionOutcome.ts"

export type Client = ApiClient["Service"]

export const testMillisMax = 180_000
export const pollMillis = 25
export const project = "web"
export const params = { project }
export const repository = RepositoryName.make("code/app")
export const named = (name: string) => WorktreeName.make(name)

const succeeded = (client: Client, asked: Effect.Effect<OperationView, unknown>) =>
  Effect.gen(function* () {
    const { id } = yield* asked
    const done = yield* client.operations.get({ params: { id } }).pipe(
      Effect.repeat({
        until: ({ state }) => state !== "queued" && state !== "claimed",
        schedule: Schedule.spaced(pollMillis)
      }),
      Effect.timeout(testMillisMax / 4)
    )
    assert.strictEqual(done.state, "succeeded", done.error?.message ?? "")
  })

let requests = 0
export const ask = (client: Client, action: "provision" | "start" | "stop" | "rebuild") =>
  succeeded(
    client,
    client.operations.request({
      params,
      payload: {
        action,
        requestId: RequestKey.make(`${action}-${(requests += 1)}`),
        ...(action === "provision" ? { parameters: { cpuMillis: 1_000, memoryMebibytes: 256 } } : {})
      }
    })
  )

export const run = (client: Client, script: string) =>
  client.executions.run({ params, payload: { argv: ["/bin/sh", "-c", script], environment: {} } }).pipe(
    Effect.flatMap(outcomeOf),
    Effect.map(({ text }) => text)
  )

/**
 * A repository whose checkout stands still while `hold` is there: a filter, which git runs for each file, waits for its
 * end. So a making is half way for as long as a test likes.
 */
const seed = `set -e
cd /workspace; mkdir -p code/app; cd code/app
git init -q -b main
git config user.email a@b; git config user.name a
for i in 1 2 3 4 5 6 7 8; do echo $i >file$i; done
echo 'file5 filter=hold' >.gitattributes
git add .; git commit -qm one
git config filter.hold.smudge 'touch /workspace/reached; while [ -e /workspace/hold ]; do sleep 0.02; done; cat'
`

export const provisioned = Effect.fnUntraced(function* (client: Client) {
  yield* client.projects.create({ payload: { name: project } })
  yield* ask(client, "provision")
  yield* run(client, seed)
})

export const create = (client: Client, name: string, branch?: string) =>
  client.worktrees.create({
    params,
    payload: {
      repository,
      name: named(name),
      ...(branch === undefined ? {} : { branch: BranchName.make(branch) })
    }
  })

export const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (isApiError(error) ? error.code : String(error)))

export const remove = (client: Client, name: string, force = false) =>
  client.worktrees.remove({ params: { project, name: named(name) }, query: force ? { force: "true" } : {} })

export const list = (client: Client) =>
  Effect.map(client.worktrees.list({ params }), (all) => all.map(({ name, state }) => `${name} ${state}`))

/** What git says of its worktrees and branches, and what lies where they are. */
export const inGuest = (client: Client) =>
  Effect.map(
    run(
      client,
      `cd /workspace/code/app && git worktree list --porcelain | sed -n 's/^worktree //p' | sed 1d
      echo --; git for-each-ref --format='%(refname:short)' refs/heads; echo --; ls -A /workspace/.worktrees .git/worktrees 2>/dev/null | grep -v : | sort -u | grep .`
    ),
    (text) =>
      text
        .trim()
        .split(/\s*--\s*/)
        .map((part) => part.split(/\s+/).filter(Boolean))
  )

export const holding = (client: Client) => run(client, "rm -f /workspace/reached; touch /workspace/hold")
export const letGo = (client: Client) => run(client, "rm -f /workspace/hold")
export const untilReached = (client: Client) =>
  run(client, "while [ ! -e /workspace/reached ]; do sleep 0.02; done; echo here")

export const onDatabase = ({ databaseUrl }: Place, text: string) =>
  Effect.scoped(
    Effect.flatMap(PgConnection.make({ url: Redacted.make(databaseUrl) }), (connection) =>
      connection.query(text, [], false)
    )
  )

export const untilNothingIsLeft = (client: Client) =>
  list(client).pipe(
    Effect.repeat({ until: (all) => all.length === 0, schedule: Schedule.spaced(pollMillis) }),
    Effect.timeout(testMillisMax / 4)
  )

/** What a dead daemon claimed is silent for long enough: the next one's first sweep looks at it. */
export const silence = (place: Place) =>
  Effect.forEach(["execution_leases", "repository_claims"], (table) =>
    onDatabase(place, `update plugin_sandbox.${table} set heartbeat_at = now() - interval '1 hour'`)
  )
