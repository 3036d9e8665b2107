/** Rows of environments as the domain has them, by themselves or beside those of leases. */
import { Environment } from "../../domain/environments/Environment.ts"
import type { SqlRow } from "../../domain/persistence/PluginDb.ts"

type Fields = { -readonly [Key in keyof Environment]: Environment[Key] }

/** The schema's CHECKs have validated the row when it was written, and it is read all the time. */
export const environmentOf = (row: SqlRow): Environment => {
  const fields: Fields = {
    id: row["id"] as Fields["id"],
    name: row["name"] as string,
    description: row["description"] as string | null,
    driver: row["driver"] as Fields["driver"],
    status: row["status"] as Fields["status"],
    config: row["config"] as Fields["config"],
    metadata: row["metadata"] as Fields["metadata"],
    createdAtMillis: (row["created_at"] as Date).getTime(),
    updatedAtMillis: (row["updated_at"] as Date).getTime()
  }
  return Object.assign(Object.create(Environment.prototype) as Environment, fields)
}

const columns = [
  "id",
  "name",
  "description",
  "driver",
  "status",
  "config",
  "metadata",
  "created_at",
  "updated_at"
]

/** The columns of the environment that is joined to a lease, under names that no column of a lease has. */
export const columnsBeside = (environment: string): string =>
  columns.map((column) => `${environment}.${column} as environment_s_${column}`).join(", ")

/** The environment beside a lease; null where it is gone. */
export const environmentBeside = (row: SqlRow): Environment | null =>
  row["environment_s_id"] === null
    ? null
    : environmentOf(Object.fromEntries(columns.map((column) => [column, row[`environment_s_${column}`]])))
