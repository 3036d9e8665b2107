/**
 * Random histories of a registry on a simulated disk: lives of a daemon that open or migrate it and admit, change and
 * remove records, several at once, and that end by a call that fails, by the process's death, or by a power failure.
 * After each call to the system every state that the disk may be left in is compared. A seed repeats its history.
 * Source: RG-COM-06, RG-MIG-03.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { SandboxId } from "../../../src/domain/Identity.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { SandboxRecord } from "../../../src/domain/registry/Record.ts"
import type { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import type { FileCalls } from "../../../src/infra/filesystem/durable.ts"
import { makeSeededRandom, type SeededRandom } from "../../support/seededRandom.ts"
import type { SimulatedDisk } from "../../support/simulatedDisk.ts"
import { type Life, startLife, type SystemCall } from "../../support/simulatedDiskCalls.ts"
import { crashImagesOf, diskOf } from "../../support/simulatedDiskCrash.ts"
import { type Beginning, freshBeginning, snapshotBeginning } from "./crashBeginnings.ts"
import {
  compareAll,
  type Enumeration,
  numberedIdentifiers,
  type Oracle,
  portsOver,
  settle
} from "./crashOracle.ts"
import { proofOf, recordOf, type RegistryService, roomy, sandboxOf } from "./fixture.ts"

/** What a test breaks on purpose, to see that the enumeration finds it. */
export interface Breakage {
  readonly calls?: (calls: FileCalls) => FileCalls
  readonly files?: (files: RegistryFiles["Service"]) => RegistryFiles["Service"]
  readonly registry?: (registry: RegistryService) => RegistryService
}

const sandboxesMax = 4
const livesMax = 4
const batchesOfLifeMax = 6
const batchMax = 3
/** A life ends at one of its first so many changes of the disk, or when it has nothing more to do. */
const changesOfLife = [12, 25, 50]
/** Or behind one of its first so many renames and unlinks, where most is undecided. */
const commitsOfLife = 8

export interface Mutation {
  readonly sandbox: SandboxId
  readonly after: string | null
  readonly mutate: (registry: RegistryService) => Effect.Effect<unknown, { readonly _tag: string }>
}

const intended = { reason: "user", actor: "tester", requestedAtMillis: 2_000 } as const

const changeOf = (random: SeededRandom): Partial<SandboxRecord> =>
  random.percent(40)
    ? { deletion: intended }
    : { status: random.pick(["Running", "Paused"]), statusReason: random.pick([null, "x", "y".repeat(40)]) }

/** One mutation that the record allows. */
export const drawMutation = (
  random: SeededRandom,
  committed: Oracle["committed"],
  number: number
): Mutation => {
  const sandbox = sandboxOf(number)
  const text = committed.get(sandbox)
  if (text === undefined) {
    const record = recordOf(number, { statusReason: random.pick([null, "made again"]) })
    return { sandbox, after: JSON.stringify(record), mutate: (registry) => registry.admit(record) }
  }
  const before: ConstructorParameters<typeof SandboxRecord>[0] = JSON.parse(text)
  if (before.deletion !== null && random.percent(70)) {
    return { sandbox, after: null, mutate: (registry) => registry.remove(proofOf(sandbox)) }
  }
  const changed = new SandboxRecord({ ...before, ...changeOf(random) })
  return {
    sandbox,
    after: JSON.stringify(changed),
    mutate: (registry) => registry.update(sandbox, () => Result.succeed(changed))
  }
}

/** Does what waits one at a time in an order of chance, so that writes side by side meet in every way. */
const makeSchedule = (random: SeededRandom) => {
  const jobs: Array<() => void> = []
  let isWaiting = false
  const wait = (): void => {
    isWaiting = jobs.length > 0
    if (isWaiting) setImmediate(pump)
  }
  const pump = (): void => {
    jobs.splice(random.below(jobs.length), 1)[0]!()
    wait()
  }
  return (job: () => void): void => {
    jobs.push(job)
    if (!isWaiting) wait()
  }
}

const isOver = Symbol("the life is over")

/** The registry says when its storage fails, and here it does so often. */
const quiet = Logger.layer([])
const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> =>
  Effect.runPromise(Effect.provide(effect, quiet))

/** One history. What is on disk outlives each life; what is known outlives them all. */
class History {
  readonly #random: SeededRandom
  readonly #identifiers = numberedIdentifiers()
  readonly #oracle: Oracle
  readonly #seed: number
  readonly #enumeration: Enumeration
  readonly #breakage: Breakage
  #disk: SimulatedDisk
  #registry: RegistryService | null = null

