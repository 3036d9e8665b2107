/**
 * What stands inside the files: headers, lengths, the ids of services, what the domain may not touch, and the words
 * and habits that are refused everywhere.
 */
import {
  mayLeaveTestsOut,
  globalsForeignToDomain,
  linesInFileMax,
  linesInFunctionMax,
  lists,
  statementListings
} from "./layout.ts"
import { isFunction, usesOfGlobals } from "./scope.ts"
import {
  baseName,
  type Check,
  dottedName,
  isDomain,
  isNode,
  isProduct,
  literalText,
  type Offence,
  type SourceFile,
  type SyntaxNode,
  type Tree,
  walk
} from "./tree.ts"

/** Every file says first what it is for, but a test, whose claims say it. */
export const headers: Check = (tree) =>
  tree.sources.flatMap((file) => {
    const text = file.text.replace(/^#!.*\n/, "")
    const words =
      /^\/\*\*([\s\S]*?)\*\//
        .exec(text)?.[1]
        ?.replace(/[\s*]+/g, " ")
        .trim() ?? ""
    const needsOne = file.path !== "vitest.config.ts" && !file.path.endsWith(".test.ts")
    return needsOne && words.split(" ").length < 5
      ? [
          {
            rule: "a header comment in every file",
            file: file.path,
            what: "does not begin with what it is for"
          }
        ]
      : []
  })

/** The case of a file name is the rule of the tree: a noun, a verb, or a numbered migration. */
export const fileNames: Check = (tree) =>
  tree.sources
    .filter(isProduct)
    .filter((file) => !/^([A-Za-z][A-Za-z0-9]*|\d{4}_[a-z][a-z0-9_]*)\.tsx?$/.test(baseName(file.path)))
    .map((file) => ({
      rule: "PascalCase for a noun, lowerCamel for a verb",
      file: file.path,
      what: "is neither"
    }))

const linesOf = (text: string): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0)

export const fileLengths: Check = (tree) =>
  tree.sources.flatMap((file) => {
    const lines = linesOf(file.text)
    return lines <= linesInFileMax || lists.has(file.path)
      ? []
      : [{ rule: `at most ${linesInFileMax} lines a file`, file: file.path, what: `has ${lines} lines` }]
  })

/** Lines of a function that hold code: blank lines and lines that are only a comment do not count. */
const codeLinesOf = (file: SourceFile, node: SyntaxNode): number => {
  let text = file.text.slice(node.start, node.end)
  for (const comment of file.comments) {
    if (comment.start < node.start || comment.end > node.end) continue
    const from = comment.start - node.start
    const blank = text.slice(from, comment.end - node.start).replace(/[^\n]/g, " ")
    text = text.slice(0, from) + blank + text.slice(from + blank.length)
  }
  return text.split("\n").filter((line) => line.trim() !== "").length
}

export const functionLengths: Check = (tree) =>
  tree.sources
    .filter((file) => isProduct(file) && !statementListings.test(file.path))
    .flatMap((file) => {
      const offences: Array<Offence> = []
      walk(file.program, (node) => {
        if (!isFunction(node) || node["body"] == null) return
        const lines = codeLinesOf(file, node)
        if (lines > linesInFunctionMax)
          offences.push({
            rule: `at most ${linesInFunctionMax} lines a function`,
            file: `${file.path}:${file.lineOf(node.start)}`,
            what: `has ${lines} lines`
          })
      })
      return offences
    })

/** Rule 6: what is true whatever the machine asks no machine. */
export const domainGlobals: Check = (tree) => {
  const rule = "domain asks ports, not the machine"
  const names = new Set(globalsForeignToDomain.keys())
  return tree.sources.filter(isDomain).flatMap((file) => {
    const uses = usesOfGlobals(file.program, names).map(({ name, offset }) => ({
      rule,
      file: `${file.path}:${file.lineOf(offset)}`,
      what: `uses ${name}: ${globalsForeignToDomain.get(name)}`
    }))
    walk(file.program, (node) => {
      if (dottedName(node) === "Math.random")
        uses.push({
          rule,
          file: `${file.path}:${file.lineOf(node.start)}`,
          what: "uses Math.random: use Effect's Random"
        })
    })
    return uses
  })
}

interface Declared {
  readonly file: SourceFile
  readonly kind: string
  readonly id: string
  readonly name: string | null
  readonly line: number
}

const identifierMakers = /^(Context\.Service|Schema\.(Class|TaggedClass|TaggedError|ErrorClass|Opaque))$/

/** `Maker<…>()("id")` and `Maker<…>("id")` with the class that extends it. */
const declaredIds = (tree: Tree): ReadonlyArray<Declared> =>
  tree.sources.filter(isProduct).flatMap((file) => {
    const found: Array<Declared> = []
    walk(file.program, (node, parents) => {
      if (node.type !== "CallExpression") return
      const callee = node["callee"]
      const maker =
        isNode(callee) && callee.type === "CallExpression" ? dottedName(callee["callee"]) : dottedName(callee)
      const id = literalText((node["arguments"] as ReadonlyArray<unknown>)[0])
      if (maker === null || id === null || !identifierMakers.test(maker)) return
      const owner = parents.findLast((parent) => parent.type === "ClassDeclaration" && isNode(parent["id"]))
      found.push({
        file,
        kind: maker,
        id,
        name: owner === undefined ? null : dottedName(owner["id"]),
        line: file.lineOf(node.start)
      })
    })
    return found
  })

