/**
 * What an entry of the registry is by its name. A name that is reserved and is none of these refuses the open: deny by
 * default. The layout that the names belong to is drawn in RegistryFiles.ts. Source: RG-LAY-07, RG-MIG-04, BX-07.
 */
import { isSandboxId } from "../Identity.ts"

export const headerName = "sandboxes.json"
export const recordsName = "records"
export const metaName = "meta.json"
export const runtimeName = "runtime"
export const ownerName = "owner.json"

export const unknownName = "no file of the registry has such a name: move it away"

/** Of a directory of records, whatever its own name. */
export const roleInRecords = (name: string): "meta" | "record" | "leftover" | null => {
  if (name === metaName) return "meta"
  if (/^\.record-[\w-]{1,64}$/.test(name)) return "leftover"
  return name.endsWith(".json") && isSandboxId(name.slice(0, -".json".length)) ? "record" : null
}

/** Of the state directory: what interrupted work has left there. `other` is not the registry's business. */
export const roleInState = (name: string): "staging" | "retired" | "header" | "other" | null => {
  if (/^\.records-retired-[\w-]{1,64}$/.test(name)) return "retired"
  if (/^\.records-[\w-]{1,64}$/.test(name)) return "staging"
  if (/^\.sandboxes\.json-[\w-]{1,64}$/.test(name)) return "header"
  return name.startsWith(".records") || name.startsWith(".sandboxes") ? null : "other"
}

/** Of the runtime directory: a marker that was not published, or the state of a sandbox. */
export const roleInRuntime = (name: string): "marker" | "leftover" | "sandbox" | "other" => {
  if (name === ownerName) return "marker"
  if (/^\.owner\.json-[\w-]{1,64}$/.test(name)) return "leftover"
  return isSandboxId(name) ? "sandbox" : "other"
}
