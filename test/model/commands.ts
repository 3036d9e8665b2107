/** The commands of the model: each goes to the product and to the oracle, whose answers must agree. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { Generation, RequestKey, SandboxId } from "../../src/domain/Identity.ts"
import { admitOperation } from "../../src/domain/operations/admission.ts"
import { admitOperationStepwise } from "../../src/domain/operations/admissionStepwise.ts"
import { claimNext, releaseClaim, saveOperation } from "../../src/domain/operations/claims.ts"
import { machineGenerationOf } from "../../src/domain/operations/Operation.ts"
import { recoverClaims } from "../../src/domain/operations/recovery.ts"
import { recordMachineAbsent, settleOperation } from "../../src/domain/operations/settlement.ts"
import { Processes } from "../../src/domain/Processes.ts"
import { MachineRecipe } from "../../src/domain/runtimes/Runtime.ts"
import { RuntimeStore } from "../../src/domain/runtimes/RuntimeStore.ts"
import { layer as operationStore } from "../../src/infra/postgres/OperationStore.ts"
import { goneGuest } from "../domain/leases/fixture.ts"
import { type Admit, ask, recipeOf, rows } from "../infra/postgres/operationsFixture.ts"
import type { Held, Run } from "./run.ts"

const actions = ["provision", "start", "stop", "restart", "rebuild", "recover"] as const
const keysOfProject = 12

const words = (error: { readonly _tag: string }): string => error._tag

const admit = Effect.fnUntraced(function* (run: Run) {
  const { oracle, random } = run
  const project = yield* run.someProject
  const scene = run.scenes.get(project)!
  const runtime = oracle.project(project).runtime
  const drawn = runtime?.machine == null && random.percent(70) ? "provision" : random.pick(actions)
  const isSystem = drawn === "recover" && random.percent(70)
  const failed = oracle.operations.filter((each) => each.project === project && each.state === "failed")
  const again = failed.length > 0 && random.percent(25) ? random.pick(failed) : undefined
  const key = again?.key ?? (random.percent(50) ? `k${random.below(keysOfProject)}` : `n${(run.made += 1)}`)
  const expected = random.percent(20) ? 1 + random.below(2) : null
  const wanted = again === undefined ? drawn : (again.action as typeof drawn)
  run.made += 1
  const asked = {
    project,
    action: wanted,
    key,
    initiator: isSystem ? "system" : "user",
    expected,
    name: `o${run.made}`
  } as const
  const form: Admit = random.percent(50) ? admitOperation : admitOperationStepwise
  const request = ask(scene.project, {
    action: wanted,
    requestKey: RequestKey.make(key),
    expectedGeneration: expected === null ? null : Generation.make(expected)
  })
  const answered = yield* Effect.result(form(isSystem ? "system" : scene.caller, request))
  const answer = Result.isSuccess(answered) ? answered.success.outcome : words(answered.failure)
  const foreseen = oracle.admit(asked)
  assert.strictEqual(answer, foreseen, `${wanted} of ${project} under ${key}`)
  if (Result.isSuccess(answered)) {
    const { id } = answered.success.operation
    if (answer === "admitted") run.names.set(id, asked.name)
  }
  run.success(`admit ${answer}`)
})

const claim = Effect.fnUntraced(function* (run: Run) {
  const by = run.random.pick(run.alive)
  // A store of its own, as each daemon has: what one remembers of the queue's beginning is no other's.
  const claimed = Option.getOrNull(yield* claimNext(by).pipe(Effect.provide(Layer.fresh(operationStore))))
  const foreseen = run.oracle.claim(by.toString(), by.node)
  assert.strictEqual(claimed === null ? null : run.names.get(claimed.id), foreseen, "the claim")
  if (claimed === null || foreseen === null) return
  run.held.push({ name: foreseen, by, operation: claimed })
  run.success("claim")
})

const heldBy = ({ by, operation }: Held) => ({ daemon: by.toString(), claims: operation.claimSequence })

const machineOf = ({ generation, node, sandbox }: MachineRecipe) => ({ generation, node, sandbox })

/** A claim to work on: mostly a good one, now and then one that was lost. */
const someHeld = (run: Run): Held | undefined => {
  const known = run.held.filter(({ name }) => run.oracle.operations.some((each) => each.name === name))
  const good = known.filter(
    (held) =>
      run.oracle.isHeld(run.oracle.operation(held.name), heldBy(held)) && !run.dead.has(held.by.toString())
  )
  const from = good.length > 0 && run.random.percent(85) ? good : known
  return from.length === 0 ? undefined : run.random.pick(from)
}

const make = Effect.fnUntraced(function* (run: Run) {
  const held = someHeld(run)
  if (held === undefined) return
  const { by, name, operation } = held
  const { machine } = run.oracle.project(run.oracle.operation(name).project).runtime ?? { machine: null }
  if (machine !== null || operation.action !== "provision") return
  const recipe = new MachineRecipe({ ...recipeOf(operation.generation), node: by.node })
  const saved = yield* Effect.result(
    saveOperation(operation, {
      step: "image",
      fraction: 0,
      message: null,
      flags: ["creating"],
      newRecipe: recipe
    })
  )
  const foreseen = run.oracle.make(name, heldBy(held), machineOf(recipe))
  assert.strictEqual(Result.isSuccess(saved) ? "saved" : words(saved.failure), foreseen)
  if (Result.isFailure(saved)) return run.success("make lost")
  held.operation = saved.success
  yield* (yield* RuntimeStore).saveRecipe(operation.project, { generation: operation.generation, recipe })
  run.success("make")
})

