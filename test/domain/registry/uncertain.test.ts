import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { RegistryFiles } from "../../../src/domain/registry/RegistryFiles.ts"
import { makeRegistry } from "../../../src/domain/registry/makeRegistry.ts"
import { openRegistry } from "../../../src/domain/registry/openRegistry.ts"
import { makeFile, type SimulatedDisk } from "../../support/simulatedDisk.ts"
import { type Life, startLife } from "../../support/simulatedDiskCalls.ts"
import { crashImagesOf, type DiskImage, diskOf, visibleImageOf } from "../../support/simulatedDiskCrash.ts"
import { fillRegistry, freshBeginning, unactivatedBeginning } from "./crashBeginnings.ts"
import { quietly } from "./crashNode.ts"
import { makeEnumeration, numberedIdentifiers, openOnce, portsOver } from "./crashOracle.ts"
import {
  type Disk,
  failNext,
  hold,
  makeDisk,
  proofOf,
  recordOf,
  type RegistryService,
  roomy,
  sandboxOf,
  steer,
  withReason
} from "./fixture.ts"
import { type Commit, type Row, uncertainTable } from "./uncertainTable.ts"

type Tagged = { readonly _tag: string }

const enumeration = makeEnumeration()
let families = 0

const openIn = (
  life: Life,
  adapt: (files: RegistryFiles["Service"]) => RegistryFiles["Service"] = (files) => files
) =>
  Effect.gen(function* () {
    families = (families + 1) % 10
    const ports = yield* portsOver(life, numberedIdentifiers(families), adapt)
    return yield* Effect.provideContext(
      Effect.flatMap(openRegistry(), (opened) => makeRegistry(opened, roomy)),
      ports
    )
  }).pipe(Scope.provide(Scope.makeUnsafe()))

const run = <A, E>(effect: Effect.Effect<A, E>): A => Effect.runSync(quietly(effect))

const committed: DiskImage = (() => {
  const { disk } = freshBeginning()
  run(Effect.flatMap(openIn(startLife(disk)), fillRegistry))
  return visibleImageOf(disk.root)
})()

const mutations: Record<
  Exclude<Commit, "activation">,
  (registry: RegistryService) => Effect.Effect<unknown, Tagged>
> = {
  create: (registry) => registry.admit(recordOf(3)),
  replace: (registry) => registry.update(sandboxOf(1), withReason("changed")),
  remove: (registry) => registry.remove(proofOf(sandboxOf(2)))
}

/** The call that commits, and what its path tells it by. */
const commitPoint = {
  create: ["rename", / sb-/],
  replace: ["rename", / sb-/],
  remove: ["unlink", /sb-/],
  activation: ["rename", / sandboxes\.json/]
} as const

const beginningOf = (commit: Commit): DiskImage =>
  commit === "activation" ? visibleImageOf(unactivatedBeginning().disk.root) : committed

/** Asks for the commit, of a registry that is open already or by opening it. */
const ask = (
  commit: Commit,
  life: Life,
  adapt: (files: RegistryFiles["Service"]) => RegistryFiles["Service"],
  isReady: () => void
): Effect.Effect<unknown, Tagged> => {
  if (commit !== "activation") {
    return Effect.flatMap(openIn(life, adapt), (registry) => {
      isReady()
      return mutations[commit](registry)
    })
  }
  isReady()
  return openIn(life, adapt)
}

const arm = (steered: Disk, { commit, point }: Pick<Row, "commit" | "point">): void => {
  const [call, path] = commitPoint[commit]
  if (point === "before") failNext(steered, call, "before", "EIO", path)
  if (point === "lost answer") failNext(steered, call, "after", "EIO", path)
}

/** Makes the commit go wrong at its point; answers the disk and what the asker was told. */
const goWrong = (expected: Pick<Row, "commit" | "point">): { disk: SimulatedDisk; answer: string } => {
  const disk = diskOf(beginningOf(expected.commit))
  const [call, path] = commitPoint[expected.commit]
  let isCommitted = false
  let isReady = false
  const life: Life = startLife(disk, {
    fault: ({ name }) => (expected.point === "after" && isCommitted && name === "fsync" ? "EIO" : null),
    done: (made) => {
      if (!isReady || made.name !== call || !path.test(made.path.replace("records/sb-", "sb-"))) return
      isCommitted = true
      if (expected.point === "crash") life.end()
    }
  })
  const steered = makeDisk()
  const asked = ask(
    expected.commit,
    life,
    (files) => steer(files, steered),
    () => {
      isReady = true
      arm(steered, expected)
    }
  )
  const exit = Effect.runSyncExit(quietly(Effect.result(asked)))
  if (life.isOver() || exit._tag === "Failure") return { disk, answer: "none" }
  return { disk, answer: Result.isFailure(exit.value) ? exit.value.failure._tag : "done" }
}

/** Whether version 2 is in force, or what the records are: that tells before from after. */
const contentOf = (commit: Commit, image: DiskImage): string => {
  if (commit !== "activation") {
    const opened = openOnce(enumeration, image)
    return "refused" in opened ? opened.refused : JSON.stringify([...opened.records].toSorted())
  }
  const header = image.kind === "directory" ? image.entries.get("sandboxes.json") : undefined
  return header?.kind === "file" ? header.content.toString().slice(0, 12) : "no header"
}

