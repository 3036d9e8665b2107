/** The plugin's routes on a real database over a real socket: what they answer, refuse, write and leave alone. */
import { randomUUID } from "node:crypto"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Caller } from "../../../src/domain/host/Accounts.ts"
import { disagreement } from "../../../src/domain/host/pluginLoading.ts"
import type { ProjectId } from "../../../src/domain/Identity.ts"
import { PluginTx } from "../../../src/domain/persistence/PluginDb.ts"
import { environmentRoutes } from "../../../src/infra/http/environmentRoutes.ts"
import { manifest } from "../../../src/layers/sandboxPlugin.ts"
import { Clone } from "../../support/clone.ts"
import { newProject, provisioned, rows, value } from "../postgres/operationsFixture.ts"
import { ask, codeOf } from "./asking.ts"
import { Calls, fixture, serve } from "./environmentScene.ts"

const live = { excludeTestServices: true } as const

const at = (project: number | string): string => `/plugins/sandbox/api/projects/${project}/environment`

const revoke = (project: ProjectId, { account }: Caller) =>
  rows("delete from core.memberships where project_id = $1::bigint and account_id = $2::uuid", [
    project,
    account
  ])

const demote = (project: ProjectId, { account }: Caller) =>
  rows(
    "update core.memberships set role = 'viewer' where project_id = $1::bigint and account_id = $2::uuid",
    [project, account]
  )

const written = (project: ProjectId) =>
  value("select count(*)::int from runtime_operations where project_id = $1::bigint", [project])

const start = (given: object = {}) => ({ action: "start", requestId: randomUUID(), ...given })

