/** Settings: flags before the environment before the defaults, and a sentence for what cannot be used. */
import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import { defaultHome, resolveSettings, SettingRefused, socketPathOf } from "../../src/layers/config.ts"

const nobody = 1_000

describe("layers/config", () => {
  it("a flag wins over the environment, and the environment over the default", () => {
    const environment = { HOLDFAST_HOME: "/srv/from-environment", HOLDFAST_SUPERVISOR: "unshare" }
    assert.strictEqual(resolveSettings({ home: "/srv/flag" }, environment, nobody).home, "/srv/flag")
    assert.strictEqual(resolveSettings({}, environment, nobody).home, "/srv/from-environment")
    assert.strictEqual(resolveSettings({}, environment, nobody).supervisor, "unshare")
    assert.strictEqual(
      resolveSettings({ supervisor: "bubblewrap" }, environment, nobody).supervisor,
      "bubblewrap"
    )
    assert.strictEqual(resolveSettings({}, {}, nobody).supervisor, "auto")
  })

  it("root has its home in /var/lib, others below their own", () => {
    assert.strictEqual(defaultHome({}, 0), "/var/lib/holdfast")
    assert.strictEqual(defaultHome({ HOME: "/home/ann" }, nobody), "/home/ann/.local/share/holdfast")
  })

  it("everything of a daemon lies below its home", () => {
    const settings = resolveSettings({ home: "/srv/h" }, {}, nobody)
    assert.deepStrictEqual(
      [settings.stateDirectory, settings.postgresDirectory, settings.socketPath],
      ["/srv/h/state", "/srv/h/postgres", socketPathOf("/srv/h")]
    )
    assert.isNull(settings.databaseUrl)
  })

  it("FC-21 the key of secrets is taken from the environment, and cannot be printed by mistake", () => {
    const key = "5a".repeat(32)
    const settings = resolveSettings({ home: "/srv/h" }, { HOLDFAST_SECRET_KEY: key }, nobody)
    assert.strictEqual(settings.secretKey === null ? null : Redacted.value(settings.secretKey), key)
    assert.notInclude(inspect(settings, { depth: 9 }) + JSON.stringify(settings), key)
    const without = resolveSettings({ home: "/srv/h" }, { HOLDFAST_SECRET_KEY: "" }, nobody)
    assert.isNull(without.secretKey)
    assert.deepStrictEqual(
      [without.secretKeysPath, without.orphanSpoolDirectory, without.hasFakeProvider],
      ["/srv/h/secrets.key", "/srv/h/orphans", false]
    )
    const testing = resolveSettings({ home: "/srv/h" }, { HOLDFAST_FAKE_PROVIDER: "1" }, nobody)
    assert.isTrue(testing.hasFakeProvider)
  })

  it.each(["0", "-1", "many", "1.5", "1e3", ""])(
    "a node of %j sandboxes is refused or is the default",
    (text) => {
      const resolve = () => resolveSettings({ home: "/srv/h" }, { HOLDFAST_NODE_SANDBOXES: text }, nobody)
      if (text === "") assert.isAbove(resolve().capacity.sandboxes, 0)
      else assert.throws(resolve, SettingRefused)
    }
  )

  it("RG figures a sandbox lives a day at most, or what the setting says from a minute to a year", () => {
    const life = (text?: string) =>
      resolveSettings({ home: "/srv/h" }, { HOLDFAST_NODE_LIFE_SECONDS: text }, nobody).lifeSecondsMax
    assert.strictEqual(life(), 24 * 3_600)
    for (const seconds of [60, 365 * 24 * 3_600]) assert.strictEqual(life(String(seconds)), seconds)
    for (const seconds of [59, 365 * 24 * 3_600 + 1])
      assert.throws(() => life(String(seconds)), SettingRefused)
  })

  it("a home whose socket path would not fit is refused before anything is made", () => {
    assert.throws(() => resolveSettings({ home: `/srv/${"x".repeat(100)}` }, {}, nobody), SettingRefused)
  })
})
