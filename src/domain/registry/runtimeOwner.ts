/**
 * The native runtime's word about whose state it keeps: `runtime/owner.json`, written once, before the first version-2
 * header. Registry and native state belong together; a registry without the marker of its runtime, or beside another
 * one's, is refused, since its records could neither be reconciled nor their absence be proved. A marker is made only
 * where nothing can be lost: beside an empty version-1 registry without native state. Source: RG-MIG-06.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Identifiers } from "../Identifiers.ts"
import type { NodeId } from "../Identity.ts"
import { ownerName, roleInRuntime, runtimeName } from "./entryRoles.ts"
import { observeStep } from "./observeStep.ts"
import { RuntimeOwnerFile } from "./Record.ts"
import { RegistryOpenRefused } from "./Registry.ts"
import { RegistryFiles, create, rename, sync, unlink } from "./RegistryFiles.ts"

const program = "registry.open"

/** What is known of the runtime directory: who its marker names, and what else is there. */
export interface RuntimeFound {
  readonly owner: NodeId | null
  /** Whether there is state of any sandbox, tombstones too. */
  readonly isOccupied: boolean
  /** Markers that were never published. */
  readonly leftovers: ReadonlyArray<string>
}

const markerPath = `${runtimeName}/${ownerName}`
const preserve =
  "preserve the original ownership state: put back the runtime directory that belongs to this registry, and neither write the marker by hand nor remove records"

const refuse = (why: string) => new RegistryOpenRefused({ path: markerPath, why: `${why}; ${preserve}` })

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(RuntimeOwnerFile))

/** The owner that the marker names, or null. A marker that cannot be read refuses. */
const readMarker = Effect.gen(function* () {
  const text = yield* (yield* RegistryFiles).read(runtimeName, ownerName)
  if (Option.isNone(text)) return null
  const marker = decode(text.value, { onExcessProperty: "error" })
  return Result.isSuccess(marker)
    ? marker.success.owner
    : yield* refuse("it is corrupt, truncated or of another version")
})

/** The owner of the native state that an activated registry needs. */
export const requireMarker = Effect.fnUntraced(function* (owner: NodeId) {
  const found = yield* readMarker
  if (found === null) return yield* refuse("it is missing beside an activated registry")
  if (found !== owner) return yield* refuse("it names another owner than the registry")
})

/** Looks at the whole runtime directory. An activated registry needs only its marker. */
export const findRuntime = Effect.gen(function* () {
  const files = yield* RegistryFiles
  const entries = Option.getOrElse(yield* files.list(runtimeName), () => [])
  const leftovers: Array<string> = []
  for (const { name } of entries) {
    if (roleInRuntime(name) !== "leftover") continue
    yield* files.check(runtimeName, { name, kind: "file" })
    leftovers.push(name)
  }
  return {
    owner: yield* readMarker,
    isOccupied: entries.some(({ name }) => roleInRuntime(name) === "sandbox"),
    leftovers
  } satisfies RuntimeFound
})

/** Whether the runtime takes a version-1 registry for its own. Pure. */
export const acceptOwner = (
  owner: NodeId,
  runtime: RuntimeFound,
  snapshot: { readonly isOccupied: boolean }
): Result.Result<void, RegistryOpenRefused> => {
  if (runtime.owner === owner) return Result.succeed(undefined)
  if (runtime.owner !== null) return Result.fail(refuse("it names another owner than the registry"))
  if (snapshot.isOccupied) return Result.fail(refuse("it is missing beside a registry with sandboxes"))
  if (runtime.isOccupied) return Result.fail(refuse("it is missing beside the state of sandboxes"))
  return Result.succeed(undefined)
}

const publish = Effect.fnUntraced(function* (owner: NodeId) {
  const files = yield* RegistryFiles
  const { uuid } = yield* Identifiers
  const temporary = `.${ownerName}-${yield* uuid}`
  yield* observeStep(
    program,
    "write the marker",
    files.carryOut(runtimeName, [create(temporary, JSON.stringify({ version: 1, owner }))])
  )
  yield* observeStep(
    program,
    "publish the marker",
    files.carryOut(runtimeName, [rename(temporary, ownerName)])
  )
})

/**
 * Makes the marker of an accepted owner durable, together with its directory. One that is there already may be from a
 * process that died before its sync.
 */
export const ensureMarker = Effect.fnUntraced(function* (owner: NodeId, runtime: RuntimeFound) {
  const files = yield* RegistryFiles
  if (Option.isNone(yield* files.list(runtimeName))) {
    yield* observeStep(program, "make the runtime directory", files.makeDirectory(runtimeName))
  }
  for (const name of runtime.leftovers) yield* files.carryOut(runtimeName, [unlink(name)])
  if (runtime.owner === null) yield* publish(owner)
  yield* observeStep(program, "sync the runtime directory", files.carryOut(runtimeName, [sync]))
  yield* observeStep(program, "sync the state directory", files.carryOut("state", [sync]))
})