  constructor({ beginning, breakage = {}, enumeration, seed }: HistoryOptions) {
    this.#random = makeSeededRandom(seed)
    this.#seed = seed
    this.#enumeration = enumeration
    this.#breakage = breakage
    const { disk, oracle } =
      beginning?.(this.#random) ??
      (this.#random.percent(25) ? snapshotBeginning(this.#random) : freshBeginning())
    this.#disk = disk
    this.#oracle = oracle
  }

  /** A reader's view counts like an answer: what he has seen may not be taken back. Source: RG-COM-02. */
  #believeReaders(): void {
    if (this.#registry === null) return
    const inventory = Effect.runSync(Effect.result(this.#registry.inventory))
    if (Result.isFailure(inventory)) return
    for (const [sandbox, after] of this.#oracle.inFlight) {
      const seen = inventory.success.get(sandbox)
      if ((seen === undefined ? null : JSON.stringify(seen)) === after) settle(this.#oracle, sandbox, after)
    }
  }

  #compare(moment: string): void {
    if (this.#enumeration.violations.length > 0) return
    this.#believeReaders()
    compareAll(this.#enumeration, this.#oracle, { disk: this.#disk, seed: this.#seed, moment })
  }

  #openIn(life: Life) {
    const { files } = this.#breakage
    return Effect.gen({ self: this }, function* () {
      const ports = yield* portsOver(life, this.#identifiers, files)
      const opened = yield* Effect.provideContext(openRegistry(), ports)
      const made = yield* Effect.provideContext(makeRegistry(opened, roomy), ports)
      return { opened, registry: this.#breakage.registry?.(made) ?? made }
    }).pipe(Scope.provide(Scope.makeUnsafe()), Effect.exit, run)
  }

  /** Up to three mutations at once; none is left when the life or the registry's storage is over. */
  async #batch(registry: RegistryService, over: Promise<typeof isOver>): Promise<boolean> {
    const numbers = new Set(
      Array.from({ length: 1 + this.#random.below(batchMax) }, () => 1 + this.#random.below(sandboxesMax))
    )
    const drawn = [...numbers].map((number) => drawMutation(this.#random, this.#oracle.committed, number))
    for (const { after, sandbox } of drawn) this.#oracle.inFlight.set(sandbox, after)
    const answers = await Promise.race([
      over,
      Promise.all(drawn.map(({ mutate }) => run(Effect.result(mutate(registry)))))
    ])
    if (answers === isOver) return false
    let isSound = true
    for (const [at, answer] of answers.entries()) {
      const { after, sandbox } = drawn[at]!
      if (Result.isSuccess(answer)) settle(this.#oracle, sandbox, after)
      else if (answer.failure._tag === "StorageFailed") isSound = false
      else this.#oracle.inFlight.delete(sandbox)
    }
    this.#compare("an answer")
    return isSound
  }

  /** Opens the registry, works with it, and dies. */
  async live(): Promise<void> {
    const random = this.#random
    const ending = random.pick(["killed", "power", "fault", "killed", "power"] as const)
    const over = Promise.withResolvers<typeof isOver>()
    const isAtCommit = random.percent(50)
    let changesLeft = 1 + random.below(isAtCommit ? commitsOfLife : random.pick(changesOfLife))
    let left: SimulatedDisk | null = null
    const powerFails = () => diskOf(random.pick(crashImagesOf(this.#disk)))
    const isNow = ({ changes, name }: SystemCall): boolean =>
      changes && (!isAtCommit || name === "rename" || name === "unlink") && --changesLeft === 0
    const life = startLife(this.#disk, {
      schedule: makeSchedule(random),
      ...(this.#breakage.calls === undefined ? {} : { adapt: this.#breakage.calls }),
      fault: (call) => (ending === "fault" && isNow(call) ? random.pick(["EIO", "ENOSPC"]) : null),
      done: (call) => {
        if (call.changes) this.#compare(`${call.name} ${call.path}`)
        if (ending === "fault" || !isNow(call)) return
        if (ending === "power") left = powerFails()
        life.end()
        over.resolve(isOver)
      }
    })
    await this.#work(life, over.promise)
    life.end()
    if (ending === "power") this.#disk = left ?? powerFails()
    this.#registry = null
  }

  async #work(life: Life, over: Promise<typeof isOver>): Promise<void> {
    const opened = await Promise.race([over, this.#openIn(life)])
    if (opened === isOver || Exit.isFailure(opened)) return
    const { owner, records } = opened.value.opened
    this.#oracle.owner = owner
    this.#oracle.inFlight.clear()
    this.#oracle.committed.clear()
    for (const record of records) this.#oracle.committed.set(record.id, JSON.stringify(record))
    this.#registry = opened.value.registry
    this.#compare("the answer of an open")
    for (let batch = this.#random.below(batchesOfLifeMax); batch >= 0; batch -= 1) {
      if (!(await this.#batch(opened.value.registry, over))) return
    }
  }
}

export interface HistoryOptions {
  readonly seed: number
  readonly enumeration: Enumeration
  readonly breakage?: Breakage
  /** What the history begins with, where chance shall not decide it. */
  readonly beginning?: (random: SeededRandom) => Beginning
}

/** Runs one history to its end, or to the first state that may not be. */
export const runHistory = async (options: HistoryOptions): Promise<void> => {
  const history = new History(options)
  for (let life = 0; life < livesMax && options.enumeration.violations.length === 0; life += 1) {
    await history.live()
  }
}
