/**
 * A deletion whose daemon is killed at any step, and in the middle of the longer ones: the next daemon goes on from
 * what is on disk and ends where an undisturbed one ends. With real guests, whose files are as hostile as they can make
 * them.
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Files from "node:fs"
import * as Path from "node:path"
import { beforeAll, inject } from "vitest"
import type { SupervisorKind } from "../../../src/domain/guests/GuestSpec.ts"
import { reclamationSteps } from "../../../src/domain/reclamation/reclamation.ts"
import { RunState } from "../../../src/domain/reclamation/RunState.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { Registry } from "../../../src/domain/registry/Registry.ts"
import { findWitnesses } from "../../../src/infra/guests/witnesses.ts"
import { shell } from "../../suites/guestHarness.ts"
import {
  chargesNow,
  chargesOf,
  describeWithGroups,
  entriesOf,
  groupsLeft,
  leftGuest,
  type LeftGuest,
  makeGuest,
  makeNode
} from "./recoveryNode.ts"
import { isGone } from "../../support/processes.ts"

const fixture = Path.join(import.meta.dirname, "reclaim.fixture.ts")
const millisMax = 480_000

/** Where the daemon is killed: `when` it is before or after a step, or instead of a call's occurrence behind the tombstone. */
interface Death {
  readonly when: "before" | "after" | "call"
  readonly name: string
  readonly occurrence?: number
}

/** Behind a step the disk is as it is before the next one. */
const deaths: ReadonlyArray<Death> = [
  { when: "before", name: "intent" },
  { when: "after", name: "intent" },
  ...reclamationSteps.map((name) => ({ when: "after", name }) as const),
  { when: "after", name: "record" },
  { when: "call", name: "rmdirSync", occurrence: 1 },
  { when: "call", name: "rmdirSync", occurrence: 3 },
  { when: "call", name: "unlinkSync", occurrence: 2 },
  { when: "call", name: "renameSync", occurrence: 1 },
  { when: "call", name: "renameSync", occurrence: 2 }
]

const nameOf = ({ name, occurrence, when }: Death): string =>
  when === "call" ? `at call ${occurrence} of ${name}` : `${when} "${name}"`

const nasty = `ln -s / to-root; ln -s "$1" to-victim; mkdir -p a/b/c; touch a/b/c/file a/file; mkfifo pipe
chmod 0 a/b/c a/b a; setsid sleep 1000 >/dev/null 2>&1 </dev/null &`

/** The fixture's end: the name of the signal, or its exit code with what it said. */
const killAt = (stateDirectory: string, kind: SupervisorKind, { sandbox }: LeftGuest, death: Death) =>
  Effect.promise(async () => {
    const words = [stateDirectory, kind, sandbox, death.when, death.name, String(death.occurrence ?? "")]
    const child = spawn(process.execPath, [fixture, ...words], {
      stdio: ["ignore", "ignore", "pipe"],
      // What the first one has compiled is not compiled again.
      env: { ...process.env, NODE_COMPILE_CACHE: Path.join(inject("cluster").host, "compile-cache") }
    })
    let said = ""
    child.stderr.on("data", (chunk: Buffer) => void (said += chunk.toString()))
    await once(child, "close")
    return child.signalCode ?? `exit ${child.exitCode}: ${said.slice(-2_000)}`
  })

const tombstoneOf = ({ folder }: LeftGuest): string | null => {
  const path = Path.join(folder.directory, "tombstone.json")
  return Files.existsSync(path) ? Files.readFileSync(path, "utf8") : null
}

/** What is left of one sandbox, and what its published proof says. */
const leftOver = (guest: LeftGuest) =>
  Effect.gen(function* () {
    const tombstone = yield* (yield* RunState).readTombstone(guest.sandbox)
    return {
      isRetained: (yield* (yield* Registry).inventory).has(guest.sandbox),
      entries: entriesOf(guest),
      groups: groupsLeft(guest),
      processes: findWitnesses(guest.sandbox),
      isInitGone: isGone(guest.identity.init.pid),
      evidence: tombstone._tag === "Some" ? tombstone.value.proof.evidence._tag : null,
      tombstone: tombstoneOf(guest)
    }
  })

const killAll = (kind: SupervisorKind) =>
  Effect.gen(function* () {
    const node = yield* makeNode(kind)
    const victim = Path.join(node.stateDirectory, "victim")
    Files.writeFileSync(victim, "ours", { mode: 0o640 })
    const sandboxes = yield* node.daemon(
      Effect.forEach(deaths, () =>
        Effect.tap(makeGuest(), (sandbox) => shell(sandbox, `set -- ${victim}; ${nasty}`))
      )
    )
    const guests = yield* Effect.forEach(sandboxes, (each) => leftGuest(node.stateDirectory, each))
    const ends: Array<string> = []
    const published: Array<string | null> = []
    for (const [at, guest] of guests.entries()) {
      ends.push(yield* killAt(node.stateDirectory, kind, guest, deaths[at]!))
      published.push(tombstoneOf(guest))
    }
    return yield* node.daemon(
      Effect.gen(function* () {
        const before = yield* chargesNow
        const verdicts = new Map((yield* reconcileSandboxes).map((each) => [each.sandbox, each.verdict]))
        const charges = yield* chargesNow
        const left = yield* Effect.forEach(guests, leftOver)
        const untouched = Files.readFileSync(victim, "utf8")
        return { ends, published, before, verdicts, charges, left, untouched, guests }
      })
    )
  })

const killedCases = (kind: SupervisorKind): void => {
  let all: Effect.Success<ReturnType<typeof killAll>>
  beforeAll(async () => {
    all = await Effect.runPromise(Effect.scoped(killAll(kind)))
  }, millisMax)

  it.each(deaths.map((death, at) => ({ death, at, where: nameOf(death) })))(
    "RG-DEL-05 a deletion killed $where ends as an undisturbed one",
    ({ at, death }) => {
      assert.strictEqual(all.ends[at], "SIGKILL")
      const { tombstone, ...left } = all.left[at]!
      const verdict = all.verdicts.get(all.guests[at]!.sandbox)
      if (death.when === "before") {
        // Nobody has asked for it durably: it runs on.
        assert.strictEqual(verdict, "keep")
        assert.deepInclude(left, { isRetained: true, isInitGone: false, evidence: null })
        return
      }
      assert.strictEqual(verdict, death.name === "record" ? undefined : "delete")
      assert.deepStrictEqual(left, {
        isRetained: false,
        entries: ["owner.lock", "tombstone.json"],
        groups: [],
        processes: [],
        isInitGone: true,
        evidence: "GroupsEmpty"
      })
      // A proof that was published is never replaced.
      assert.strictEqual(tombstone, all.published[at] ?? tombstone)
    }
  )

  it("RG-DEL-05 the charge is kept until the next daemon has gone on, and what the guests linked to is untouched", () => {
    assert.deepStrictEqual(all.before, chargesOf(deaths.length - 1))
    assert.deepStrictEqual(all.charges, chargesOf(1))
    assert.strictEqual(all.untouched, "ours")
    const fenced = deaths.map(
      ({ name, when }) => when === "call" || ["tombstone", "groups", "files", "record"].includes(name)
    )
    assert.deepStrictEqual(
      all.published.map((each) => each !== null),
      fenced
    )
  })
}

await describeWithGroups("bubblewrap", () => killedCases("bubblewrap"))
