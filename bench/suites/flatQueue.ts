/** P6: a queue whose cost may grow neither with the receipts that are stored nor beside an old snapshot. */
import * as Effect from "effect/Effect"
import { migrateBoth, pluginSchema } from "../lib/admission.ts"
import { admissionRows } from "../lib/admissionWork.ts"
import { openDatabase } from "../lib/database.ts"
import type { Suite } from "../lib/definition.ts"
import { besideSnapshot, flatQueue as queue, receiptRows, receiptsEach } from "../lib/flatQueueWork.ts"
import { runPlainly } from "../lib/plainPg.ts"

const contender = "claimNext, settleOperation"
const sizes = [10_000, 1_000_000]
const largest = sizes.at(-1)!

export const flatQueue: Suite = {
  id: "P6",
  title: "flat queue",
  what: "Claims one by one, and ends that trim, with 64 operations queued; the recovery's read of the oldest hundred claims. Once more after 20,000 operations beside a transaction that keeps its snapshot, in the small table.",
  figure: { name: "claimMillis", better: "lower" },
  beside: ["settleMillis", "claimGrowth", "settleGrowth", "recoveryMillis", "snapshotGrowth"],
  baseline: contender,
  loadName: "receipts",
  workers: sizes,
  targets: [
    { contender, workers: [largest], figure: "claimGrowth", atMost: 1.15 },
    { contender, workers: [largest], figure: "settleGrowth", atMost: 1.3 },
    { contender, workers: [largest], figure: "recoveryMillis", atMost: 0.5 },
    { contender: "beside an old snapshot", workers: [sizes[0]!], figure: "snapshotGrowth", atMost: 1.25 }
  ],
  open: () =>
    Effect.gen(function* () {
      const { setting, settings } = yield* openDatabase
      const settingsOf = (receipts: number) => ({
        ...settings,
        database: `receipts_${receipts}`,
        options: `-c search_path=${pluginSchema}`
      })
      for (const receipts of sizes) {
        const at = settingsOf(receipts)
        yield* runPlainly(settings, [`create database ${at.database}`])
        yield* migrateBoth({ ...settings, database: at.database })
        yield* runPlainly(at, admissionRows(largest / receiptsEach))
        yield* runPlainly(at, receiptRows(receipts))
      }
      return {
        contenders: [queue(settingsOf, sizes[0]!), besideSnapshot(settingsOf, sizes[0]!)],
        leftOut: [],
        setting
      }
    })
}
