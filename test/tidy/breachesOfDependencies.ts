/** Breaches of the rules of dependency, one for each thing that test/tidy/dependencies.ts refuses. */
import type { Files } from "./cleanProject.ts"
import * as dependencies from "./dependencies.ts"
import type { Check } from "./tree.ts"

/** One breach: its name, the check, the files that are put into the clean project, and how its offence begins. */
export type Breach = readonly [name: string, check: Check, files: Files, begins: string]

const domain = "src/domain/leases/bad.ts"

export const breachesOfDependencies: ReadonlyArray<Breach> = [
  [
    "a domain file that imports a module of Node",
    dependencies.domainImports,
    { [domain]: 'import "node:fs/promises"' },
    `${domain}:1: imports node:`
  ],
  [
    "a domain file that imports a driver's type",
    dependencies.domainImports,
    { [domain]: 'type A = import("@effect/sql-pg").A' },
    `${domain}:1: imports @effect`
  ],
  [
    "a domain file that imports SQL of effect",
    dependencies.domainImports,
    { [domain]: 'import "effect/sql/SqlClient"' },
    `${domain}:1: imports effect/sql`
  ],
  [
    "a domain file that loads an adapter later",
    dependencies.domainImports,
    { [domain]: 'export const a = () => import("../../infra/postgres/Projects.ts")' },
    `${domain}:1: imports src/infra`
  ],
  [
    "an adapter that imports a program",
    dependencies.infraImports,
    { "src/infra/postgres/bad.ts": 'import "../../domain/leases/sweep.ts"' },
    "src/infra/postgres/bad.ts:1: imports the program"
  ],
  [
    "an adapter that imports layers",
    dependencies.infraImports,
    { "src/infra/bad.ts": 'import "../layers/live.ts"' },
    "src/infra/bad.ts:1: imports src/layers"
  ],
  [
    "a domain file that imports layers",
    dependencies.layerImports,
    { [domain]: 'import "../../layers/live.ts"' },
    `${domain}:1: imports src/layers`
  ],
  [
    "a source file that imports a test's helper",
    dependencies.layerImports,
    { [domain]: 'import "../../../test/a.ts"' },
    `${domain}:1: imports test/a.ts`
  ],
  [
    "a folder that imports a later one",
    dependencies.domainOrder,
    { "src/domain/host/bad.ts": 'import "../leases/sweep.ts"' },
    "src/domain/host/bad.ts:1: imports src/domain/leases"
  ],
  [
    "a root file that imports a folder",
    dependencies.domainOrder,
    { "src/domain/Bad.ts": 'import "./host/Projects.ts"' },
    "src/domain/Bad.ts:1: imports src/domain/host"
  ],
  [
    "a folder without a place in the order",
    dependencies.domainOrder,
    { "src/domain/helpers/a.ts": "" },
    "src/domain/helpers/a.ts: the folder helpers"
  ],
  [
    "two files that import each other",
    dependencies.noCycles,
    { "src/domain/A.ts": 'import "./B.ts"', "src/domain/B.ts": 'import type {} from "./A.ts"' },
    "src/domain/B.ts: src/domain/A.ts -> src/domain/B.ts"
  ],
  [
    "a default export",
    dependencies.exportsAreNamed,
    { [domain]: "export default 1" },
    `${domain}: exports a default`
  ],
  [
    "a default export by another name",
    dependencies.exportsAreNamed,
    { [domain]: "const a = 1\nexport { a as default }" },
    `${domain}: exports a default`
  ],
  [
    "a file that only forwards another",
    dependencies.exportsAreNamed,
    { [domain]: 'export { sweep } from "./sweep.ts"' },
    `${domain}: only forwards`
  ],
  [
    "an index file",
    dependencies.exportsAreNamed,
    { "src/domain/index.ts": "export const a = 1" },
    "src/domain/index.ts: is an index"
  ],
  [
    "an import of the barrel of effect",
    dependencies.importsCanBeFollowed,
    { [domain]: 'import { Effect } from "effect"' },
    `${domain}:1: imports the barrel`
  ],
  [
    "a module of Node without its prefix",
    dependencies.importsCanBeFollowed,
    { [domain]: 'import "fs"' },
    `${domain}:1: write node:`
  ],
  [
    "an import of a file that is not there",
    dependencies.importsCanBeFollowed,
    { [domain]: 'import "./swept.ts"' },
    `${domain}:1: there is no`
  ],
  [
    "a source file that imports a development package",
    dependencies.importsCanBeFollowed,
    { [domain]: 'import "pg"' },
    `${domain}:1: the package pg`
  ],
  [
    "a source file that only a test imports",
    dependencies.everyFileIsImported,
    { [domain]: "", "test/bad.test.ts": 'import "../src/domain/leases/bad.ts"' },
    `${domain}: only tests`
  ],
  [
    "a test's helper that nobody uses",
    dependencies.everyFileIsImported,
    { "test/support/bad.ts": "" },
    "test/support/bad.ts: nothing leads"
  ]
]
