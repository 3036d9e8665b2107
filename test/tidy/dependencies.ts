/**
 * The rules of dependency: who may import whom in src, in which order the domain's folders stand, that no import
 * leads round in a circle, and that every import is spelt so that a reader can follow it to one file.
 */
import { isBuiltin } from "node:module"
import {
  defaultExportDemanded,
  domainFolders,
  drivingAdapters,
  entryPoints,
  layerImporters,
  publishedForConsumers
} from "./layout.ts"
import {
  baseName,
  type Check,
  dottedName,
  exists,
  isDomain,
  isProduct,
  literalText,
  type Offence,
  type SourceFile,
  type SourceImport,
  type Tree,
  walk
} from "./tree.ts"

const everyImport = (
  tree: Tree,
  rule: string,
  judge: (file: SourceFile, found: SourceImport) => string | null
): ReadonlyArray<Offence> =>
  tree.sources.flatMap((file) =>
    file.imports.flatMap((found) => {
      const what = judge(file, found)
      return what === null ? [] : [{ rule, file: `${file.path}:${found.line}`, what }]
    })
  )

const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/")

const technologyOfEffect =
  /^effect\/(sql|http|http-api|process|cli|cluster|socket|net|workflow|rpc|unstable)(\/|$)/

/** Rule 1: domain imports effect and domain only. */
export const domainImports: Check = (tree) =>
  everyImport(tree, "domain imports effect and domain only", (file, { specifier, target }) => {
    if (!isDomain(file)) return null
    if (target === null)
      return specifier.startsWith("effect/") && !technologyOfEffect.test(specifier)
        ? null
        : `imports ${specifier}`
    return target.startsWith("src/domain/") ? null : `imports ${target}`
  })

/** What a program performs with; a file of domain that imports none of them decides and does nothing. */
const performing = new Set(["effect/Effect", "effect/Stream", "effect/Layer", "effect/Context"])

/** A pure decision of the domain: an adapter may ask it, since it is a function of what it is given. */
const isPureDecision = (tree: Tree, path: string): boolean =>
  tree.sources.some(
    (file) => file.path === path && file.imports.every(({ specifier }) => !performing.has(specifier))
  )

/** Rule 2: infra imports infra, the domain's nouns and its pure decisions; a driving adapter also its programs. */
export const infraImports: Check = (tree) =>
  everyImport(tree, "infra imports infra and the nouns of domain", (file, { target }) => {
    if (!file.path.startsWith("src/infra/") || target === null) return null
    if (target.startsWith("src/infra/")) return null
    if (!target.startsWith("src/domain/")) return `imports ${target}`
    if (/^[A-Z]/.test(baseName(target)) || drivingAdapters.some((folder) => file.path.startsWith(folder)))
      return null
    if (isPureDecision(tree, target)) return null
    return `imports the program ${target}: take its port or its model, or let layers join the two`
  })

/** Rule 3: nothing imports layers but entry points and tests; nothing in src imports what is outside it. */
export const layerImports: Check = (tree) =>
  everyImport(tree, "nothing imports layers but entry points and tests", (file, { target }) => {
    if (target === null) return null
    if (isProduct(file) && !target.startsWith("src/"))
      return `imports ${target}, which is no part of the product`
    if (!target.startsWith("src/layers/") || file.path.startsWith("src/layers/")) return null
    return layerImporters.some((folder) => file.path.startsWith(folder)) ? null : `imports ${target}`
  })

const domainFolderOf = (path: string): string | null => {
  const parts = path.split("/")
  return parts.length === 3 ? null : parts[2]!
}

/** Rule 4: inside domain a folder imports only folders above it in the list. An unknown folder is refused. */
export const domainOrder: Check = (tree) => {
  const rule = "a folder of domain imports only those above it"
  const rank = (path: string): number => {
    const folder = domainFolderOf(path)
    return folder === null ? -1 : domainFolders.indexOf(folder)
  }
  const unknown = tree.sources.filter(isDomain).flatMap((file) => {
    const folder = domainFolderOf(file.path)
    return folder === null || domainFolders.includes(folder)
      ? []
      : [
          {
            rule,
            file: file.path,
            what: `the folder ${folder} has no place in the order of test/tidy/layout.ts`
          }
        ]
  })
  const upward = everyImport(tree, rule, (file, { target }) => {
    if (!isDomain(file) || target === null || !target.startsWith("src/domain/")) return null
    return rank(target) <= rank(file.path) ? null : `imports ${target}, which stands below it`
  })
  return [...unknown, ...upward]
}

