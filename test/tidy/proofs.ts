/**
 * What must have its counterpart elsewhere: a program its test, a bound its use and its unit, a dependency its pin
 * and its reason, and the lock file no address of anybody's registry.
 */
import { boundSuffixes, statementListings } from "./layout.ts"
import { isFunction } from "./scope.ts"
import {
  type Check,
  dottedName,
  exists,
  isNode,
  isProduct,
  type Offence,
  type SourceFile,
  type SyntaxNode,
  type Tree,
  walk
} from "./tree.ts"

/** Members that an error or a model may carry and still be only a model. */
const wordsOfModels = new Set(["message", "code", "retryable", "toString"])

/** Whether a file does something: it has a function that is more than the wording of a model's message. */
const isProgram = (file: SourceFile): boolean => {
  let found = false
  walk(file.program, (node, parents) => {
    if (found || !isFunction(node) || node["body"] == null) return
    const member = parents.at(-1)
    const name = member?.type === "MethodDefinition" ? dottedName(member["key"]) : null
    if (name === null || !wordsOfModels.has(name)) found = true
  })
  return found
}

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/"))

const composedOfParts = /^src\/(infra|layers)\//

/** Every file that the tested ones are made of: what they import from their own folder and below, and so on. */
const partsOf = (tree: Tree, tested: ReadonlyArray<SourceFile>): ReadonlySet<string> => {
  const files = new Map(tree.sources.map((file) => [file.path, file]))
  const parts = new Set<string>()
  const visit = (file: SourceFile): void => {
    for (const { target } of file.imports) {
      const part = target === null ? undefined : files.get(target)
      if (part === undefined || parts.has(part.path) || !part.path.startsWith(`${folderOf(file.path)}/`))
        continue
      parts.add(part.path)
      visit(part)
    }
  }
  tested.filter((file) => composedOfParts.test(file.path)).forEach(visit)
  return parts
}

/**
 * A program has a test that mirrors its path, or is imported by a test; a model needs none. A part of an adapter or of
 * a composition, split off for its length, is proved through the tested file that is made of it.
 */