layer(fixture, live)("environmentRoutes", (it) => {
  it.effect("SP-HTTP-01 SP-DB-07 the manifest declares exactly the routes that are registered", () =>
    Effect.gen(function* () {
      const routes = yield* environmentRoutes
      assert.deepStrictEqual(
        manifest.routes.map(({ method, pattern }) => `${method} ${pattern}`),
        ["GET projects/:id/environment", "POST projects/:id/environment"]
      )
      const removal = {
        name: "plugin:sandbox",
        phase: "storage",
        describe: () => Effect.die("unasked"),
        remove: () => Effect.die("unasked")
      } as const
      assert.isNull(disagreement(manifest, { routes, removal }))
      assert.isNotNull(disagreement(manifest, { routes: [], removal }))
    })
  )

  it.effect("SP-HTTP-03 GET is one snapshot and provisions nothing", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      const path = yield* serve({ caller })
      const calls = yield* Calls
      calls.length = 0
      const answer = yield* ask(path, "GET", at(project))
      assert.strictEqual(answer.status, 200)
      assert.deepStrictEqual(JSON.parse(answer.body), {
        project,
        runtime: null,
        liveOperation: null,
        operations: []
      })
      assert.deepStrictEqual(calls, ["snapshot operations.readEnvironment"])
      assert.strictEqual(
        yield* value("select count(*)::int from runtimes where project_id = $1::bigint", [project]),
        0
      )
    })
  )

  it.effect("SP-HTTP-03 GET waits for no lock on the Project, its runtime or its operation", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const path = yield* serve({ caller })
      const asked = yield* ask(path, "POST", at(project), start())
      const other = yield* (yield* Clone).openDb()
      const lock = (text: string) => ({ operation: "test", text, parameters: [project] })
      yield* other.transaction(
        "test.hold",
        Effect.gen(function* () {
          const tx = yield* PluginTx
          yield* tx.query(lock("select from core.projects where id = $1::bigint for update"))
          yield* tx.query(lock("select from runtimes where project_id = $1::bigint for update"))
          yield* tx.query(lock("select from runtime_operations where project_id = $1::bigint for update"))
          const answer = yield* ask(path, "GET", at(project)).pipe(Effect.timeout("5 seconds"))
          const seen = JSON.parse(answer.body) as { liveOperation: { id: string }; runtime: object }
          assert.strictEqual(seen.liveOperation.id, (JSON.parse(asked.body) as { id: string }).id)
          assert.notProperty(seen.runtime, "carriedBy")
        })
      )
    })
  )

  it.effect("SP-HTTP-02 SP-HTTP-04 what is a 404 by its path sends no statement", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      const path = yield* serve({ caller })
      const calls = yield* Calls
      calls.length = 0
      for (const target of [
        at(`0${project}`),
        at(""),
        `${at(project)}/`,
        at("1e3"),
        "/plugins/other/api/x"
      ]) {
        for (const method of ["GET", "POST", "PUT"]) {
          assert.strictEqual((yield* ask(path, method, target, start())).status, 404, `${method} ${target}`)
        }
      }
      assert.deepStrictEqual(calls, [])
    })
  )

  it.effect("SP-HTTP-04 a membership revoked after the request was identified hides the environment", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const path = yield* serve({ caller, identified: revoke(project, caller) })
      const answer = yield* ask(path, "GET", at(project))
      assert.deepStrictEqual([answer.status, codeOf(answer)], [404, "project_not_found"])
      const asked = yield* ask(path, "POST", at(project), start())
      assert.deepStrictEqual([asked.status, codeOf(asked)], [404, "project_not_found"])
      assert.strictEqual(yield* written(project), 0)
    })
  )

  it.effect("SP-HTTP-04 SP-ADM-04 a membership revoked after the Project was found refuses the write", () =>
    Effect.gen(function* () {
      for (const lose of [revoke, demote]) {
        const { caller, project } = yield* newProject
        yield* provisioned(project)
        const path = yield* serve({ caller, found: lose(project, caller) })
        const answer = yield* ask(path, "POST", at(project), start())
        assert.deepStrictEqual([answer.status, codeOf(answer)], [403, "access_refused"])
        assert.strictEqual(yield* written(project), 0)
      }
    })
  )

  it.effect("SP-HTTP-04 a Project of somebody else is answered like one that does not exist", () =>
    Effect.gen(function* () {
      const { caller } = yield* newProject
      const other = yield* newProject
      const path = yield* serve({ caller })
      for (const project of [other.project, Number.MAX_SAFE_INTEGER]) {
        for (const method of ["GET", "POST"]) {
          const answer = yield* ask(path, method, at(project), method === "GET" ? undefined : start())
          assert.deepStrictEqual([answer.status, codeOf(answer)], [404, "project_not_found"], method)
        }
      }
    })
  )

  it.effect("SP-HTTP-04 a viewer reads and does not ask for anything", () =>
    Effect.gen(function* () {
      const { project, viewer } = yield* newProject
      yield* provisioned(project)
      const path = yield* serve({ caller: viewer })
      assert.strictEqual((yield* ask(path, "GET", at(project))).status, 200)
      const answer = yield* ask(path, "POST", at(project), start())
      assert.deepStrictEqual([answer.status, codeOf(answer)], [403, "access_refused"])
    })
  )

  it.effect("SP-HTTP-03 POST answers the durable operation, with the initiator of the credentials", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const agent = new Caller({ ...caller, initiator: "agent" })
      const path = yield* serve({ caller: agent })
      const request = start({ expectedGeneration: 1 })
      const answer = yield* ask(path, "POST", at(project), request)
      assert.strictEqual(answer.status, 200)
      const operation = JSON.parse(answer.body) as { id: string; initiator: string; state: string }
      assert.deepInclude(operation, { initiator: "agent", state: "queued" })
      assert.deepStrictEqual(
        yield* rows("select initiator, account_id, state from runtime_operations where id = $1::uuid", [
          operation.id
        ]),
        [{ initiator: "agent", account_id: caller.account, state: "queued" }]
      )
      const again = yield* ask(path, "POST", at(project), request)
      assert.strictEqual((JSON.parse(again.body) as { id: string }).id, operation.id)
    })
  )

  it.effect("SP-HTTP-03 POST takes three fields and names what it refuses; nothing is written", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      yield* provisioned(project)
      const path = yield* serve({ caller })
      const table: ReadonlyArray<readonly [string, unknown, string]> = [
        ["parameters", start({ parameters: {} }), "parameters"],
        ["initiator", start({ initiator: "system" }), "initiator"],
        ["project", start({ project }), "project"],
        ["id", start({ id: 1 }), "id"],
        ["no action", { requestId: "r" }, "action"],
        ["no key", { action: "start" }, "requestId"],
        ["an unknown action", start({ action: "explode" }), "action"],
        ["a key with a blank", start({ requestId: "a b" }), "requestId"],
        ["an empty key", start({ requestId: "" }), "requestId"],
        ["a long key", start({ requestId: "x".repeat(161) }), "requestId"],
        ["generation 0", start({ expectedGeneration: 0 }), "expectedGeneration"],
        ["a generation as text", start({ expectedGeneration: "1" }), "expectedGeneration"],
        ["a generation of null", start({ expectedGeneration: null }), "expectedGeneration"]
      ]
      for (const [what, body, field] of table) {
        const answer = yield* ask(path, "POST", at(project), body)
        assert.deepStrictEqual([answer.status, codeOf(answer)], [400, "invalid_request"], what)
        const { details } = JSON.parse(answer.body) as { details: { fields: ReadonlyArray<string> } }
        assert.deepStrictEqual(details.fields, [field], what)
      }
      for (const body of [undefined, [], "[]", "null", '"start"', "{"]) {
        assert.strictEqual((yield* ask(path, "POST", at(project), body)).status, 400, String(body))
      }
      assert.strictEqual(yield* written(project), 0)
    })
  )

  it.effect("SP-HTTP-04 SP-DEL-04 the refusals of admission have their codes; delete is one of them", () =>
    Effect.gen(function* () {
      const { caller, project } = yield* newProject
      const path = yield* serve({ caller })
      const codes = (body: unknown) =>
        Effect.map(ask(path, "POST", at(project), body), (answer) => [answer.status, codeOf(answer)])
      assert.deepStrictEqual(yield* codes(start({ action: "delete" })), [409, "project_deletion_required"])
      assert.deepStrictEqual(yield* codes(start()), [409, "runtime_not_provisioned"])
      yield* provisioned(project)
      assert.deepStrictEqual(yield* codes(start({ expectedGeneration: 2 })), [409, "generation_conflict"])
      const first = start()
      yield* ask(path, "POST", at(project), first)
      assert.deepStrictEqual(yield* codes(start()), [409, "operation_in_progress"])
      assert.deepStrictEqual(yield* codes({ ...first, action: "stop" }), [409, "request_key_conflict"])
      assert.strictEqual(yield* written(project), 1)
    })
  )
})
