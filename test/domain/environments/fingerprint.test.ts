import { createHash } from "node:crypto"
import { assert, describe, it } from "vitest"
import {
  configFits,
  fingerprintFits,
  leaseFingerprint,
  runtimeFingerprint
} from "../../../src/domain/environments/fingerprint.ts"
import { makeSeededRandom } from "../../support/seededRandom.ts"
import { secret } from "./leaseBuilders.ts"

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")
const config = { provider: "fake-plugin", image: "fake:test", timeoutMs: 1234, reuseLease: true }
const subject = { provider: "fake-plugin", adapterType: null, config }
const versions = [{ path: "apiKey", secret, version: 1 }]

describe("environments/fingerprint", () => {
  it("RL-REUSE-20 the older form is the digest of the canonical text, to the letter", () => {
    const text =
      '{"adapterType":null,"config":{"image":"fake:test","provider":"fake-plugin","reuseLease":true,"timeoutMs":1234},"provider":"fake-plugin"}'
    assert.strictEqual(runtimeFingerprint(sha256, subject), sha256(text))
  })

  it("RL-REUSE-20 canonical: keys sorted at every level, arrays in order, undefined written as null", () => {
    const written = { provider: "p", adapterType: "a", config: { b: [2, { d: undefined, c: 1 }], a: null } }
    const text = '{"adapterType":"a","config":{"a":null,"b":[2,{"c":1,"d":null}]},"provider":"p"}'
    assert.strictEqual(runtimeFingerprint(sha256, written), sha256(text))
  })

  it("RL-REUSE-20 the newer form has its category and its shape", () => {
    const made = leaseFingerprint(sha256, subject, versions)
    assert.strictEqual(made.category, "lease")
    assert.match(made.fingerprint, /^v1:sha256:[a-f0-9]{64}$/)
  })

  it.each([
    ["the image", { ...subject, config: { ...config, image: "template-b" } }, versions],
    ["a key more", { ...subject, config: { ...config, target: "us" } }, versions],
    ["the provider", { ...subject, provider: "another" }, versions],
    ["the adapter", { ...subject, adapterType: "native_runner" }, versions],
    ["the secret's version", subject, [{ path: "apiKey", secret, version: 2 }]],
    ["the place of the secret", subject, [{ path: "token", secret, version: 1 }]],
    ["no secret", subject, []]
  ])("RL-REUSE-20 RL-SECRET-06 it changes with %s", (_, changed, secrets) => {
    assert.notStrictEqual(
      leaseFingerprint(sha256, changed, secrets).fingerprint,
      leaseFingerprint(sha256, subject, versions).fingerprint
    )
    const stamped = { leaseFingerprint: leaseFingerprint(sha256, subject, versions) }
    assert.isFalse(fingerprintFits(sha256, stamped, changed, secrets))
  })

  it.each([
    ["streamRunLogs", { ...config, streamRunLogs: true }],
    ["a null value", { ...config, target: null }],
    ["the order of the keys", Object.fromEntries(Object.entries(config).toReversed())]
  ])("RL-REUSE-02 RL-REUSE-20 it does not change with %s", (_, changed) => {
    const stamped = { leaseFingerprint: leaseFingerprint(sha256, subject, versions) }
    assert.isTrue(fingerprintFits(sha256, stamped, { ...subject, config: changed }, versions))
  })

  it("RL-REUSE-20 a row with only the older form fits when that matches", () => {
    const stamped = { runtimeFingerprint: runtimeFingerprint(sha256, subject) }
    assert.isTrue(fingerprintFits(sha256, stamped, subject, versions))
    assert.isTrue(
      fingerprintFits(sha256, stamped, { ...subject, config: { ...config, streamRunLogs: true } }, [])
    )
    assert.isFalse(
      fingerprintFits(sha256, stamped, { ...subject, config: { ...config, image: "b" } }, versions)
    )
  })

  it("RL-REUSE-20 the newer form decides where both are there, and none at all fits nothing", () => {
    const newer = leaseFingerprint(sha256, subject, versions)
    const stale = runtimeFingerprint(sha256, { ...subject, provider: "former" })
    assert.isTrue(
      fingerprintFits(sha256, { leaseFingerprint: newer, runtimeFingerprint: stale }, subject, versions)
    )
    const older = runtimeFingerprint(sha256, subject)
    const rotated = [{ path: "apiKey", secret, version: 2 }]
    assert.isFalse(
      fingerprintFits(sha256, { leaseFingerprint: newer, runtimeFingerprint: older }, subject, rotated)
    )
    assert.isFalse(fingerprintFits(sha256, {}, subject, versions))
  })

  it("FC-20 property: what is digested never holds a secret's value, since it is not given one", () => {
    const seed = 20_260_502
    const random = makeSeededRandom(seed)
    for (let round = 0; round < 100; round += 1) {
      const texts: Array<string> = []
      const version = 1 + random.below(1_000)
      leaseFingerprint(
        (text) => {
          texts.push(text)
          return "0".repeat(64)
        },
        { ...subject, config: { ...config, apiKey: secret } },
        [{ path: "apiKey", secret, version }]
      )
      assert.lengthOf(texts, 1)
      assert.include(texts[0], `"version":${version}`, `seed ${seed}`)
      assert.include(texts[0], secret)
    }
  })

  it("RL-REUSE-02 a recorded config fits by the keys that are asked for", () => {
    const recorded = { image: "a", runnerLifecycleMode: "warm", target: "us" }
    assert.isTrue(configFits({ image: "a", streamRunLogs: true, target: null }, recorded))
    assert.isFalse(configFits({ image: "a", target: "eu" }, recorded))
    assert.isFalse(configFits({ image: "a", region: "x" }, recorded))
  })
})
