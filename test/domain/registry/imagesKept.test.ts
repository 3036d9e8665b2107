import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { createSandbox } from "../../../src/domain/registry/creation.ts"
import { expireSandbox } from "../../../src/domain/registry/expiry.ts"
import { startSandbox } from "../../../src/domain/registry/lifecycle.ts"
import { reconcileSandboxes } from "../../../src/domain/registry/reconciliation.ts"
import { deleteSandbox } from "../../../src/domain/registry/removal.ts"
import { failNext as failGuest } from "../../../src/infra/guests/scriptedState.ts"
import { contentsOf, lookAt, sandboxOf, temporaryDirectory, withDeletion } from "./fixture.ts"
import { freshNode, on, requestOf, type TestNode } from "./guestFixture.ts"

const one = sandboxOf(1)

/** What somebody else has provisioned: a root file system, its manifest, a firmware, and a disk. */
const provisioned = Effect.map(temporaryDirectory, (directory) => {
  const at = (name: string) => Path.join(directory, name)
  Files.mkdirSync(at("rootfs/etc"), { recursive: true })
  Files.writeFileSync(at("rootfs/etc/os-release"), "NAME=image")
  Files.writeFileSync(at("manifest.json"), "{}")
  Files.writeFileSync(at("firmware.bin"), "\x7fELF")
  Files.mkdirSync(at("disk"))
  Files.writeFileSync(at("disk/work"), "kept")
  return { directory, at }
})

/** A running sandbox of the image whose guest has left every kind of way to it in its private storage. */
const running = Effect.gen(function* () {
  const image = yield* provisioned
  const node = yield* freshNode()
  const request = requestOf(1, { image: image.at("rootfs"), disk: image.at("disk") })
  yield* on(node)(createSandbox(request))
  yield* on(node)(startSandbox(one))
  const run = Path.join(node.directory, "runtime", one, "run")
  Files.mkdirSync(run, { recursive: true })
  Files.symlinkSync(image.at("rootfs"), Path.join(run, "link-to-directory"))
  Files.symlinkSync(image.at("manifest.json"), Path.join(run, "link-to-file"))
  Files.symlinkSync("../../../../..", Path.join(run, "link-upwards"))
  Files.linkSync(image.at("firmware.bin"), Path.join(run, "second-name"))
  return { node, image, before: contentsOf(image.directory), run }
})

const ends: ReadonlyArray<readonly [how: string, end: (node: TestNode) => Effect.Effect<unknown, unknown>]> =
  [
    ["a user's deletion", (node) => on(node)(deleteSandbox(one, { reason: "user", actor: "ann" }))],
    [
      "its expiry",
      (node) =>
        on(node)(
          expireSandbox(
            one,
            Effect.succeed(() => true)
          )
        )
    ],
    [
      "a deletion that was interrupted",
      (node) =>
        Effect.gen(function* () {
          failGuest(node.guests, "removeGroups")
          yield* Effect.flip(on(node)(deleteSandbox(one, { reason: "project", actor: "core" })))
          yield* on(node)(reconcileSandboxes)
        })
    ],
    [
      "a deletion that somebody else has intended",
      (node) => Effect.andThen(node.registry.update(one, withDeletion), on(node)(reconcileSandboxes))
    ]
  ]

describe("registry, images", () => {
  it.live.each(ends)("RG-DEL-07 image, manifest, firmware and disk outlive %s", ([, end]) =>
    Effect.gen(function* () {
      const { before, image, node, run } = yield* running
      yield* end(node)
      assert.strictEqual((yield* lookAt(node.directory)).size, 0)
      assert.isFalse(Files.existsSync(run))
      assert.deepStrictEqual(contentsOf(image.directory), before)
    })
  )

  it.live("RG-DEL-07 RG-DEL-03 an image that is gone already does not hold a deletion up", () =>
    Effect.gen(function* () {
      const { image, node } = yield* running
      Files.rmSync(image.at("rootfs"), { recursive: true })
      yield* on(node)(deleteSandbox(one, { reason: "user", actor: "ann" }))
      assert.strictEqual((yield* lookAt(node.directory)).size, 0)
      assert.isTrue(Files.existsSync(image.at("firmware.bin")))
    })
  )
})
