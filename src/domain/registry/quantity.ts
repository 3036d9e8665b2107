/**
 * Exact decimal quantities of resources: digits, an optional fraction, and one of the suffixes m, K M G T, Ki Mi Gi Ti.
 * What is no whole number of the resource's smallest unit is refused, never rounded. Pure. Source: RG figures.
 */
import * as Result from "effect/Result"
import { quantityCharactersMax, sandboxCpuMillisMax, sandboxMemoryBytesMax } from "../Bounds.ts"

const pattern = /^(\d+)(?:\.(\d+))?(m|K|M|G|T|Ki|Mi|Gi|Ti)?$/

/** Thousandths of one, so that `m` is whole too. */
const thousandthsOf: Readonly<Record<string, bigint>> = {
  m: 1n,
  "": 1_000n,
  K: 1_000n ** 2n,
  M: 1_000n ** 3n,
  G: 1_000n ** 4n,
  T: 1_000n ** 5n,
  Ki: 1_000n * 1_024n,
  Mi: 1_000n * 1_024n ** 2n,
  Gi: 1_000n * 1_024n ** 3n,
  Ti: 1_000n * 1_024n ** 4n
}

interface Unit {
  /** Smallest units in one. */
  readonly inOne: bigint
  readonly name: string
  readonly max: number
}

const read = (text: string, unit: Unit): Result.Result<number, string> => {
  const found = text.length > quantityCharactersMax ? null : pattern.exec(text)
  if (found === null) {
    return Result.fail(
      `must be a decimal of at most ${quantityCharactersMax} characters with no suffix or one of m K M G T Ki Mi Gi Ti`
    )
  }
  const [, whole = "", fraction = "", suffix = ""] = found
  const parts = BigInt(whole + fraction) * (thousandthsOf[suffix] ?? 0n) * unit.inOne
  const partsInUnit = 10n ** BigInt(fraction.length) * 1_000n
  if (parts % partsInUnit !== 0n) return Result.fail(`must be a whole number of ${unit.name}`)
  const count = parts / partsInUnit
  if (count === 0n) return Result.fail("must be more than zero")
  return count > BigInt(unit.max)
    ? Result.fail(`must not be more than ${unit.max} ${unit.name}`)
    : Result.succeed(Number(count))
}

/** Thousandths of a CPU: `2` is 2,000, `0.5` and `500m` are 500. */
export const readCpuMillis = (text: string): Result.Result<number, string> =>
  read(text, { inOne: 1_000n, name: "thousandths of a CPU", max: sandboxCpuMillisMax })

/** Bytes of memory: `512Mi`, `1.5G`. */
export const readMemoryBytes = (text: string): Result.Result<number, string> =>
  read(text, { inOne: 1n, name: "bytes", max: sandboxMemoryBytesMax })
