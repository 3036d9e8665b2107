/**
 * The shape of the tree: direction of imports, lengths, headers, names, and what must have its counterpart elsewhere.
 * oxlint sees a line, this sees the tree. What each check refuses is shown in test/tidy/checks.test.ts.
 */
import { fileURLToPath } from "node:url"
import { assert, beforeAll, describe, it } from "@effect/vitest"
import * as content from "./tidy/content.ts"
import * as dependencies from "./tidy/dependencies.ts"
import * as guarantees from "./tidy/guarantees.ts"
import { sourceFilesMin } from "./tidy/layout.ts"
import * as proofs from "./tidy/proofs.ts"
import { type Check, isProduct, readTree, type Tree } from "./tidy/tree.ts"

const checks: ReadonlyArray<readonly [claim: string, check: Check]> = [
  ["domain imports effect and domain only", dependencies.domainImports],
  [
    "infra imports infra and the nouns of domain, a driving adapter also its programs",
    dependencies.infraImports
  ],
  ["only entry points and tests import layers", dependencies.layerImports],
  ["a folder of domain imports only those above it", dependencies.domainOrder],
  ["no import leads round in a circle", dependencies.noCycles],
  ["every export has a name and no file is a barrel", dependencies.exportsAreNamed],
  ["every import leads to a file, a deep module or a declared package", dependencies.importsCanBeFollowed],
  ["somebody imports every file", dependencies.everyFileIsImported],
  ["every file begins with what it is for", content.headers],
  ["every file name is a noun or a verb", content.fileNames],
  ["no file is too long to be read at once", content.fileLengths],
  ["no function is too long to be seen at once", content.functionLengths],
  ["domain asks ports, not the machine", content.domainGlobals],
  ["a service is named by its path and no id is used twice", content.ids],
  ["nothing is marked as unfinished", content.noUnfinishedWork],
  ["no check is silenced and no test is left out", content.nothingIsSilenced],
  ["a failure that becomes a defect says why", content.defectsAreExplained],
  ["every program has a test", proofs.everyProgramIsTested],
  ["every bound has a unit and is kept by the product", proofs.bounds],
  ["every dependency is pinned and has a written reason", proofs.dependenciesArePinned],
  ["the lock file has every integrity and no address", proofs.lockNamesNoHost],
  ["no file names the host of a registry", proofs.noRegistryHosts]
]

describe("tidy", () => {
  let tree: Tree
  beforeAll(() => {
    tree = readTree(fileURLToPath(new URL("..", import.meta.url)))
  })

  it(`sees at least ${sourceFilesMin} source files`, () => {
    assert.isAtLeast(tree.sources.filter(isProduct).length, sourceFilesMin)
  })

  const offencesOf = (check: Check): string =>
    check(tree)
      .map(({ file, rule, what }) => `${file}: ${what} (${rule})`)
      .join("\n")

  for (const [claim, check] of checks) {
    it(`${claim}`, () => assert.strictEqual(offencesOf(check), ""))
  }

  it("BX-02 a proof of absence is made where the observation is, and nowhere else", () =>
    assert.strictEqual(offencesOf(guarantees.proofsAreObserved), ""))

  it("BX-05 every promise names a bound and the test that proves it", () =>
    assert.strictEqual(offencesOf(guarantees.promisesAreProved), ""))
})