const afterOf = (commit: Commit): string => {
  const disk = diskOf(beginningOf(commit))
  run(
    ask(
      commit,
      startLife(disk),
      (files) => files,
      () => undefined
    )
  )
  return contentOf(commit, visibleImageOf(disk.root))
}

/** The same request to the next daemon, which finds this state; answers what it says and what is there then. */
const askAgain = (commit: Commit, image: DiskImage): { answer: string; content: string } => {
  const disk = diskOf(image)
  const asked = ask(
    commit,
    startLife(disk),
    (files) => files,
    () => undefined
  )
  const answer = run(Effect.match(asked, { onSuccess: () => "done", onFailure: ({ _tag }) => _tag }))
  return { answer, content: contentOf(commit, visibleImageOf(disk.root)) }
}

const committedFile = {
  create: sandboxOf(3),
  replace: sandboxOf(1),
  remove: sandboxOf(2),
  activation: null
} as const

/** The state with other bytes in the file that the commit is about. */
const withContent = (commit: Commit, text: string): SimulatedDisk => {
  const disk = diskOf(beginningOf(commit))
  const sandbox = committedFile[commit]
  const records = disk.root.entries.get("records")
  const folder = sandbox !== null && records?.kind === "directory" ? records : disk.root
  folder.entries.set(sandbox === null ? "sandboxes.json" : `${sandbox}.json`, makeFile(Buffer.from(text)))
  return diskOf(visibleImageOf(disk.root))
}

const wrongContents = [
  "",
  "\0".repeat(64),
  "{",
  '{"version":2}',
  JSON.stringify({ version: 3, owner: "", sandboxes: {} })
]

describe("registry, with an uncertain commit", () => {
  it.each(uncertainTable)("BX-04 RG-COM-05 $commit x $point is answered and comes up as told", (expected) => {
    const { commit } = expected
    const before = contentOf(commit, beginningOf(commit))
    const after = afterOf(commit)
    const named = (image: DiskImage): string => {
      const content = contentOf(commit, image)
      return content === before ? "before" : content === after ? "after" : content
    }
    const { answer, disk } = goWrong(expected)
    assert.strictEqual(answer, expected.answer)
    assert.strictEqual(named(visibleImageOf(disk.root)), expected.restart)
    assert.deepStrictEqual([...new Set(crashImagesOf(disk).map(named))].toSorted(), [...expected.power])
  })

  it.each(uncertainTable)(
    "BX-04 $commit x repeated, behind $point, ends in the one state that was asked for",
    (expected) => {
      const { commit } = expected
      const after = afterOf(commit)
      const { disk } = goWrong(expected)
      assert.deepStrictEqual(askAgain(commit, visibleImageOf(disk.root)), {
        answer: expected.repeated,
        content: after
      })
      for (const image of crashImagesOf(disk)) assert.strictEqual(askAgain(commit, image).content, after)
    }
  )

  it.each(["create", "replace", "remove"] as const)(
    "BX-04 RG-COM-03 %s x slow closes no latch: readers see the state before it meanwhile",
    (commit) =>
      Effect.runPromise(
        Effect.gen(function* () {
          const steered = makeDisk()
          const registry = yield* openIn(startLife(diskOf(committed)), (files) => steer(files, steered))
          const before = [...(yield* registry.inventory).values()].map((record) => JSON.stringify(record))
          const slow = hold(steered, "sync")
          const asked = yield* Effect.forkChild(mutations[commit](registry))
          yield* slow.reached
          const meanwhile = [...(yield* registry.inventory).values()].map((record) => JSON.stringify(record))
          assert.deepStrictEqual(meanwhile, before)
          yield* slow.release
          yield* Fiber.join(asked)
          const behind = [...(yield* registry.inventory).values()].map((record) => JSON.stringify(record))
          assert.notDeepEqual(behind, before)
        })
      )
  )

  it("BX-04 RG-MIG-05 activation x slow answers nothing before it is durable", () =>
    Effect.runPromise(
      Effect.gen(function* () {
        const disk = diskOf(beginningOf("activation"))
        const steered = makeDisk()
        const life = startLife(disk)
        const asked = yield* Effect.forkChild(openIn(life, (files) => steer(files, steered)))
        const renamed = hold(steered, "rename")
        yield* renamed.reached
        const slow = hold(steered, "sync")
        yield* renamed.release
        yield* slow.reached
        assert.isUndefined(asked.pollUnsafe())
        yield* slow.release
        yield* Fiber.join(asked)
        assert.deepStrictEqual(
          [...new Set(crashImagesOf(disk).map((image) => contentOf("activation", image)))],
          [afterOf("activation")]
        )
      })
    ))

  it.each(["create", "replace", "remove", "activation"] as const)(
    "BX-04 FC-18 RG-LAY-06 %s x wrong content fails the open closed, names the file and overwrites nothing",
    (commit) => {
      for (const text of wrongContents) {
        const disk = withContent(commit, text)
        const before = visibleImageOf(disk.root).key
        const refusal = run(Effect.flip(openIn(startLife(disk))))
        assert.strictEqual(refusal._tag, "RegistryOpenRefused")
        const sandbox = committedFile[commit]
        assert.include(refusal.message, sandbox === null ? "sandboxes.json" : `records/${sandbox}.json`)
        assert.strictEqual(visibleImageOf(disk.root).key, before)
        assert.isTrue(crashImagesOf(disk).every(({ key }) => key === before))
      }
    }
  )
})
