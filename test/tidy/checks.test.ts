/**
 * Shows each check of the tree a small project that breaks its rule, and that the same project is clean without the
 * breach.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { breachesOfContent } from "./breachesOfContent.ts"
import { breachesOfDependencies } from "./breachesOfDependencies.ts"
import { clean, type Files } from "./cleanProject.ts"
import * as content from "./content.ts"
import * as dependencies from "./dependencies.ts"
import * as guarantees from "./guarantees.ts"
import * as proofs from "./proofs.ts"
import { type Check, readTree } from "./tree.ts"

const offencesOf = (check: Check, files: Files): ReadonlyArray<string> => {
  const root = mkdtempSync(join(tmpdir(), "tidy-"))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    return check(readTree(root)).map(({ file, what }) => `${file}: ${what}`)
  } finally {
    rmSync(root, { recursive: true })
  }
}

const breaches = [...breachesOfDependencies, ...breachesOfContent]

describe("tidy/checks", () => {
  const all = [
    ...Object.values(dependencies),
    ...Object.values(content),
    ...Object.values(proofs),
    ...Object.values(guarantees)
  ]

  it("no check finds anything in a clean project", () => {
    assert.deepStrictEqual(
      all.flatMap((check) => offencesOf(check, clean)),
      []
    )
  })

  it("every check is shown at least one breach", () => {
    assert.deepStrictEqual(
      all.filter((check) => !breaches.some(([, shown]) => shown === check)),
      []
    )
  })

  for (const [name, check, files, begins] of breaches) {
    it(`${name} is found, and nothing else is`, () => {
      const offences = offencesOf(check, { ...clean, ...files })
      assert.deepStrictEqual(
        offences.map((offence) => offence.slice(0, begins.length)),
        [begins]
      )
    })
  }
})
