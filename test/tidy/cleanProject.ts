/** A small project that every check of the tree passes, to put one breach at a time into. */

export type Files = Readonly<Record<string, string>>

export const header = "/** What this file of the small project is for. */\n"

const lock = {
  packages: { "": {}, "node_modules/effect": { version: "4.1.0", integrity: "sha512-x" } }
}

/** A project that every check passes. */
export const clean: Files = {
  "package.json": JSON.stringify({ dependencies: { effect: "4.1.0" }, devDependencies: { pg: "8.23.1" } }),
  "package-lock.json": JSON.stringify(lock),
  "docs/decisions/dependencies.md": "`effect` and `pg`.\n",
  "docs/guarantees.md":
    "| promise | within | proved by |\n| --- | --- | --- |\n| a | `waitMillisMax` | `test/domain/leases/sweep.test.ts` SP-A-01 |\n",
  "src/domain/Bounds.ts": `${header}export const waitMillisMax = 5\n`,
  "src/domain/host/Projects.ts": `${header}import * as Context from "effect/Context"
export class Projects extends Context.Service<Projects, { readonly size: number }>()("holdfast/domain/host/Projects") {}
`,
  "src/domain/leases/sweep.ts": `${header}import * as Effect from "effect/Effect"
import { waitMillisMax } from "../Bounds.ts"
import { isOld } from "./isOld.ts"
import type { Projects } from "../host/Projects.ts"
export const sweep = (process: { Date: number }, projects: Projects) =>
  Effect.succeed(isOld(process.Date + waitMillisMax) && String(projects).length)
`,
  "src/domain/leases/isOld.ts": `${header}export const isOld = (age: number) => age > 1\n`,
  "src/infra/postgres/Projects.ts": `${header}import { Projects } from "../../domain/host/Projects.ts"
import { isOld } from "../../domain/leases/isOld.ts"
import { tableName } from "./tableName.ts"
export const layer = () => [Projects, tableName(), isOld(2)]
`,
  "src/infra/postgres/tableName.ts": `${header}export const tableName = () => "projects"\n`,
  "src/layers/live.ts": `${header}import { sweep } from "../domain/leases/sweep.ts"
import { layer } from "../infra/postgres/Projects.ts"
export const live = () => [sweep, layer]
`,
  "bin/holdfast.js": `#!/usr/bin/env node\n${header}import { live } from "../dist/layers/live.js"\nlive()\n`,
  "test/domain/leases/sweep.test.ts": `${header}import { sweep } from "../../../src/domain/leases/sweep.ts"\nsweep("SP-A-01")\n`,
  "test/domain/leases/isOld.test.ts": `${header}import { isOld } from "../../../src/domain/leases/isOld.ts"\nisOld\n`,
  "test/infra/postgres/Projects.test.ts": `${header}// @ts-expect-error a string is no number\nexport const size: number = "s"\n`,
  "test/layers/live.test.ts": `${header}import { live } from "../../src/layers/live.ts"\nlive()\n`
}