export const everyProgramIsTested: Check = (tree) => {
  const imported = new Set(
    tree.sources
      .filter((file) => file.path.startsWith("test/"))
      .flatMap((file) => file.imports.flatMap(({ target }) => (target === null ? [] : [target])))
  )
  const isTested = ({ path }: SourceFile): boolean =>
    imported.has(path) || exists(tree, path.replace(/^src\//, "test/").replace(/\.tsx?$/, ".test.ts"))
  const parts = partsOf(tree, tree.sources.filter(isTested))
  return tree.sources
    .filter((file) => isProduct(file) && !statementListings.test(file.path) && isProgram(file))
    .filter((file) => !isTested(file) && !parts.has(file.path))
    .map((file) => ({
      rule: "every program is tested",
      file: file.path,
      what: "has no mirrored test and no test imports it"
    }))
}

const boundsFile = "src/domain/Bounds.ts"

const boundNames = (program: SyntaxNode): ReadonlyArray<string> =>
  (program["body"] as ReadonlyArray<SyntaxNode>).flatMap((statement) => {
    const declaration = statement.type === "ExportNamedDeclaration" ? statement["declaration"] : null
    if (!isNode(declaration) || declaration.type !== "VariableDeclaration") return []
    return (declaration["declarations"] as ReadonlyArray<SyntaxNode>).flatMap(
      (one) => dottedName(one["id"]) ?? []
    )
  })

const namesUsedIn = (file: SourceFile): ReadonlySet<string> => {
  const names = new Set<string>()
  walk(file.program, (node) => {
    if (node.type === "Identifier") names.add(String(node["name"]))
  })
  return names
}

/** A bound says its unit, and the product keeps to it. */
export const bounds: Check = (tree) => {
  const file = tree.sources.find(({ path }) => path === boundsFile)
  if (file === undefined)
    return [{ rule: "every bound has a name and a unit", file: boundsFile, what: "is not there" }]
  const used = tree.sources.filter((other) => isProduct(other) && other !== file).map(namesUsedIn)
  return boundNames(file.program).flatMap((name) => {
    const offences: Array<Offence> = []
    if (!boundSuffixes.some((suffix) => name.endsWith(suffix)))
      offences.push({
        rule: "every bound has a name and a unit",
        file: boundsFile,
        what: `${name} ends in no unit`
      })
    if (!used.some((names) => names.has(name)))
      offences.push({ rule: "every bound is kept", file: boundsFile, what: `nothing in src uses ${name}` })
    return offences
  })
}

const exactVersion = /^\d+\.\d+\.\d+(-[\w.]+)?$/

/** Every dependency is pinned to one version, and a decision names it and says why it is there. */
export const dependenciesArePinned: Check = (tree) => {
  const manifest = JSON.parse(tree.texts.get("package.json") ?? "{}") as Record<
    string,
    Record<string, string> | undefined
  >
  const decisions = [...tree.texts]
    .filter(([path]) => path.startsWith("docs/decisions/"))
    .map(([, text]) => text)
  const groups = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"]
  return groups
    .flatMap((group) => Object.entries(manifest[group] ?? {}))
    .flatMap(([name, version]) => {
      const offences: Array<Offence> = []
      const file = "package.json"
      if (!exactVersion.test(version))
        offences.push({ rule: "every dependency is pinned", file, what: `${name} is ${version}` })
      if (!decisions.some((text) => text.includes(`\`${name}\``)))
        offences.push({
          rule: "every dependency has a reason",
          file,
          what: `no page of docs/decisions names \`${name}\``
        })
      return offences
    })
}

/** The lock file locks by version and integrity, and tells nobody from where it was installed. */
export const lockNamesNoHost: Check = (tree) => {
  const file = "package-lock.json"
  const text = tree.texts.get(file)
  const rule = "the lock file names no host"
  if (text === undefined) return [{ rule, file, what: "is not there" }]
  const lock = JSON.parse(text) as {
    readonly packages?: Record<
      string,
      { readonly resolved?: string; readonly integrity?: string; readonly link?: boolean }
    >
  }
  return Object.entries(lock.packages ?? {}).flatMap(([name, entry]) => {
    if (name === "") return []
    if (entry.resolved !== undefined) return [{ rule, file, what: `${name} is resolved to an address` }]
    return entry.integrity === undefined && entry.link !== true
      ? [{ rule: "the lock file has every integrity", file, what: `${name} has none` }]
      : []
  })
}

/** Host names of package registries and mirrors, whatever their domain. */
const registryHost =
  /\b(?:[\w-]+\.)*(?:registry|npm|npmjs|yarnpkg|artifactory|nexus|verdaccio|jfrog|mirrors?)[\w-]*(?:\.[\w-]+)*\.(?:org|com|net|io|dev|internal|local|lan|corp|cloud)\b/i

/** The registry that npm was told about on this machine, unless it is the machine itself. */
const registryOfThisMachine = (): string | null => {
  const told = process.env["npm_config_registry"]
  const host = told !== undefined && URL.canParse(told) ? new URL(told).hostname : ""
  return host.includes(".") && !host.startsWith("127.") ? host : null
}

/** From where packages come is the business of whoever installs them. */
export const noRegistryHosts: Check = (tree) => {
  const here = registryOfThisMachine()
  return [...tree.texts].flatMap(([path, text]) =>
    text.split("\n").flatMap((line, at) => {
      const found = registryHost.exec(line)?.[0] ?? (here !== null && line.includes(here) ? here : null)
      return found === null
        ? []
        : [
            {
              rule: "no registry's host name",
              file: `${path}:${at + 1}`,
              what: "names the host of a package registry"
            }
          ]
    })
  )
}
