/**
 * Breaches of what files must hold, or must have elsewhere, one for each thing that test/tidy/content.ts and
 * test/tidy/proofs.ts refuse. The bad words stand in pieces here, since the checks read this file too.
 */
import type { Breach } from "./breachesOfDependencies.ts"
import { header } from "./cleanProject.ts"
import * as content from "./content.ts"
import * as guarantees from "./guarantees.ts"
import * as proofs from "./proofs.ts"

const domain = "src/domain/leases/bad.ts"
const manifest = (dependencies: object) => ({ "package.json": JSON.stringify({ dependencies }) })
const service = (id: string) =>
  `${header}import * as Context from "effect/Context"\nexport class Bad extends Context.Service<Bad, {}>()("${id}") {}\n`

export const breachesOfContent: ReadonlyArray<Breach> = [
  [
    "a file without a header",
    content.headers,
    { [domain]: "// sweeps\nexport const a = 1" },
    `${domain}: does not begin`
  ],
  [
    "a file name that is no noun and no verb",
    content.fileNames,
    { "src/domain/bad-name.ts": "" },
    "src/domain/bad-name.ts: is neither"
  ],
  [
    "a file of 301 lines",
    content.fileLengths,
    { [domain]: "// a line\n".repeat(301) },
    `${domain}: has 301 lines`
  ],
  [
    "a generator of 61 lines of code",
    content.functionLengths,
    { [domain]: `export const a = function* () {\n${"yield 1\n\n// why\n".repeat(59)}}` },
    `${domain}:1: has 61 lines`
  ],
  [
    "a domain file that reads the machine's clock",
    content.domainGlobals,
    { [domain]: "export const a = () => Date.now()" },
    `${domain}:1: uses Date`
  ],
  [
    "a domain file that throws dice",
    content.domainGlobals,
    { [domain]: "export const a = Math.random" },
    `${domain}:1: uses Math.random`
  ],
  [
    "a domain file whose shorthand takes the process",
    content.domainGlobals,
    { [domain]: "export const a = { process }" },
    `${domain}:1: uses process`
  ],
  [
    "a service that is named by another path",
    content.ids,
    { "src/infra/Bad.ts": service("holdfast/domain/Bad") },
    "src/infra/Bad.ts:3: is called"
  ],
  [
    "a service of a file with another name",
    content.ids,
    { "src/infra/Worse.ts": service("holdfast/infra/Worse") },
    "src/infra/Worse.ts:3: is called"
  ],
  [
    "a mark of unfinished work in a text",
    content.noUnfinishedWork,
    { "README.md": "a\nTO" + "DO: b" },
    "README.md:2: says TO" + "DO"
  ],
  [
    "a test that is left out",
    content.nothingIsSilenced,
    { "test/bad.test.ts": 'it.live.skip("a", () => {})' },
    "test/bad.test.ts:1: leaves a test out"
  ],
  [
    "a test that leaves out all others",
    content.nothingIsSilenced,
    { "test/bad.test.ts": 'it.only.each([1])("a", () => {})' },
    "test/bad.test.ts:1: leaves a test out"
  ],
  [
    "a cast to any",
    content.nothingIsSilenced,
    { [domain]: "export const a = 1 as any" },
    `${domain}:1: casts to any`
  ],
  [
    "a comment that switches the linter off",
    content.nothingIsSilenced,
    { [domain]: "// ox" + "lint-disable-next-line\n" },
    `${domain}:1: switches a check off`
  ],
  [
    "a comment that silences the compiler",
    content.nothingIsSilenced,
    { [domain]: "// @ts" + "-ignore\n" },
    `${domain}:1: switches a check off`
  ],
  [
    "a type error that is expected without a reason",
    content.nothingIsSilenced,
    { "test/bad.test.ts": "// @ts-expect" + "-error\n" },
    "test/bad.test.ts:1: expects"
  ],
  [
    "a failure that becomes a defect without a reason",
    content.defectsAreExplained,
    { [domain]: "// why a\nexport const a = 1\n\nexport const b = Effect.orDie(a)" },
    `${domain}:4: Effect.orDie`
  ],
  [
    "a program without a test",
    proofs.everyProgramIsTested,
    { [domain]: "export const a = () => 1" },
    `${domain}: has no mirrored test`
  ],
  [
    "an adapter's part that no tested file uses",
    proofs.everyProgramIsTested,
    { "src/infra/postgres/bad.ts": "export const a = () => 1" },
    "src/infra/postgres/bad.ts: has no mirrored test"
  ],
  [
    "a bound without a unit",
    proofs.bounds,
    { "src/domain/Bounds.ts": "export const waitMillisMax = 1\nexport const wait = 5", [domain]: "wait" },
    "src/domain/Bounds.ts: wait ends in no unit"
  ],
  [
    "a bound that only a test knows",
    proofs.bounds,
    { "src/domain/Bounds.ts": "export const waitMillisMax = 1, idleMillis = 5", "test/a.ts": "idleMillis" },
    "src/domain/Bounds.ts: nothing in src uses idleMillis"
  ],
  [
    "a dependency with a range",
    proofs.dependenciesArePinned,
    manifest({ effect: "^4.1.0" }),
    "package.json: effect is ^4.1.0"
  ],
  [
    "a dependency without a reason",
    proofs.dependenciesArePinned,
    manifest({ left: "1.0.0" }),
    "package.json: no page"
  ],
  [
    "a lock file with an address",
    proofs.lockNamesNoHost,
    {
      "package-lock.json": JSON.stringify({
        packages: { "node_modules/a": { resolved: "x", integrity: "y" } }
      })
    },
    "package-lock.json: node_modules/a is resolved"
  ],
  [
    "a lock file without an integrity",
    proofs.lockNamesNoHost,
    { "package-lock.json": JSON.stringify({ packages: { "node_modules/a": {} } }) },
    "package-lock.json: node_modules/a has none"
  ],
  [
    "the host of a registry",
    proofs.noRegistryHosts,
    { ".npmrc": ["a=https://registry", "example", "org/"].join(".") },
    ".npmrc:1: names the host"
  ],
  [
    "a promise without a test",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "| a | at once | |\n" },
    "docs/guarantees.md:1: names no test"
  ],
  [
    "a promise whose test is not there",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "| a | at once | `test/no.test.ts` SP-A-01 |\n" },
    "docs/guarantees.md:1: names test/no.test.ts"
  ],
  [
    "a promise whose test does not name its rule",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "| a | at once | `test/domain/leases/sweep.test.ts` SP-A-02 |\n" },
    "docs/guarantees.md:1: says that"
  ],
  [
    "a promise within a bound that there is not",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "| a | `noMillis` | `test/domain/leases/sweep.test.ts` SP-A-01 |\n" },
    "docs/guarantees.md:1: names the bound noMillis"
  ],
  [
    "a promise without a time",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "| a | | `test/domain/leases/sweep.test.ts` SP-A-01 |\n" },
    "docs/guarantees.md:1: has no promise"
  ],
  [
    "a page that promises nothing",
    guarantees.promisesAreProved,
    { "docs/guarantees.md": "# Promises\n" },
    "docs/guarantees.md: promises nothing"
  ],
  [
    "a proof that nobody observed",
    guarantees.proofsAreObserved,
    {
      "src/infra/guests/start.ts": "/** Says what it is for. */\nexport const gone = new AbsenceProof({})\n"
    },
    "src/infra/guests/start.ts:2: makes a proof of absence"
  ],
  [
    "a proof that is made without its constructor",
    guarantees.proofsAreObserved,
    {
      "src/infra/guests/start.ts": "/** Says what it is for. */\nexport const gone = AbsenceProof.make({})\n"
    },
    "src/infra/guests/start.ts:2: makes a proof of absence"
  ]
]