/** Rule 5: no cycles, type imports included. Each circle is reported once, by the file where it was closed. */
export const noCycles: Check = (tree) => {
  const files = new Map(tree.sources.map((file) => [file.path, file]))
  const done = new Set<string>()
  const offences: Array<Offence> = []
  const visit = (path: string, trail: ReadonlyArray<string>): void => {
    const from = trail.indexOf(path)
    if (from >= 0) {
      const circle = [...trail.slice(from), path].join(" -> ")
      offences.push({ rule: "no cycles", file: trail.at(-1)!, what: circle })
      return
    }
    if (done.has(path)) return
    for (const { target } of files.get(path)?.imports ?? []) {
      if (target !== null && files.has(target)) visit(target, [...trail, path])
    }
    done.add(path)
  }
  for (const path of files.keys()) visit(path, [])
  return offences
}

/** Rule 5: no default exports and no barrels. */
export const exportsAreNamed: Check = (tree) =>
  tree.sources.flatMap((file) => {
    const body = file.program["body"] as ReadonlyArray<{
      readonly type: string
      readonly source?: unknown
      readonly specifiers?: ReadonlyArray<{ readonly exported?: unknown }>
    }>
    const offences: Array<Offence> = []
    const report = (rule: string, what: string) => offences.push({ rule, file: file.path, what })
    const isDefault = (node: (typeof body)[number]) =>
      node.type === "ExportDefaultDeclaration" ||
      (node.specifiers ?? []).some((specifier) => dottedName(specifier.exported) === "default")
    if (body.some(isDefault) && !defaultExportDemanded.includes(file.path))
      report("no default exports", "exports a default")
    if (body.some((node) => node.type === "ExportAllDeclaration"))
      report("no barrels", "exports everything of another file")
    if (baseName(file.path).startsWith("index.")) report("no barrels", "is an index file")
    const forwards = body.filter(
      (node) => node.type === "ExportNamedDeclaration" && literalText(node.source) !== null
    )
    if (body.length > 0 && forwards.length === body.length) report("no barrels", "only forwards other files")
    return offences
  })

/** Every import can be followed: a file with its extension, a deep module of effect, a declared package. */
export const importsCanBeFollowed: Check = (tree) => {
  const manifest = JSON.parse(tree.texts.get("package.json") ?? "{}") as Record<
    string,
    Record<string, string> | undefined
  >
  const runtime = Object.keys(manifest["dependencies"] ?? {})
  const all = [...runtime, ...Object.keys(manifest["devDependencies"] ?? {})]
  return everyImport(tree, "an import can be followed", (file, { specifier, target }) => {
    if (target !== null)
      return target.startsWith("dist/") || exists(tree, target) ? null : `there is no ${target}`
    if (isBuiltin(specifier))
      return specifier.startsWith("node:") || !isProduct(file) ? null : "write node: before it"
    if (isProduct(file) && specifier === "effect")
      return "imports the barrel of effect: import the module by its path"
    const allowed = isProduct(file) ? runtime : all
    return allowed.includes(packageOf(specifier))
      ? null
      : `the package ${packageOf(specifier)} is not declared for it`
  })
}

/** A test's helper or an entry's child may be named by its path in a string instead of being imported. */
const namedInStrings = (file: SourceFile): ReadonlyArray<string> => {
  const found: Array<string> = []
  walk(file.program, (node) => {
    const text = literalText(node)
    if (text !== null && /\.(ts|js)$/.test(text)) found.push(text)
  })
  return found
}

/** No file that nobody imports. For a source file a test does not count: it would keep dead code alive. */
export const everyFileIsImported: Check = (tree) => {
  const importers = new Map<string, Array<string>>()
  const note = (target: string, by: string) => importers.set(target, [...(importers.get(target) ?? []), by])
  const namesakes = Map.groupBy(tree.sources, (file) => baseName(file.path))
  for (const file of tree.sources) {
    for (const { target } of file.imports) {
      if (target !== null) note(target.replace(/^dist\/(.*)\.js$/, "src/$1.ts"), file.path)
    }
    for (const text of namedInStrings(file)) {
      const name = text.replace(/^.*dist\/(.*)\.js$/, "src/$1.ts").replace(/^(\.\.?\/)+/, "")
      for (const other of namesakes.get(baseName(name)) ?? []) {
        if (other.path === name || other.path.endsWith(`/${name}`)) note(other.path, file.path)
      }
    }
  }
  return tree.sources.flatMap((file) => {
    if (entryPoints.some((entry) => entry.test(file.path)) || publishedForConsumers.has(file.path)) return []
    const by = (importers.get(file.path) ?? []).filter((path) => path !== file.path)
    const counted = isProduct(file) ? by.filter((path) => !path.startsWith("test/")) : by
    return counted.length > 0
      ? []
      : [
          {
            rule: "no file that nobody imports",
            file: file.path,
            what: by.length > 0 ? "only tests import it" : "nothing leads to it"
          }
        ]
  })
}
