import * as Fs from "node:fs"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { ProjectNotActive } from "../../../src/domain/host/Projects.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { apiErrors, Conflict, Internal, NotFound } from "../../../src/infra/http/ApiErrors.ts"
import { answerOf, refusalTable, statusOf } from "../../../src/infra/http/refusals.ts"

const domain = fileURLToPath(new URL("../../../src/domain", import.meta.url))

/** Every `code` that a class of the domain declares. */
const declaredCodes = (): ReadonlyArray<string> =>
  Fs.readdirSync(domain, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) =>
      [...Fs.readFileSync(Path.join(domain, file), "utf8").matchAll(/readonly code = "([a-z_]+)"/g)].map(
        (match) => match[1]!
      )
    )

describe("refusals", () => {
  it("every code that the domain declares has a status", () => {
    const codes = declaredCodes()
    assert.isAtLeast(codes.length, 15)
    assert.deepStrictEqual(
      codes.filter((code) => !Object.hasOwn(refusalTable, code)),
      []
    )
  })

  it("a refusal keeps its code and its sentence and shows only the fields that the table names", () => {
    const answer = answerOf(new ProjectNotActive({ project: ProjectId.make(7) }))
    assert.instanceOf(answer, Conflict)
    assert.deepStrictEqual(
      [answer.code, answer.message, answer.details],
      ["project_not_active", "project 7 is not active: it does not exist or is being deleted", { project: 7 }]
    )
    const secret = { code: "project_not_active", message: "m", project: 7, token: "canary" }
    assert.notInclude(JSON.stringify(answerOf(secret)), "canary")
  })

  it("a code that nobody knows becomes a 500 that tells nothing of it", () => {
    for (const code of ["brand_new", "constructor", "__proto__", "transaction_ended"]) {
      const answer = answerOf({ code, message: "canary" })
      assert.instanceOf(answer, Internal)
      assert.strictEqual(answer.code, "internal")
      assert.notInclude(JSON.stringify(answer), "canary")
    }
  })

  it("an error body of the API passes through unchanged", () => {
    const body = new NotFound({ code: "c", message: "m", details: { a: 1 } })
    assert.strictEqual(answerOf(body), body)
  })

  it("every status of the table has an error body of its own", () => {
    for (const code of Object.keys(refusalTable)) {
      const made = answerOf({ code, message: "m" })
      assert.isTrue(
        apiErrors.some((errorClass) => made instanceof errorClass),
        `${code} ${statusOf(code)}`
      )
    }
  })
})