const replace = Effect.fnUntraced(function* (run: Run) {
  const held = someHeld(run)
  if (held === undefined) return
  const { name, operation } = held
  const { runtime } = run.oracle.project(run.oracle.operation(name).project)
  const isFirst = run.oracle.operation(name).newGeneration === null && operation.newRecipe === null
  if (operation.action !== "rebuild" || runtime?.machine == null || !isFirst) return
  if (operation.generation !== runtime.generation) return
  const runtimes = yield* RuntimeStore
  const old = Option.getOrThrow(yield* runtimes.runtime(operation.project)).recipe!
  const recipe = new MachineRecipe({ ...recipeOf(runtime.generation + 1), node: old.node })
  const replaced = yield* Effect.result(
    runtimes.transaction("test.replace", (store) =>
      Effect.andThen(
        store.replaceMachine(operation.project, { from: old.generation, recipe }),
        saveOperation(operation, {
          step: "remove",
          fraction: 0,
          message: null,
          flags: ["creating", "switched"],
          oldRecipe: old,
          newRecipe: recipe
        })
      )
    )
  )
  const foreseen = run.oracle.replace(name, heldBy(held), machineOf(recipe))
  assert.strictEqual(Result.isSuccess(replaced) ? "saved" : words(replaced.failure), foreseen)
  if (Result.isFailure(replaced)) return run.success("replace lost")
  held.operation = replaced.success
  run.success("replace")
})

const settle = Effect.fnUntraced(function* (run: Run) {
  const held = someHeld(run)
  if (held === undefined) return
  const { name, operation } = held
  const state = run.random.percent(65) ? ("succeeded" as const) : ("failed" as const)
  const observed = state === "failed" ? "failed" : operation.action === "stop" ? "stopped" : "running"
  const outcome = state === "succeeded" ? { state } : ({ state, code: "broken", text: "it broke" } as const)
  const settled = yield* Effect.result(
    settleOperation(operation, outcome, {
      generation: machineGenerationOf(operation),
      observed,
      reason: null
    })
  )
  const foreseen = run.oracle.settle(name, heldBy(held), { state, observed })
  assert.strictEqual(Result.isSuccess(settled) ? "settled" : words(settled.failure), foreseen)
  run.success(`settle ${foreseen} ${state}`)
  if (run.oracle.trimmed > 0) run.success("trim")
})

const release = Effect.fnUntraced(function* (run: Run) {
  const held = someHeld(run)
  if (held === undefined) return
  const isReleased = yield* releaseClaim(held.operation)
  const foreseen = run.oracle.release(held.name, heldBy(held))
  assert.strictEqual(isReleased, foreseen, "the release")
  run.success(`release ${foreseen}`)
})

/** A daemon dies, another one takes its place, and one of its node looks for what was left. */
const kill = Effect.fnUntraced(function* (run: Run) {
  const victim = run.random.pick(run.alive)
  run.dead.add(victim.toString())
  run.spawn(victim.node)
  run.success("kill")
  yield* Effect.void
})

const recover = Effect.fnUntraced(function* (run: Run) {
  const by = run.random.pick(run.alive)
  const processes = Layer.succeed(Processes, {
    current: by,
    liveness: (other) =>
      Effect.succeed(other.node !== by.node ? "elsewhere" : run.dead.has(other.toString()) ? "dead" : "alive")
  })
  const { stolen } = yield* recoverClaims().pipe(Effect.provide(processes))
  const onNode = new Set(run.daemons.filter(({ node }) => node === by.node).map((each) => each.toString()))
  const foreseen = run.oracle.recover(by.node, (written) => onNode.has(written) && run.dead.has(written))
  assert.strictEqual(stolen.length, foreseen, "claims of the dead")
  if (foreseen > 0) run.success("recover")
})

const close = Effect.fnUntraced(function* (run: Run) {
  if (!run.random.percent(8)) return
  const project = yield* run.someProject
  yield* rows("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [
    run.scenes.get(project)!.project
  ])
  run.oracle.project(project).isActive = false
  run.success("close")
})

const prove = Effect.fnUntraced(function* (run: Run) {
  const owing = run.oracle.operations.filter(
    ({ owed, project, state }) =>
      owed.length > 0 && !["queued", "claimed"].includes(state) && !run.oracle.project(project).isActive
  )
  if (owing.length === 0) return
  const { owed, project } = run.random.pick(owing)
  const { generation, sandbox } = run.random.pick(owed)
  const proof = goneGuest(SandboxId.make(sandbox), generation)
  yield* recordMachineAbsent(run.scenes.get(project)!.project, proof)
  run.oracle.prove(project, sandbox)
  run.success("prove")
})

/** As often as each is drawn. */
export const commands = [
  [admit, admit, admit, claim, claim, make, make, replace, replace, settle, settle],
  [release, kill, recover, close, prove]
].flat()

/** Every way in which a command can end that the rules allow. */
export const ends = [
  ["admitted", "repeated", "rearmed"].map((outcome) => `admit ${outcome}`),
  ["ProjectNotActive", "RequestKeyConflict", "RuntimeNotProvisioned", "GenerationConflict"].map(
    (refusal) => `admit ${refusal}`
  ),
  ["OperationInProgress", "RuntimeAlreadyProvisioned"].map((refusal) => `admit ${refusal}`),
  ["claim", "make", "make lost", "replace", "kill", "recover", "close", "prove", "trim"],
  ["settle settled succeeded", "settle settled failed", "release true", "release false"],
  ["settle ClaimLost succeeded", "settle ClaimLost failed"]
].flat()
