import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { Identifiers } from "../../src/domain/Identifiers.ts"
import { NodeId, ProcessIdentity } from "../../src/domain/Identity.ts"
import { Processes, ProcessSighting } from "../../src/domain/Processes.ts"
import { layer, readStatLine, sight } from "../../src/infra/Processes.ts"

const node = NodeId.make("00000000-0000-4000-8000-00000000000a")
const TestProcesses = layer(node).pipe(
  Layer.provide(
    Layer.succeed(Identifiers, {
      uuid: Effect.succeed("00000000-0000-4000-8000-000000000001"),
      token: Effect.succeed("00")
    })
  )
)

describe("Processes over /proc", () => {
  it("the start time is field 22 counted after the last parenthesis of a hostile command name", () => {
    const rest = Array.from({ length: 50 }, (_, index) => String(index + 4)).join(" ")
    assert.deepStrictEqual(
      readStatLine(`12 (a) R 1 (b) S ${rest}`),
      ProcessSighting.Present({ startTicks: "22" })
    )
  })

  it("SP-OPS-02 a zombie counts as gone, and an unreadable line as there", () => {
    const rest = Array.from({ length: 50 }, (_, index) => String(index + 4)).join(" ")
    assert.deepStrictEqual(readStatLine(`12 (sh) Z ${rest}`), ProcessSighting.Absent())
    assert.deepStrictEqual(readStatLine("12 (sh) S 1 2"), ProcessSighting.Unreadable())
  })

  it.live("SP-OPS-02 this process is alive by its own identity, and dead by another start time or boot", () =>
    Effect.gen(function* () {
      const { current, liveness } = yield* Processes
      assert.strictEqual(current.bootId, readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim())
      assert.strictEqual(yield* liveness(current), "alive")
      const later = new ProcessIdentity({ ...current, startTicks: `${current.startTicks}1` })
      assert.strictEqual(yield* liveness(later), "dead")
      const earlierBoot = new ProcessIdentity({ ...current, bootId: "00000000-0000-4000-8000-0000000000b1" })
      assert.strictEqual(yield* liveness(earlierBoot), "dead")
    }).pipe(Effect.provide(TestProcesses))
  )

  it.live("SP-OPS-02 a child is seen while it runs and absent once it was killed and reaped", () =>
    Effect.gen(function* () {
      const child = spawn("sleep", ["60"], { stdio: "ignore" })
      const pid = child.pid ?? 0
      const running = yield* sight(pid)
      const exited = once(child, "exit")
      child.kill("SIGKILL")
      yield* Effect.promise(() => exited)
      assert.strictEqual(running._tag, "Present")
      assert.deepStrictEqual(yield* sight(pid), ProcessSighting.Absent())
    })
  )
})
