/**
 * What the product promises as a whole. The page of promises keeps its word: each row names a bound that exists and tests
 * that name their rule; and proofs of absence are made in one place. Source: BX-02, BX-05.
 */
import { type Check, dottedName, isProduct, type Offence, type Tree, walk } from "./tree.ts"

const page = "docs/guarantees.md"
const boundsFile = "src/domain/Bounds.ts"
const rule = "every promise names the test that proves it"

/** Cells of the page's rows, with their line; heads and rules of tables are none. */
const rowsOf = (text: string): ReadonlyArray<readonly [line: number, cells: ReadonlyArray<string>]> =>
  text.split("\n").flatMap((line, at) => {
    const cells = line.split("|").map((cell) => cell.trim())
    const isRow = line.startsWith("|") && !line.startsWith("| ---") && cells[1] !== "promise"
    return isRow ? [[at + 1, cells.slice(1, -1)] as const] : []
  })

const quotedIn = (cell: string): ReadonlyArray<string> =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)

const boundsOffences = (tree: Tree, cell: string): ReadonlyArray<string> =>
  quotedIn(cell)
    .filter((name) => !(tree.texts.get(boundsFile) ?? "").includes(`export const ${name} =`))
    .map((name) => `names the bound ${name}, which does not exist`)

const ruleId = /\b(?:SP|RG|RL|FC|BX)-(?:[A-Z]+-)?\d+\b/g

/** A proof is a test's path and the ids that names of its tests have. */
const proofOffences = (tree: Tree, proof: string): ReadonlyArray<string> => {
  const path = quotedIn(proof)[0]
  const ids = proof.match(ruleId) ?? []
  if (path === undefined || ids.length === 0) return ["names no test with its rule"]
  const text = tree.texts.get(path)
  if (text === undefined || !path.endsWith(".test.ts")) return [`names ${path}, which is no test`]
  return ids
    .filter((id) => !text.includes(id))
    .map((id) => `says that ${path} proves ${id}, which it does not name`)
}

export const promisesAreProved: Check = (tree) => {
  const text = tree.texts.get(page)
  if (text === undefined) return [{ rule, file: page, what: "is not there" }]
  const rows = rowsOf(text)
  if (rows.length === 0) return [{ rule, file: page, what: "promises nothing" }]
  return rows.flatMap(([line, cells]): ReadonlyArray<Offence> => {
    const [promise = "", within = "", proofs = ""] = cells
    const found = [
      ...(promise === "" || within === "" ? ["has no promise, or no time for it"] : []),
      ...boundsOffences(tree, within),
      ...proofs.split(";").flatMap((proof) => proofOffences(tree, proof))
    ]
    return found.map((what) => ({ rule, file: `${page}:${line}`, what }))
  })
}

const placeOfProofs = "src/domain/guests/absence.ts"

/** Whoever could make a proof without an observation could give back what is still there. */
export const proofsAreObserved: Check = (tree) =>
  tree.sources
    .filter((file) => isProduct(file) && file.path !== placeOfProofs)
    .flatMap((file) => {
      const offences: Array<Offence> = []
      walk(file.program, (node) => {
        const called = node.type === "NewExpression" || node.type === "CallExpression"
        if (!called || !/^AbsenceProof(\.|$)/.test(dottedName(node["callee"]) ?? "")) return
        offences.push({
          rule: `proofs are made in ${placeOfProofs} alone`,
          file: `${file.path}:${file.lineOf(node.start)}`,
          what: "makes a proof of absence"
        })
      })
      return offences
    })
