import { assert, describe, it } from "vitest"
import {
  type Capabilities,
  effectiveCapabilities,
  noCapabilities
} from "../../../src/domain/environments/capabilities.ts"
import { pluginOf } from "./leaseBuilders.ts"

const everyMethod = [
  "environmentResumeLease",
  "environmentReleaseLease",
  "environmentSyncIn",
  "environmentSyncOut",
  "environmentExecute"
]
const keys = Object.keys(noCapabilities)
const optedIn = [
  "reusableLeases",
  "incrementalSessionOutput",
  "concurrentSyncOperations",
  "duplexCommandStream",
  "runnerWebsocketIngress"
]

const granted = (given: Partial<Parameters<typeof effectiveCapabilities>[0]>): ReadonlyArray<string> =>
  namesOf(
    effectiveCapabilities({
      plugin: pluginOf({ supportsReusableLeases: true }),
      driverKey: "fake-plugin",
      supportedMethods: everyMethod,
      config: { image: "fake:test", reuseLease: true },
      ...given
    })
  )
const namesOf = (capabilities: Capabilities): ReadonlyArray<string> =>
  Object.entries(capabilities).flatMap(([key, holds]) => (holds ? [key] : []))

const without = (...methods: ReadonlyArray<string>) =>
  everyMethod.filter((method) => !methods.includes(method))

const allOf = (value: boolean) => Object.fromEntries(keys.map((key) => [key, value]))

describe("environments/capabilities", () => {
  it("U2 there are nine keys, and nothing is granted where nothing is known", () => {
    assert.lengthOf(keys, 9)
    assert.deepStrictEqual(namesOf(noCapabilities), [])
  })

  it("RL-CAP-01 the owner's nested false counts, the sync verbs are granted", () => {
    const plugin = pluginOf({ supportsReusableLeases: true, sandboxCapabilities: { reusableLeases: false } })
    const names = granted({ plugin, supportedMethods: without("environmentExecute") })
    assert.deepStrictEqual(names, ["nativeSyncIn", "nativeSyncOut"])
  })

  it("RL-CAP-02 without the pinned plugin every key is false, whatever a worker lists", () => {
    assert.deepStrictEqual(granted({ plugin: null }), [])
  })

  it.each(["environment_driver", undefined])(
    "RL-CAP-03 an entry of kind %s serves no sandbox: every key false",
    (kind) => {
      const plugin = pluginOf({ sandboxCapabilities: allOf(true) })
      const entry = { driverKey: "fake-plugin", ...(kind === undefined ? {} : { kind }) }
      const changed = { ...plugin.manifest, environmentDrivers: [entry] }
      assert.deepStrictEqual(granted({ plugin: { ...plugin, manifest: changed } as typeof plugin }), [])
    }
  )

  it("RL-CAP-03 a plugin without drivers, or with another key: every key false", () => {
    assert.deepStrictEqual(granted({ plugin: pluginOf(null) }), [])
    assert.deepStrictEqual(granted({ driverKey: "another" }), [])
  })

  it("RL-CAP-04 no declaration at all is not an identity failure", () => {
    const names = granted({
      plugin: pluginOf({}),
      supportedMethods: ["environmentSyncIn", "environmentSyncOut"]
    })
    assert.deepStrictEqual(names, ["nativeSyncIn", "nativeSyncOut"])
  })

  it("RL-CAP-05 granted by the older flag and the verbs", () => {
    assert.include(granted({}), "reusableLeases")
  })

  it("RL-CAP-06 opt-in needed, and the nested value beats the older flag both ways", () => {
    assert.notInclude(granted({ plugin: pluginOf({}) }), "reusableLeases")
    const plugin = pluginOf({ supportsReusableLeases: false, sandboxCapabilities: { reusableLeases: true } })
    assert.include(granted({ plugin }), "reusableLeases")
  })

  it.each([
    ["reusableLeases", "environmentResumeLease"],
    ["reusableLeases", "environmentReleaseLease"],
    ["nativeSyncIn", "environmentSyncIn"],
    ["nativeSyncOut", "environmentSyncOut"],
    ["persistentProcessSessions", "environmentExecute"],
    ["independentControlCommands", "environmentExecute"],
    ["incrementalSessionOutput", "environmentExecute"],
    ["concurrentSyncOperations", "environmentSyncIn"],
    ["concurrentSyncOperations", "environmentSyncOut"],
    ["duplexCommandStream", "environmentExecute"],
    ["runnerWebsocketIngress", "environmentExecute"]
  ])("RL-CAP-06 %s needs %s, even when it is declared", (key, method) => {
    const plugin = pluginOf({ sandboxCapabilities: allOf(true) })
    assert.include(granted({ plugin }), key)
    assert.notInclude(granted({ plugin, supportedMethods: without(method) }), key)
  })

  it.each(optedIn)("U2 %s is denied unless it is opted in to", (key) => {
    assert.notInclude(granted({ plugin: pluginOf({}) }), key)
    assert.include(granted({ plugin: pluginOf({ sandboxCapabilities: { [key]: true } }) }), key)
  })

  it.each(keys)("U2 %s is denied when it is forbidden", (key) => {
    assert.notInclude(
      granted({ plugin: pluginOf({ sandboxCapabilities: { ...allOf(true), [key]: false } }) }),
      key
    )
  })

  it.each(keys)("U2 %s is denied when the recorded config takes it back", (key) => {
    const plugin = pluginOf({ sandboxCapabilities: allOf(true) })
    const names = granted({ plugin, config: { sandboxCapabilities: { [key]: false } } })
    assert.deepStrictEqual(
      names,
      keys.filter((each) => each !== key)
    )
  })

  it("U2 reuseLease false takes reuse back", () => {
    assert.notInclude(granted({ config: { reuseLease: false } }), "reusableLeases")
  })

  it.each([
    ["no living worker", { supportedMethods: null }],
    ["an unreadable config", { config: null }],
    ["a config whose narrowing cannot be read", { config: { sandboxCapabilities: "none" } }]
  ])("U2 %s denies everything", (_, given) => {
    assert.deepStrictEqual(granted(given), [])
  })
})
