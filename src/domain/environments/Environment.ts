/**
 * An environment: a place that runs can lease, made of a driver and its config. It belongs to the installation; what
 * ties it to a tenant is a managed resource binding and its leases. Source: RL section 2.1.
 */
import * as Schema from "effect/Schema"
import { EnvironmentId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"

export const EnvironmentDriverName = Schema.Literals(["local", "ssh", "sandbox", "plugin"])
export type EnvironmentDriverName = typeof EnvironmentDriverName.Type

export class Environment extends Schema.Class<Environment>("holdfast/Environment")({
  id: EnvironmentId,
  name: Schema.String,
  description: Schema.NullOr(Schema.String),
  driver: EnvironmentDriverName,
  status: Schema.Literals(["active", "disabled"]),
  /** Secrets stand in it as references, never as values. */
  config: Schema.Record(Schema.String, Schema.Unknown),
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)),
  createdAtMillis: Schema.Int,
  updatedAtMillis: Schema.Int
}) {}

/** What a run changes in an environment's config for itself alone; it is never stored. Source: RL-REUSE-07, -08. */
export interface RunnerLifecycle {
  readonly lifecycleMode: "per_turn" | "warm"
}

/** Provider key of a sandbox environment's config; empty where it has none, which no provider is named by. */
export const providerKeyOf = (config: JsonObject): string =>
  typeof config["provider"] === "string" ? config["provider"] : ""
