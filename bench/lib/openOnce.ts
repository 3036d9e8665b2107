/**
 * A process that opens a registry once, as a daemon does at its start, with nothing compiled yet: prints how long that
 * took and by how much the process has grown, as one line of JSON. The records are kept, as a daemon keeps them.
 */
import * as Effect from "effect/Effect"
import { openProduct } from "./registryStage.ts"

const bytesBefore = process.memoryUsage().rss
const begun = performance.now()
const { records } = await Effect.runPromise(openProduct(process.argv[2]!))
const millis = performance.now() - begun
const grownMebibytes = (process.memoryUsage().rss - bytesBefore) / 1024 ** 2
console.log(JSON.stringify({ records: records.length, millis, grownMebibytes }))
