/**
 * Calls that wait for each other and go in rounds: who waits, how many statements are under way, and who goes next. What a
 * statement does for those that it takes, and what each of them is told, is said by whoever makes the rounds.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type { StorageFailure } from "../../domain/persistence/PluginDb.ts"

export interface RoundRules<Caller, Answers> {
  /** Statements under way at a time. */
  readonly atOnceMax: number
  /** Callers from which on those who wait go in two statements, one behind the other; as one unless told. */
  readonly halvedMin?: number
  /** Runs an effect by itself: with nothing of the caller's, since it is everybody's. */
  readonly run: (effect: Effect.Effect<unknown, unknown>) => unknown
  /** Who of those who wait goes together, and who stays, both in their order. */
  readonly take: (
    waiting: ReadonlyArray<Caller>
  ) => readonly [taken: ReadonlyArray<Caller>, left: Array<Caller>]
  readonly statement: (taken: ReadonlyArray<Caller>) => Effect.Effect<Answers, StorageFailure>
  /** Answers each of them; the next round may begin meanwhile. */
  readonly tell: (taken: ReadonlyArray<Caller>, exit: Exit.Exit<Answers, StorageFailure>) => void
}

export class CallRounds<Caller, Answers> {
  private readonly rules: RoundRules<Caller, Answers>
  private waiting: Array<Caller> = []
  private underWay = 0
  /** A statement is about to take those who wait. */
  private gathering = false
  /** The last statement carried one call only: nobody seems to come along with others. */
  private wasAlone = false
  /** The last statement left half of those who waited to the one behind it. */
  private wasHalved = false

  constructor(rules: RoundRules<Caller, Answers>) {
    this.rules = rules
  }

  get isIdle(): boolean {
    return this.underWay === 0
  }

  enter(caller: Caller): void {
    this.waiting.push(caller)
    this.begin()
  }

  /** One that has not been taken yet goes; what has been taken is carried out whoever hangs up. */
  leave(caller: Caller): void {
    this.waiting = this.waiting.filter((one) => one !== caller)
  }

  /** Those who wait go, without an answer. */
  dismiss(): ReadonlyArray<Caller> {
    const dismissed = this.waiting
    this.waiting = []
    return dismissed
  }

  private begin(): void {
    if (this.gathering || this.underWay === this.rules.atOnceMax || this.waiting.length === 0) return
    this.gathering = true
    this.underWay += 1
    this.rules.run(this.round)
  }

  /**
   * How many of those who wait may be taken: all of them, or half where many would go while nothing is under way. The two
   * halves stay apart from then on: while the server carries out one, the callers of the other are answered and come again.
   */
  private goingNow(): number {
    const many = this.waiting.length
    const { halvedMin = Infinity } = this.rules
    this.wasHalved = !this.wasHalved && this.underWay === 1 && many >= halvedMin
    return this.wasHalved ? Math.ceil(many / 2) : many
  }

  private gather(): ReadonlyArray<Caller> {
    const going = this.goingNow()
    const [taken, left] = this.rules.take(this.waiting.slice(0, going))
    this.waiting = [...left, ...this.waiting.slice(going)]
    this.wasAlone = taken.length === 1
    this.gathering = false
    this.begin()
    return taken
  }

  /**
   * Callers that are answered together come back together: they are let in before the next ones are taken. Whoever has
   * been alone does not wait for anybody.
   */
  private readonly round = Effect.suspend(() => {
    let taken: ReadonlyArray<Caller> = []
    const statement = Effect.suspend(() => {
      taken = this.gather()
      return this.rules.statement(taken)
    })
    const whole = this.wasAlone ? statement : Effect.andThen(Effect.yieldNow, statement)
    return Effect.onExit(whole, (exit) =>
      Effect.sync(() => {
        this.underWay -= 1
        this.rules.tell(taken, exit)
        this.begin()
      })
    )
  })
}
