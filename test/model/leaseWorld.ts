/** What happens around leases in the model: clocks, daemons, machines, Projects, and rows that are lost. */
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { SandboxId } from "../../src/domain/Identity.ts"
import { sql } from "../domain/leases/fixture.ts"
import type { Daemon, LeaseRun } from "./leaseRun.ts"

/** An hour passes by the daemon's own clock. */
const passHour = (run: LeaseRun, daemon: Daemon): void => {
  daemon.passHour()
  for (const holding of run.oracle.heldBy(daemon.written)) holding.isLate = true
}

/** An hour without a heartbeat: by the database's clock, by the holder's own, or by both. Nothing waits. */
const expire = Effect.fnUntraced(function* (run: LeaseRun) {
  if (run.oracle.rows.length === 0) return
  const daemon = run.daemonOf(run.random.pick(run.oracle.rows).process)
  const clock = run.random.pick(["database", "holder", "both", "both"] as const)
  if (clock !== "holder") {
    for (const table of ["execution_leases", "repository_claims"]) {
      yield* sql(`update ${table} set heartbeat_at = now() - interval '1 hour' where process = $1`, [
        daemon.written
      ])
    }
    for (const row of run.oracle.rows) if (row.process === daemon.written) row.isSilent = true
  }
  if (clock !== "database") passHour(run, daemon)
  run.success(`expire ${clock}`)
})

/** A row goes that nobody has given up, as behind a database that was restored; that may take its time. */
const lose = Effect.fnUntraced(function* (run: LeaseRun) {
  const kind = run.random.pick(["execution", "repository"] as const)
  const rows = run.oracle.rows.filter((row) => row.kind === kind && row.cancel !== "verified")
  if (rows.length === 0) return
  const lost = run.random.pick(rows)
  const id = [...run.names].find(([, name]) => name === lost.name)![0]
  const table = kind === "execution" ? "execution_leases" : "repository_claims"
  yield* sql(`delete from ${table} where id = $1::uuid`, [id])
  run.oracle.rows = run.oracle.rows.filter((row) => row !== lost)
  if (run.random.percent(30)) passHour(run, run.daemonOf(lost.process))
  run.success("lose")
})

const kill = (run: LeaseRun) =>
  Effect.sync(() => {
    const victim = run.random.pick(run.alive)
    run.dead.add(victim.written)
    run.spawn(victim.identity.node)
    run.success("kill")
  })

const replaceMachine = Effect.fnUntraced(function* (run: LeaseRun) {
  const project = run.oracle.project(yield* run.someProject)
  const sandbox = SandboxId.make(`sb-${randomUUID()}`)
  yield* sql(
    "update runtimes set generation = generation + 1, sandbox_id = $2 where project_id = $1::bigint",
    [run.scenes.get(project.name)!.project, sandbox]
  )
  project.generation += 1
  run.sandboxes.set(`${project.name}/${project.generation}`, sandbox)
  run.success("replace")
})

const startOrStop = Effect.fnUntraced(function* (run: LeaseRun) {
  const project = run.oracle.project(yield* run.someProject)
  project.isRunning = !project.isRunning || run.random.percent(50)
  yield* sql("update runtimes set observed = $2 where project_id = $1::bigint", [
    run.scenes.get(project.name)!.project,
    project.isRunning ? "running" : "stopped"
  ])
  run.success(project.isRunning ? "start" : "stop")
})

const close = Effect.fnUntraced(function* (run: LeaseRun) {
  const project = run.oracle.project(yield* run.someProject)
  yield* sql("update core.projects set lifecycle = 'deleting' where id = $1::bigint", [
    run.scenes.get(project.name)!.project
  ])
  project.isActive = false
  run.success("close")
})

/** A guest of which nothing can be said, or all of them to be seen again. */
const hide = (run: LeaseRun) =>
  Effect.sync(() => {
    if (run.unknown.size > 0) return run.unknown.clear()
    for (const sandbox of run.sandboxes.values()) if (run.random.percent(50)) run.unknown.add(sandbox)
    run.success("hide")
  })

/** As often as each is drawn. */
export const happenings = [
  [expire, expire, expire, expire, expire, expire, lose, lose, lose, kill, kill],
  [replaceMachine, startOrStop, startOrStop, close, hide]
].flat()
