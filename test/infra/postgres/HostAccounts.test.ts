/** The re-check of a caller, inside the transaction that acts for it. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Caller, HostAccounts } from "../../../src/domain/host/Accounts.ts"
import { HostProjects } from "../../../src/domain/host/Projects.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { PluginDb, PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { Clone } from "../../support/clone.ts"
import { fixture, live, newAccount, newProject, newStranger } from "../../domain/host/hostFixture.ts"

/** A plugin's write: the active Project, the caller again, then a row of its own. */
const writing = (caller: Caller, project: ProjectId) =>
  Effect.gen(function* () {
    const db = yield* PluginDb
    const accounts = yield* HostAccounts
    const projects = yield* HostProjects
    return yield* db.transaction(
      "test.write",
      Effect.gen(function* () {
        yield* projects.requireActive(project)
        yield* accounts.requireAccess(caller, project, "write")
        const tx = yield* PluginTx
        yield* tx.query({
          operation: "test.insert",
          text: "insert into runtimes (project_id) values ($1::bigint)",
          parameters: [project]
        })
      })
    )
  })

const may = (caller: Caller, project: ProjectId, access: "read" | "write") =>
  Effect.gen(function* () {
    const db = yield* PluginDb
    const accounts = yield* HostAccounts
    return yield* db.transaction("test.access", accounts.requireAccess(caller, project, access)).pipe(
      Effect.as(true),
      Effect.catchTag("AccessRefused", () => Effect.succeed(false))
    )
  })

const both = (caller: Caller, project: ProjectId) =>
  Effect.all([may(caller, project, "read"), may(caller, project, "write")])

const change = (text: string, caller: Caller) =>
  Effect.flatMap(Clone, ({ admin }) => admin(text, [caller.account]))

const revocations = [
  ["membership is revoked", "delete from core.memberships where account_id = $1::uuid"],
  [
    "membership becomes a viewer's",
    "update core.memberships set role = 'viewer' where account_id = $1::uuid"
  ],
  ["account is disabled", "update core.accounts set disabled = true where id = $1::uuid"]
] as const

describe("postgres/HostAccounts", () => {
  layer(
    fixture,
    live
  )((it) => {
    for (const [what, revocation] of revocations) {
      it.effect(`SP-ADM-04 a caller whose ${what} between request and transaction writes nothing`, () =>
        Effect.gen(function* () {
          const { project } = yield* newProject
          const { admin } = yield* Clone
          const caller = yield* newAccount({ project, role: "member" })
          assert.isTrue(yield* may(caller, project, "write"), "the request is admitted")
          yield* change(revocation, caller)
          const refusal = yield* Effect.flip(writing(caller, project))
          assert.deepInclude({ ...refusal }, { _tag: "AccessRefused", account: caller.account, project })
          const text = "select 1 from plugin_sandbox.runtimes where project_id = $1::bigint"
          assert.deepStrictEqual(yield* admin(text, [project]), [])
        })
      )
    }

    it.effect(
      "SP-ADM-04 an administrator who was one at the request, and is none any more, writes nothing",
      () =>
        Effect.gen(function* () {
          const { project } = yield* newProject
          const caller = yield* newAccount()
          yield* change("update core.accounts set administrator = true where id = $1::uuid", caller)
          assert.deepStrictEqual(yield* both(caller, project), [true, true])
          yield* change("update core.accounts set administrator = false where id = $1::uuid", caller)
          assert.strictEqual((yield* Effect.flip(writing(caller, project)))._tag, "AccessRefused")
        })
    )

    it.effect("owners and members write, viewers read, and nobody else does either", () =>
      Effect.gen(function* () {
        const { project } = yield* newProject
        const access = (given: Parameters<typeof newAccount>[0]) =>
          Effect.flatMap(newAccount(given), (caller) => both(caller, project))
        assert.deepStrictEqual(yield* access({ project, role: "owner" }), [true, true])
        assert.deepStrictEqual(yield* access({ project, role: "member" }), [true, true])
        assert.deepStrictEqual(yield* access({ project, role: "viewer" }), [true, false])
        assert.deepStrictEqual(yield* access({}), [false, false])
        assert.deepStrictEqual(yield* both(yield* newStranger, project), [false, false], "another tenant")
      })
    )
  })
})
