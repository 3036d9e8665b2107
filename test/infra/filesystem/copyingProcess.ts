/** A process that copies one workspace and does nothing else: started, and killed, by WorkspaceCopies.test.ts. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { WorkspaceCopies } from "../../../src/domain/runtimes/WorkspaceCopies.ts"
import * as Disks from "../../../src/infra/filesystem/Disks.ts"
import { layer } from "../../../src/infra/filesystem/WorkspaceCopies.ts"

const [, , stateDirectory = "", from = "", to = ""] = process.argv

await Effect.runPromise(
  Effect.flatMap(WorkspaceCopies, (copies) => copies.copy({ from, to })).pipe(
    Effect.provide(layer().pipe(Layer.provide(Disks.layer({ stateDirectory }))))
  )
)
