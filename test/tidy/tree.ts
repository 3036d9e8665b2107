/**
 * Reads a project's tree for the checks: every text file as it is, and every source file parsed. The root is an
 * argument, so that a check can be shown a small tree of files that break it. Nothing is judged here.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { parseSync } from "vite"
import { sourceFolders } from "./layout.ts"

/** A node of the syntax tree, as far as the checks look into it. */
export interface SyntaxNode {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

export interface SourceComment {
  readonly text: string
  readonly start: number
  readonly end: number
}

export interface SourceImport {
  readonly specifier: string
  /** Path of the imported file from the root, or null for a package or a module of Node. */
  readonly target: string | null
  readonly line: number
}

export interface SourceFile {
  /** Path from the root, with forward slashes. */
  readonly path: string
  readonly text: string
  readonly program: SyntaxNode
  readonly comments: ReadonlyArray<SourceComment>
  readonly imports: ReadonlyArray<SourceImport>
  readonly lineOf: (offset: number) => number
}

export interface Tree {
  readonly root: string
  readonly sources: ReadonlyArray<SourceFile>
  /** Every text file by its path, sources included. */
  readonly texts: ReadonlyMap<string, string>
}

/** One breach of one rule, in the words that the runner prints. */
export interface Offence {
  readonly rule: string
  readonly file: string
  readonly what: string
}

export type Check = (tree: Tree) => ReadonlyArray<Offence>

const foldersNotRead = new Set(["node_modules", ".git", "dist", "coverage", "bench/results"])

const filesBelow = (root: string, folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`
    if (foldersNotRead.has(path) || foldersNotRead.has(entry.name)) return []
    if (entry.isDirectory()) return filesBelow(root, path)
    return entry.isFile() ? [path] : []
  })

export const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string"

/** The nodes directly below a node, with the field that each stands in. */
export const childrenOf = (
  node: SyntaxNode
): ReadonlyArray<{ readonly field: string; readonly node: SyntaxNode }> =>
  Object.entries(node).flatMap(([field, value]) =>
    (Array.isArray(value) ? value : [value]).filter(isNode).map((child) => ({ field, node: child }))
  )

/** Calls `visit` for the node and everything below it, parents first, each with the chain of its parents. */
export const walk = (
  node: SyntaxNode,
  visit: (node: SyntaxNode, parents: ReadonlyArray<SyntaxNode>) => void,
  parents: ReadonlyArray<SyntaxNode> = []
): void => {
  visit(node, parents)
  const below = [...parents, node]
  for (const child of childrenOf(node)) walk(child.node, visit, below)
}

/** `a.b` written as text, for the plain chains of names that the checks ask for; null for anything else. */
export const dottedName = (value: unknown): string | null => {
  if (!isNode(value)) return null
  if (value.type === "Identifier") return String(value["name"])
  if (value.type !== "MemberExpression" || value["computed"] === true) return null
  const object = dottedName(value["object"])
  return object === null ? null : `${object}.${dottedName(value["property"])}`
}

/** The text of a string literal or of a template without holes; null for anything else. */
export const literalText = (value: unknown): string | null => {
  if (!isNode(value)) return null
  if (value.type === "Literal") return typeof value["value"] === "string" ? value["value"] : null
  if (value.type !== "TemplateLiteral") return null
  const quasis = value["quasis"] as ReadonlyArray<{ readonly value: { readonly cooked: string } }>
  return quasis.length === 1 ? quasis[0]!.value.cooked : null
}

const importsOf = (
  path: string,
  program: SyntaxNode,
  lineOf: (offset: number) => number
): ReadonlyArray<SourceImport> => {
  const found: Array<SourceImport> = []
  walk(program, (node) => {
    const specifier = [
      "ImportDeclaration",
      "ExportNamedDeclaration",
      "ExportAllDeclaration",
      "ImportExpression",
      "TSImportType"
    ].includes(node.type)
      ? literalText(node["source"])
      : null
    if (specifier === null) return
    const target = specifier.startsWith(".") ? normalize(join(dirname(path), specifier)) : null
    found.push({ specifier, target, line: lineOf(node.start) })
  })
  return found
}

const readSource = (path: string, text: string): SourceFile => {
  const parsed = parseSync(path, text)
  if (parsed.errors.length > 0) throw new Error(`${path} cannot be parsed: ${parsed.errors[0]!.message}`)
  const starts = [0, ...[...text.matchAll(/\n/g)].map((found) => found.index + 1)]
  const lineOf = (offset: number) => starts.findLastIndex((start) => start <= offset) + 1
  const program = parsed.program as unknown as SyntaxNode
  const comments = parsed.comments.map(({ value, start, end }) => ({ text: value, start, end }))
  return { path, text, program, comments, imports: importsOf(path, program, lineOf), lineOf }
}

/** Reads the tree below `root`. Dies where a source file cannot be parsed. */
export const readTree = (root: string): Tree => {
  const texts = new Map<string, string>()
  for (const path of filesBelow(root, "")) {
    const text = readFileSync(join(root, path), "utf8")
    if (!text.includes("\u0000")) texts.set(path, text)
  }
  const sources = [...texts]
    .filter(([path]) => /\.(ts|tsx|mts|js|mjs)$/.test(path))
    .filter(
      ([path]) => path === "vitest.config.ts" || sourceFolders.some((folder) => path.startsWith(`${folder}/`))
    )
    .map(([path, text]) => readSource(path, text))
  return { root, sources, texts }
}

export const exists = (tree: Tree, path: string): boolean => existsSync(join(tree.root, path))
export const isProduct = (file: SourceFile): boolean => file.path.startsWith("src/")
export const isDomain = (file: SourceFile): boolean => file.path.startsWith("src/domain/")
export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1)
