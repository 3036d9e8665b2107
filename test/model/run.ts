/** What a run of the model knows: the oracle, the daemons and Projects, and who holds what. */
import * as Effect from "effect/Effect"
import { NodeId, type ProcessIdentity } from "../../src/domain/Identity.ts"
import type { Operation } from "../../src/domain/operations/Operation.ts"
import { daemon, newProject, nodeHere, rows, type Scene } from "../infra/postgres/operationsFixture.ts"
import { makeSeededRandom, type SeededRandom } from "../support/seededRandom.ts"
import { Oracle } from "./oracle.ts"

const nodeThere = NodeId.make("00000000-0000-4000-8000-00000000000b")
const projectsAtOnce = 4

/** A claim that some daemon holds, or believes that it does. */
export interface Held {
  readonly name: string
  readonly by: ProcessIdentity
  operation: Operation
}

/** One run: the oracle, the daemons, and what they hold. */
export class Run {
  readonly random: SeededRandom
  constructor(seed: number) {
    this.random = makeSeededRandom(seed)
  }

  readonly oracle = new Oracle()
  readonly scenes = new Map<string, Scene>()
  readonly daemons: Array<ProcessIdentity> = []
  readonly dead = new Set<string>()
  /** Claims that were ever held, dead daemons' and lost ones too. */
  readonly held: Array<Held> = []
  /** Names by the ids of the rows. */
  readonly names = new Map<string, string>()
  readonly succeeded = new Map<string, number>()
  made = 0

  spawn(node: NodeId): ProcessIdentity {
    const started = daemon(100 + this.daemons.length, { node })
    this.daemons.push(started)
    return started
  }

  get alive(): ReadonlyArray<ProcessIdentity> {
    return this.daemons.filter((each) => !this.dead.has(each.toString()))
  }

  success(command: string): void {
    this.succeeded.set(command, (this.succeeded.get(command) ?? 0) + 1)
  }

  readonly begin = Effect.gen({ self: this }, function* () {
    yield* rows(
      "insert into nodes (id, name) values ($1::uuid, 'here'), ($2::uuid, 'there') on conflict do nothing",
      [nodeHere, nodeThere]
    )
    for (const node of [nodeHere, nodeHere, nodeThere]) this.spawn(node)
  })

  readonly addProject = Effect.gen({ self: this }, function* () {
    const scene = yield* newProject
    const name = `p${this.scenes.size + 1}`
    this.scenes.set(name, scene)
    this.oracle.projects.set(name, { name, isActive: true, runtime: null })
    return name
  })

  /** A Project to do something with: an active one, or now and then one that is closed. */
  readonly someProject = Effect.gen({ self: this }, function* () {
    const active = [...this.oracle.projects.values()].filter(({ isActive }) => isActive)
    if (active.length < projectsAtOnce) return yield* this.addProject
    const closed = [...this.oracle.projects.values()].filter(({ isActive }) => !isActive)
    return closed.length > 0 && this.random.percent(5)
      ? this.random.pick(closed).name
      : this.random.pick(active).name
  })
}
