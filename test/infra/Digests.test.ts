import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Digests } from "../../src/domain/Digests.ts"
import { layer } from "../../src/infra/Digests.ts"

const known: ReadonlyArray<readonly [text: string, digest: string]> = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  ["ü", "607474ca475a9724d7360aba71a56d5df77e61350e3f724cfa1f46e857e2d85f"]
]

describe("Digests", () => {
  it.effect.each(known)("the digest of %j is the published one", ([text, digest]) =>
    Effect.gen(function* () {
      const { sha256 } = yield* Digests
      assert.strictEqual(sha256(text), digest)
    }).pipe(Effect.provide(layer))
  )
})