/** A service is named by where it lives, and no two things of the tree share an id. */
export const ids: Check = (tree) => {
  const declared = declaredIds(tree)
  const misnamed = declared.flatMap(({ file, kind, id, name, line }) => {
    if (kind !== "Context.Service") return []
    const path = file.path.replace(/^src\//, "holdfast/").replace(/\.tsx?$/, "")
    const wanted = `${name}.ts` === baseName(file.path) ? [path, `${path}/${name}`] : [`${path}/${name}`]
    return wanted.includes(id)
      ? []
      : [
          {
            rule: "a service's id is its path",
            file: `${file.path}:${line}`,
            what: `is called ${id}, not ${wanted[0]}`
          }
        ]
  })
  const twice = declared.flatMap(({ file, kind, id, line }, at) => {
    const earlier = declared.slice(0, at).find((other) => other.id === id && other.kind === kind)
    return earlier === undefined
      ? []
      : [
          {
            rule: "an id is used once",
            file: `${file.path}:${line}`,
            what: `${id} is taken by ${earlier.file.path}`
          }
        ]
  })
  return [...misnamed, ...twice]
}

/** Marks of unfinished work. Spelt so that this file does not contain them. */
const unfinished = /\b(TO{1}DO|FIX{1}ME|X{3}|HA{1}CK)\b/

export const noUnfinishedWork: Check = (tree) =>
  [...tree.texts]
    .filter(([path]) => path !== "package-lock.json")
    .flatMap(([path, text]) =>
      text.split("\n").flatMap((line, at) => {
        const found = unfinished.exec(line)
        return found === null
          ? []
          : [{ rule: "no unfinished work", file: `${path}:${at + 1}`, what: `says ${found[1]}` }]
      })
    )

const testsLeftOut = new Set(["skip", "only", "todo", "skipIf", "runIf", "fails"])
const testMakers = new Set(["it", "test", "describe", "suite", "layer", "context"])

const habitOf = (file: SourceFile, node: SyntaxNode): string | null => {
  if (node.type === "TSAsExpression" || node.type === "TSTypeAssertion")
    return isNode(node["typeAnnotation"]) && node["typeAnnotation"].type === "TSAnyKeyword"
      ? "casts to any"
      : null
  if (node.type !== "MemberExpression" || !file.path.startsWith("test/")) return null
  if (mayLeaveTestsOut.has(file.path)) return null
  const parts = (dottedName(node) ?? "").split(".")
  return testMakers.has(parts[0]!) && testsLeftOut.has(parts.at(-1)!)
    ? `leaves a test out: ${parts.join(".")}`
    : null
}

const silencers = /@ts-(ignore|nocheck)|\b(oxlint|eslint)-disable/

/** The compiler, the linter and the runner are not silenced. An expected type error says why it is expected. */
export const nothingIsSilenced: Check = (tree) =>
  tree.sources.flatMap((file) => {
    const offences: Array<Offence> = []
    const report = (offset: number, what: string) =>
      offences.push({ rule: "nothing is silenced", file: `${file.path}:${file.lineOf(offset)}`, what })
    walk(file.program, (node) => {
      const habit = habitOf(file, node)
      if (habit !== null) report(node.start, habit)
    })
    for (const { text, start } of file.comments) {
      const silencer = silencers.exec(text)
      if (silencer !== null) report(start, `switches a check off: ${silencer[0]}`)
      const expected = /@ts-expect-error(.*)/.exec(text)
      if (expected !== null && (isProduct(file) || expected[1]!.trim().length < 10))
        report(start, "expects a type error without saying why, or in the product")
    }
    return offences
  })

/** `Effect.orDie` turns a failure into a defect: a comment beside it says why the failure cannot happen. */
export const defectsAreExplained: Check = (tree) =>
  tree.sources.filter(isProduct).flatMap((file) => {
    const offences: Array<Offence> = []
    walk(file.program, (node, parents) => {
      if (dottedName(node) !== "Effect.orDie") return
      const line = file.lineOf(node.start)
      const statement = parents.findLast(
        (parent) => /Statement$|Declaration$/.test(parent.type) && parent.type !== "BlockStatement"
      )
      const begins = statement === undefined ? line : file.lineOf(statement.start)
      const explained = file.comments.some(({ end }) =>
        [line - 1, line, begins - 1].includes(file.lineOf(end))
      )
      if (!explained)
        offences.push({
          rule: "a defect is explained",
          file: `${file.path}:${line}`,
          what: "Effect.orDie without a comment that says why"
        })
    })
    return offences
  })
