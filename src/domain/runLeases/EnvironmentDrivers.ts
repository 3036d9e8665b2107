/**
 * The drivers of one environment runtime, by the name that environments and leases record. Which ones there are is said
 * where a runtime is put together; a list given there replaces every other. Source: RL-DRIVER-06.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { EnvironmentDriver } from "./EnvironmentDriver.ts"

/** Builds a driver out of what it needs, which the runtime's layer is given. */
export type DriverMaker<R> = Effect.Effect<EnvironmentDriver, never, R>

export class EnvironmentDrivers extends Context.Service<
  EnvironmentDrivers,
  {
    /** The driver of that name, or undefined: then nothing may be done in its place. */
    readonly find: (driver: string) => EnvironmentDriver | undefined
  }
>()("holdfast/domain/runLeases/EnvironmentDrivers") {
  /** Of two drivers with one name the later one serves. */
  static readonly layerOf = <R>(
    makers: ReadonlyArray<DriverMaker<R>>
  ): Layer.Layer<EnvironmentDrivers, never, R> =>
    Layer.effect(
      EnvironmentDrivers,
      Effect.map(Effect.all(makers), (drivers) => {
        const byName = new Map(drivers.map((driver) => [driver.driver, driver]))
        return { find: (driver: string) => byName.get(driver) }
      })
    )
}
