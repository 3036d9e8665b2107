/**
 * How long a call to a provider may take. The provider's own time-outs decide, and a margin comes on top for the way
 * there and back; where nothing is said the worker's own default holds. Source: RL section 4.16.
 */
import { providerCallMarginMillis, providerCallMillisMax } from "../Bounds.ts"
import type { JsonObject } from "../Json.ts"

/** A time-out in milliseconds, or undefined: what is no positive number says nothing. */
const millisOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined

const withMargin = (baseMillis: number | undefined): number | undefined =>
  baseMillis === undefined
    ? undefined
    : Math.min(Math.ceil(baseMillis) + providerCallMarginMillis, providerCallMillisMax)

/**
 * Budget of an acquisition on the sandbox driver: the config's time-out, or else what the driver entry declares, and at
 * least the bridge's. A default of the config's schema is no budget. Source: RL-BUDGET-01, RL-BUDGET-02.
 */
export const acquisitionBudgetMillis = (
  config: JsonObject,
  declaredMillis: number | undefined
): number | undefined => {
  const bases = [
    millisOf(config["timeoutMs"]) ?? millisOf(declaredMillis),
    millisOf(config["bridgeRequestTimeoutMs"])
  ].filter((base) => base !== undefined)
  return withMargin(bases.length === 0 ? undefined : Math.max(...bases))
}

/** Budget of resume, release, stop and destroy on the sandbox driver, from the recorded config. Source: RL-BUDGET-03. */
export const lifecycleBudgetMillis = (recordedConfig: JsonObject): number | undefined =>
  withMargin(millisOf(recordedConfig["timeoutMs"]))

/** Budget of one command: its own time-out, or else the config's. Source: RL-BUDGET-04. */
export const executionBudgetMillis = (
  timeoutMillis: number | undefined,
  config: JsonObject
): number | undefined => withMargin(millisOf(timeoutMillis) ?? millisOf(config["timeoutMs"]))

/** Budget of an acquisition on the driver `plugin`, whose other calls but execute have none. Source: RL-BUDGET-05. */
export const pluginAcquisitionBudgetMillis = (declaredMillis: number | undefined): number | undefined =>
  withMargin(millisOf(declaredMillis))
