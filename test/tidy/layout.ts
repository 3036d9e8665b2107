/**
 * The shape of the tree, in one place: the order of the domain's folders, who may import whom, which files start
 * something, and what a few folders are excused from. The checks beside this file read it and decide nothing else.
 */

/** Folders of src/domain in dependency order: a folder imports its own files, root files, and folders before it. */
export const domainFolders: ReadonlyArray<string> = [
  "persistence",
  "host",
  "guests",
  "reclamation",
  "registry",
  "runtimes",
  "history",
  "leases",
  "worktrees",
  "operations",
  "desktop",
  "sampling",
  "removal",
  "work",
  "secrets",
  "providers",
  "environments",
  "runLeases"
]

/** Adapters that drive the domain, so they import its programs too; the others import its nouns only. */
export const drivingAdapters: ReadonlyArray<string> = ["src/infra/http/"]

/** Folders of the tree whose sources the checks read. */
export const sourceFolders: ReadonlyArray<string> = ["src", "test", "bench", "demo", "bin"]

/** Who may import layers, besides src/layers itself. */
export const layerImporters: ReadonlyArray<string> = ["bin/", "bench/", "demo/", "test/"]

/** Files that something outside the tree starts, so that no import leads to them. */
export const entryPoints: ReadonlyArray<RegExp> = [
  /^bin\//,
  /^bench\/run\.ts$/,
  /^demo\/main\.ts$/,
  /\.test\.ts$/,
  /^vitest\.config\.ts$/
]

/** Source files that are there for consumers of the library only, each with its reason. */
export const publishedForConsumers: ReadonlyMap<string, string> = new Map([
  [
    "src/infra/guests/scriptedSupervisor.ts",
    "the double of the test kit: consumers prove their own adapters against it"
  ],
  [
    "src/domain/operations/admissionStepwise.ts",
    "the reference that tests hold the one statement of admission to"
  ]
])

/** Where a default export is demanded by the tool that loads the file. */
export const defaultExportDemanded: ReadonlyArray<string> = [
  "vitest.config.ts",
  "test/support/globalSetup.ts"
]

/** A migration is a listing of statements: neither split by length nor tested alone, since every clone runs it. */
export const statementListings = /^src\/infra\/postgres\/migrations\//

/** Test files that may leave tests out, each with its reason. */
export const mayLeaveTestsOut: ReadonlyMap<string, string> = new Map([
  [
    "test/suites/guestHarness.ts",
    "a supervisor that does not work on a laptop is left out with its reason printed; a build machine fails"
  ],
  [
    "test/infra/guests/unprivileged.test.ts",
    "a process without privileges cannot read a checkout that lies below a private home"
  ],
  [
    "test/infra/providers/RemoteHosts.test.ts",
    "a laptop may have no SSH server; a build machine without one fails in this file"
  ],
  [
    "test/domain/runLeases/sshDriver.test.ts",
    "as RemoteHosts.test.ts, which fails on a build machine without a server"
  ]
])

export const linesInFileMax = 300
/** Lists with one place for everything, which are as long as what they list. */
export const lists: ReadonlySet<string> = new Set(["src/domain/Bounds.ts"])
export const linesInFunctionMax = 60

/** Fewer source files than this and the checks have looked at the wrong place. */
export const sourceFilesMin = 60

/** Last word of a bound's name: its unit, or which end of the range it is. */
export const boundSuffixes: ReadonlyArray<string> = [
  "Millis",
  "Seconds",
  "Days",
  "Bytes",
  "Mebibytes",
  "Max",
  "Min",
  "Default",
  "First",
  "Rows",
  "Code"
]

/** Globals that the domain asks a port or a service of Effect for, with what to use instead. */
export const globalsForeignToDomain: ReadonlyMap<string, string> = new Map([
  ["Date", "use Clock or DateTime"],
  ["process", "ask a port"],
  ["setTimeout", "use Effect.sleep"],
  ["setInterval", "use Schedule"],
  ["setImmediate", "use Effect.yieldNow"],
  ["queueMicrotask", "use Effect.yieldNow"],
  ["Buffer", "use TextEncoder or effect/encoding"],
  ["crypto", "use the Identifiers port"],
  ["performance", "use Clock"],
  ["console", "use Effect.log"],
  ["fetch", "ask a port"],
  ["require", "import it"],
  ["globalThis", "ask a port"]
])
