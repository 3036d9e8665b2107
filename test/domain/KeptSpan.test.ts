import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { keptSpan } from "../../src/domain/KeptSpan.ts"

/** Runs the effect under a parent of a trace, with the names of all spans that it makes. */
const namesUnder = (sampled: boolean, effect: Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    const names: Array<string> = []
    const tracer = Tracer.make({
      span(options) {
        names.push(options.name)
        return new Tracer.NativeSpan(options)
      }
    })
    const parent = Tracer.externalSpan({
      traceId: "0".repeat(31) + "1",
      spanId: "0".repeat(15) + "1",
      sampled
    })
    yield* Effect.provide(
      Effect.provideService(effect, Tracer.ParentSpan, parent),
      Layer.succeed(Tracer.Tracer, tracer)
    )
    return names
  })

const parentSpan = Effect.map(Effect.serviceOption(Tracer.ParentSpan), Option.getOrNull)

describe("KeptSpan", () => {
  it.effect("a span is made where its trace is kept", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* namesUnder(true, keptSpan("work")(Effect.void)), ["work"])
    })
  )

  it.effect("it is left out where the trace was decided against, and what is inside has the caller's", () =>
    Effect.gen(function* () {
      const seen: Array<string | undefined> = []
      const look = Effect.map(parentSpan, (span) => seen.push(span?.spanId))
      assert.deepStrictEqual(yield* namesUnder(false, keptSpan("work")(look)), [])
      assert.deepStrictEqual(seen, ["0".repeat(15) + "1"])
    })
  )

  it.effect("without a parent it is the first of its trace", () =>
    Effect.gen(function* () {
      const inside = yield* keptSpan("work", { lease: "a" })(Effect.currentSpan)
      assert.strictEqual(inside.name, "work")
      assert.strictEqual(inside.attributes.get("lease"), "a")
    })
  )
})
