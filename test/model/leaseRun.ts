/** What a run of the model of leases knows: the oracle, the processes with registers and clocks of their own, the handles. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import { GuestFailure, GuestSupervisor } from "../../src/domain/guests/GuestSupervisor.ts"
import { NodeId, ProcessIdentity, type SandboxId } from "../../src/domain/Identity.ts"
import type { LeaseHandle } from "../../src/domain/leases/execution.ts"
import { HeldLeases } from "../../src/domain/leases/HeldLeases.ts"
import type { ObservedLease } from "../../src/domain/leases/Lease.ts"
import type { RepositoryHandle } from "../../src/domain/leases/repository.ts"
import type { ObservedClaim } from "../../src/domain/leases/RepositoryClaim.ts"
import { Processes } from "../../src/domain/Processes.ts"
import { node as nodeHere, seedRuntime, type SeededRuntime, sql } from "../domain/leases/fixture.ts"
import { makeSeededRandom, type SeededRandom } from "../support/seededRandom.ts"
import { LeaseOracle, type Seen } from "./leaseOracle.ts"

const nodeThere = NodeId.make("00000000-0000-4000-8000-00000000000c")
const projectsAtOnce = 3
const hourMillis = 3_600_000

/** A daemon of the run: its identity, and its own monotonic clock, which only the run moves on. */
export class Daemon {
  readonly identity: ProcessIdentity
  private nanos = 0n
  constructor(pid: number, node: NodeId) {
    this.identity = new ProcessIdentity({
      daemon: randomUUID(),
      node,
      bootId: "00000000-0000-4000-8000-00000000000b",
      pid,
      startTicks: "77"
    })
  }

  get written(): string {
    return this.identity.toString()
  }

  passHour(): void {
    this.nanos += BigInt(hourMillis) * 1_000_000n
  }

  clockOver(real: Clock.Clock): Clock.Clock {
    return {
      currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe(),
      currentTimeMillis: real.currentTimeMillis,
      currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
      currentTimeNanos: real.currentTimeNanos,
      monotonicTimeNanosUnsafe: () => this.nanos,
      monotonicTimeNanos: Effect.sync(() => this.nanos),
      sleep: (duration) => real.sleep(duration)
    }
  }
}

export type Held =
  | { readonly name: string; readonly by: Daemon; readonly kind: "execution"; readonly handle: LeaseHandle }
  | {
      readonly name: string
      readonly by: Daemon
      readonly kind: "repository"
      readonly handle: RepositoryHandle
    }

/** An inventory that a sweep has read, and may act on much later. */
export interface Inventory {
  readonly node: NodeId
  readonly leases: ReadonlyArray<ObservedLease>
  readonly claims: ReadonlyArray<ObservedClaim>
  readonly seen: ReadonlyArray<Seen>
}

export class LeaseRun {
  readonly random: SeededRandom
  constructor(seed: number) {
    this.random = makeSeededRandom(seed)
  }

  readonly oracle = new LeaseOracle()
  readonly scenes = new Map<string, SeededRuntime>()
  readonly sandboxes = new Map<string, SandboxId>()
  readonly daemons: Array<Daemon> = []
  readonly dead = new Set<string>()
  /** Guests of which nobody can say whether they live. */
  readonly unknown = new Set<string>()
  readonly held: Array<Held> = []
  readonly inventories: Array<Inventory> = []
  /** Names by the ids of the rows. */
  readonly names = new Map<string, string>()
  readonly succeeded = new Map<string, number>()
  made = 0

  success(command: string): void {
    this.succeeded.set(command, (this.succeeded.get(command) ?? 0) + 1)
  }

  get alive(): ReadonlyArray<Daemon> {
    return this.daemons.filter(({ written }) => !this.dead.has(written))
  }

  daemonOf(written: string): Daemon {
    return this.daemons.find((each) => each.written === written)!
  }

  spawn(node: NodeId): void {
    this.daemons.push(new Daemon(100 + this.daemons.length, node))
  }

  sandboxOf(project: string, generation: number): SandboxId {
    return this.sandboxes.get(`${project}/${generation}`)!
  }

  readonly begin = Effect.gen({ self: this }, function* () {
    yield* sql(
      "insert into nodes (id, name) values ($1::uuid, 'here'), ($2::uuid, 'there') on conflict do nothing",
      [nodeHere, nodeThere]
    )
    for (const node of [nodeHere, nodeHere, nodeThere]) this.spawn(node)
  })

  /** A Project to do something with: mostly one that is active. */
  readonly someProject = Effect.gen({ self: this }, function* () {
    const all = [...this.oracle.projects.values()]
    const active = all.filter(({ isActive }) => isActive)
    if (active.length >= projectsAtOnce) return this.random.pick(this.random.percent(95) ? active : all).name
    const scene = yield* seedRuntime(`p${all.length + 1}`)
    const name = `p${all.length + 1}`
    this.scenes.set(name, scene)
    this.sandboxes.set(`${name}/1`, scene.sandbox)
    this.oracle.projects.set(name, { name, generation: 1, isActive: true, isRunning: true })
    return name
  })

  private readonly registers = new Map<string, HeldLeases["Service"]>()
  /** Never closed: what a dead process holds is not given back by it. */
  private readonly scope = Scope.makeUnsafe()

  /** Runs a program in the daemon: with its register, its clock, and what it can see of the others and of guests. */
  readonly as =
    (daemon: Daemon) =>
    <A, E, R>(program: Effect.Effect<A, E, R>) =>
      Effect.gen({ self: this }, function* () {
        const processes = Layer.succeed(Processes, {
          current: daemon.identity,
          liveness: (other) =>
            Effect.succeed(
              other.node !== daemon.identity.node
                ? "elsewhere"
                : this.dead.has(other.toString())
                  ? "dead"
                  : "alive"
            )
        })
        const register =
          this.registers.get(daemon.written) ??
          (yield* HeldLeases.pipe(
            Effect.provide(Layer.fresh(HeldLeases.layer).pipe(Layer.provide(processes)))
          ))
        this.registers.set(daemon.written, register)
        const guests = yield* GuestSupervisor
        return yield* program.pipe(
          Effect.provideService(Scope.Scope, this.scope),
          Effect.provideService(HeldLeases, register),
          Effect.provideService(GuestSupervisor, {
            ...guests,
            inspect: (sandbox) =>
              this.unknown.has(sandbox)
                ? Effect.fail(new GuestFailure({ sandbox, step: "inspect", detail: "nobody can tell" }))
                : guests.inspect(sandbox)
          }),
          Effect.provide(processes),
          // A sweep warns of each guest that it cannot see, and this one hides them all the time.
          Effect.provideService(References.MinimumLogLevel, "None"),
          Effect.provideService(Clock.Clock, daemon.clockOver(yield* Clock.Clock))
        )
      })
}
