/**
 * Finds the places where a file uses a global by its name, so that a parameter, a property or a key of the same
 * name is not taken for it. It knows the scopes of functions, blocks, loops and imports; nothing else.
 */
import { childrenOf, isNode, type SyntaxNode } from "./tree.ts"

const functionTypes = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
  "TSDeclareFunction",
  "TSEmptyBodyFunctionExpression",
  "TSFunctionType",
  "TSConstructorType",
  "TSMethodSignature",
  "TSCallSignatureDeclaration",
  "TSConstructSignatureDeclaration"
])

export const isFunction = (node: SyntaxNode): boolean => functionTypes.has(node.type)

const list = (value: unknown): ReadonlyArray<SyntaxNode> =>
  (Array.isArray(value) ? value : [value]).filter(isNode)

/** Names that a pattern binds: of a plain parameter, a default, a rest, or any depth of destructuring. */
const namesBoundBy = (pattern: SyntaxNode): ReadonlyArray<string> => {
  switch (pattern.type) {
    case "Identifier":
      return [String(pattern["name"])]
    case "AssignmentPattern":
      return list(pattern["left"]).flatMap(namesBoundBy)
    case "RestElement":
      return list(pattern["argument"]).flatMap(namesBoundBy)
    case "ArrayPattern":
      return list(pattern["elements"]).flatMap(namesBoundBy)
    case "ObjectPattern":
      return list(pattern["properties"]).flatMap((property) =>
        property.type === "RestElement"
          ? namesBoundBy(property)
          : list(property["value"]).flatMap(namesBoundBy)
      )
    default:
      return []
  }
}

/** Names that the statements of one block declare, exported ones included. */
const namesDeclaredIn = (statements: ReadonlyArray<SyntaxNode>): ReadonlyArray<string> =>
  statements.flatMap((statement) => {
    switch (statement.type) {
      case "VariableDeclaration":
        return list(statement["declarations"]).flatMap((one) => list(one["id"]).flatMap(namesBoundBy))
      case "FunctionDeclaration":
      case "ClassDeclaration":
      case "TSTypeAliasDeclaration":
      case "TSInterfaceDeclaration":
        return list(statement["id"]).flatMap(namesBoundBy)
      case "ImportDeclaration":
        return list(statement["specifiers"]).flatMap((one) => list(one["local"]).flatMap(namesBoundBy))
      case "ExportNamedDeclaration":
        return namesDeclaredIn(list(statement["declaration"]))
      default:
        return []
    }
  })

const namesOpenedBy = (node: SyntaxNode): ReadonlyArray<string> => {
  if (isFunction(node)) return list(node["params"]).flatMap(namesBoundBy)
  if (node.type === "Program" || node.type === "BlockStatement") return namesDeclaredIn(list(node["body"]))
  if (node.type === "ForStatement") return namesDeclaredIn(list(node["init"]))
  if (node.type === "ForOfStatement" || node.type === "ForInStatement")
    return namesDeclaredIn(list(node["left"]))
  if (node.type === "CatchClause") return list(node["param"]).flatMap(namesBoundBy)
  return []
}

/** Whether the child in this field of its parent is a name of something else: a property, a key, a label. */
const isOnlyAName = (parent: SyntaxNode, field: string): boolean => {
  if (field === "property" && parent.type === "MemberExpression") return parent["computed"] !== true
  if (field === "key") return parent["computed"] !== true
  if (field === "right" && parent.type === "TSQualifiedName") return true
  return field === "label" || field === "imported" || field === "exported" || field === "parameterName"
}

/** Every use of one of the names that no declaration of the file stands behind. */
export const usesOfGlobals = (
  program: SyntaxNode,
  names: ReadonlySet<string>
): ReadonlyArray<{ readonly name: string; readonly offset: number }> => {
  const found: Array<{ name: string; offset: number }> = []
  const visit = (node: SyntaxNode, bound: ReadonlySet<string>): void => {
    const opened = namesOpenedBy(node).filter((name) => names.has(name))
    const inside = opened.length === 0 ? bound : new Set([...bound, ...opened])
    if (node.type === "Identifier" && names.has(String(node["name"])) && !inside.has(String(node["name"])))
      found.push({ name: String(node["name"]), offset: node.start })
    for (const child of childrenOf(node)) {
      if (!isOnlyAName(node, child.field)) visit(child.node, inside)
    }
  }
  visit(program, new Set())
  return found
}
