import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import { OperationId, RequestKey } from "../../../src/domain/Identity.ts"
import { type Admission, decideAdmission } from "../../../src/domain/operations/admissionDecision.ts"
import type { Operation, OperationRequest } from "../../../src/domain/operations/Operation.ts"
import type { Runtime } from "../../../src/domain/runtimes/Runtime.ts"
import { generation, operation, recipe, request, runtime, uuid } from "./builders.ts"

const decide = (
  state: { readonly runtime?: Runtime | null; readonly receipt?: Operation; readonly live?: Operation },
  asked: Partial<OperationRequest> = {},
  initiator: "user" | "agent" | "system" = "user"
) =>
  decideAdmission(
    {
      runtime: state.runtime === null ? Option.none() : Option.some(state.runtime ?? runtime()),
      receipt: Option.fromNullishOr(state.receipt),
      live: Option.fromNullishOr(state.live)
    },
    request(asked),
    initiator
  )

const told = (admission: Admission): string =>
  admission._tag === "Refuse" ? admission.refusal.code : admission._tag

const other = (given: Partial<Operation>) =>
  operation({ id: OperationId.make(uuid(2)), rowId: 2, requestKey: RequestKey.make("other"), ...given })

describe("decideAdmission", () => {
  it("admits a start of a provisioned runtime under the runtime's own generation", () => {
    const admission = decide({ runtime: runtime({ generation: generation(4) }) })
    assert.strictEqual(admission._tag, "Insert")
    assert.strictEqual(admission._tag === "Insert" ? admission.generation : 0, 4)
  })

  it("SP-ADM-07 the same key and request is answered with its operation, whatever state it is in but failed", () => {
    for (const state of ["queued", "claimed", "succeeded", "superseded"] as const) {
      const receipt = operation({ state })
      const admission = decide(
        { receipt, live: operation({ state: "claimed" }) },
        { expectedGeneration: generation(1) }
      )
      assert.deepStrictEqual(admission._tag === "Repeat" ? admission.operation : null, receipt, state)
    }
  })

  it("SP-ADM-07 the same key with another action, generation or parameter is a conflict", () => {
    const receipt = operation({ action: "provision", parameters: { cpuMillis: 500 }, state: "succeeded" })
    const same = { action: "provision", parameters: { cpuMillis: 500 } } as const
    assert.strictEqual(told(decide({ receipt }, same)), "Repeat")
    assert.strictEqual(told(decide({ receipt }, { ...same, action: "start" })), "request_key_conflict")
    assert.strictEqual(
      told(decide({ receipt }, { ...same, expectedGeneration: generation(2) })),
      "request_key_conflict"
    )
    assert.strictEqual(
      told(decide({ receipt }, { ...same, parameters: { cpuMillis: 501 } })),
      "request_key_conflict"
    )
    assert.strictEqual(told(decide({ receipt }, { ...same, parameters: {} })), "request_key_conflict")
  })

  it("a failed receipt asked for again is re-armed on its own machine only", () => {
    const receipt = operation({ state: "failed" })
    assert.strictEqual(told(decide({ receipt })), "Rearm")
    assert.strictEqual(
      told(decide({ receipt, runtime: runtime({ generation: generation(2) }) })),
      "generation_conflict"
    )
    const switched = operation({ state: "failed", action: "rebuild", newRecipe: recipe(2) })
    assert.strictEqual(
      told(
        decide({ receipt: switched, runtime: runtime({ generation: generation(2) }) }, { action: "rebuild" })
      ),
      "Rearm"
    )
    assert.strictEqual(told(decide({ receipt, live: other({}) })), "operation_in_progress")
  })

  it("SP-ADM-08 a generation that differs is refused with both values", () => {
    const admission = decide(
      { runtime: runtime({ generation: generation(3) }) },
      { expectedGeneration: generation(2) }
    )
    const refusal = admission._tag === "Refuse" ? admission.refusal : null
    assert.deepInclude({ ...refusal }, { _tag: "GenerationConflict", expected: 2, actual: 3 })
  })

  it("SP-ADM-09 a second live operation is refused and the first is named", () => {
    for (const state of ["queued", "claimed"] as const) {
      const admission = decide({ live: other({ state, action: "snapshot" }) })
      const refusal = admission._tag === "Refuse" ? admission.refusal : null
      assert.deepInclude(
        { ...refusal },
        {
          _tag: "OperationInProgress",
          operation: uuid(2),
          action: "snapshot",
          state
        }
      )
    }
  })

  it("an explicit stop takes the place of a waiting automatic recovery, and of nothing else", () => {
    const recovery = other({ action: "recover", initiator: "system", account: null })
    const stop = decide({ live: recovery }, { action: "stop" })
    assert.deepStrictEqual(stop._tag === "Insert" ? Option.getOrNull(stop.supersedes) : null, recovery)
    assert.strictEqual(told(decide({ live: recovery }, { action: "start" })), "operation_in_progress")
    assert.strictEqual(
      told(decide({ live: recovery }, { action: "stop" }, "system")),
      "operation_in_progress"
    )
    const claimed = other({ action: "recover", initiator: "system", state: "claimed" })
    assert.strictEqual(told(decide({ live: claimed }, { action: "stop" })), "operation_in_progress")
    const asked = other({ action: "recover", initiator: "user" })
    assert.strictEqual(told(decide({ live: asked }, { action: "stop" })), "operation_in_progress")
  })

  it("everything but provision needs a machine, and provision needs that there is none", () => {
    const bare = runtime({ observed: "unprovisioned", recipe: null, sandbox: null })
    for (const action of ["start", "stop", "restart", "rebuild", "snapshot", "restore", "recover"] as const) {
      assert.strictEqual(told(decide({ runtime: null }, { action })), "runtime_not_provisioned", action)
      assert.strictEqual(told(decide({ runtime: bare }, { action })), "runtime_not_provisioned", action)
    }
    assert.strictEqual(told(decide({ runtime: bare }, { action: "provision" })), "Insert")
    assert.strictEqual(
      told(decide({ runtime: runtime({ observed: "failed" }) }, { action: "provision" })),
      "Insert"
    )
    for (const observed of ["running", "stopped"] as const) {
      assert.strictEqual(
        told(decide({ runtime: runtime({ observed }) }, { action: "provision" })),
        "runtime_already_provisioned"
      )
    }
  })
})
