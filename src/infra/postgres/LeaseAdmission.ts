/**
 * Adapter of the admission of execution leases: the locked read of the runtime and the insert, both on the caller's
 * transaction.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { projectLeasesMax } from "../../domain/Bounds.ts"
import { Generation, SandboxId } from "../../domain/Identity.ts"
import { LeaseAdmission } from "../../domain/leases/LeaseAdmission.ts"
import { PluginTx } from "../../domain/persistence/PluginDb.ts"
import { RuntimeObserved } from "../../domain/runtimes/Runtime.ts"

const decodeRuntime = Schema.decodeUnknownSync(
  Schema.Struct({ generation: Generation, observed: RuntimeObserved, sandbox: Schema.NullOr(SandboxId) })
)

/** The admission's statements; they need nothing but the open transaction. */
export const layer: Layer.Layer<LeaseAdmission> = Layer.succeed(LeaseAdmission, {
  holdRuntime: (project) =>
    PluginTx.use((tx) =>
      tx.query({
        operation: "LeaseAdmission.holdRuntime",
        text: "select generation, observed, sandbox_id from runtimes where project_id = $1::bigint for share",
        parameters: [project]
      })
    ).pipe(
      Effect.map(([row]) =>
        Option.map(Option.fromNullishOr(row), (found) =>
          decodeRuntime({
            generation: Number(found["generation"]),
            observed: found["observed"],
            sandbox: found["sandbox_id"]
          })
        )
      )
    ),
  insert: (lease) =>
    PluginTx.use((tx) =>
      tx.query({
        operation: "LeaseAdmission.insert",
        text: `insert into execution_leases (id, project_id, generation, process, label, sandbox_id)
          select $1::uuid, $2::bigint, $3::bigint, $4::text, $5::text, $7::text
          where $6::int > (
            select count(*) from (select from execution_leases where project_id = $2::bigint limit $6::int) counted)
          returning id`,
        parameters: [
          lease.id,
          lease.project,
          lease.generation,
          lease.process,
          lease.label,
          projectLeasesMax,
          lease.sandbox
        ]
      })
    ).pipe(Effect.map((rows) => rows.length === 1))
})
