/**
 * Launch kits: an owner lock that is already held and an agent's pipes, made ahead beside the sandboxes' folders. Both
 * take a program's run, which a first launch then need not wait for. The lock file is put into the new sandbox's
 * folder by a link, which fails where one is: a sandbox that has an owner lock is locked in the ordinary way.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { runtimeDirectory, type SandboxFolder } from "./folders.ts"
import { launchPipes } from "./launchFiles.ts"
import { lockDescriptors } from "./ownerLock.ts"
import { makeStock, type Stock } from "./stock.ts"

/** Directories below runtime/ that are a kit's and no sandbox's. */
export const kitPrefix = ".kit-"

export interface LaunchKit {
  readonly directory: string
  /** Holds the lock on the kit's owner.lock. */
  readonly descriptor: number
  readonly channels: ReadonlyArray<string>
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = Files.constants

const discardKit = (kit: LaunchKit): void => {
  Files.closeSync(kit.descriptor)
  Files.rmSync(kit.directory, { recursive: true, force: true })
}

/** Removes what a daemon that died has left. */
const removeFormerKits = (stateDirectory: string): void => {
  const runtime = runtimeDirectory(stateDirectory)
  for (const name of Files.readdirSync(runtime)) {
    if (name.startsWith(kitPrefix)) Files.rmSync(Path.join(runtime, name), { recursive: true, force: true })
  }
}

const beginKit = (stateDirectory: string, channelName: () => string): LaunchKit => {
  const directory = Path.join(runtimeDirectory(stateDirectory), `${kitPrefix}${randomUUID()}`)
  Files.mkdirSync(directory, { mode: 0o700 })
  const descriptor = Files.openSync(
    Path.join(directory, "owner.lock"),
    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
    0o600
  )
  return {
    directory,
    descriptor,
    channels: Array.from({ length: Bounds.executionChannelsMadeMax }, channelName)
  }
}

/** A batch of kits, or none where they could not be made: launches then go the ordinary way. */
const makeBatch = (
  stateDirectory: string,
  channelName: () => string
): Effect.Effect<ReadonlyArray<LaunchKit>> =>
  Effect.suspend(() => {
    const kits = Array.from({ length: Bounds.launchKitsMadeMax }, () => beginKit(stateDirectory, channelName))
    const pipes = kits.map((kit) => ({
      directory: Path.join(kit.directory, "agent"),
      names: launchPipes(kit.channels)
    }))
    return lockDescriptors(
      kits.map((kit) => kit.descriptor),
      pipes
    ).pipe(
      Effect.map((outcome) => {
        if (outcome === "held") return kits
        kits.forEach(discardKit)
        return []
      }),
      Effect.onInterrupt(() => Effect.sync(() => kits.forEach(discardKit)))
    )
  })

/** The stock of kits for the time of the scope; what is left of it is removed with it. */
export const makeKits = (
  stateDirectory: string,
  channelName: () => string
): Effect.Effect<Stock<LaunchKit, never>, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* Effect.sync(() => removeFormerKits(stateDirectory))
    const scope = yield* Effect.scope
    const kits = makeStock<LaunchKit, never>({
      first: [],
      keptMin: Bounds.launchKitsKeptMin,
      // Starting a program holds the daemon up for a moment: not while somebody waits for a guest's first command.
      make: Effect.delay(makeBatch(stateDirectory, channelName), Bounds.launchKitsDelayMillis),
      discard: discardKit,
      scope
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => kits.close().forEach(discardKit)))
    yield* kits.refill
    return kits
  })

/**
 * Puts a kit into the folder of a sandbox that has no owner lock yet; the lock is then held by the kit's descriptor,
 * which the caller closes. False, and the kit is discarded, where somebody got there first.
 */
export const placeKit = (kit: LaunchKit, folder: SandboxFolder): boolean => {
  try {
    Files.linkSync(Path.join(kit.directory, "owner.lock"), folder.lock)
  } catch {
    discardKit(kit)
    return false
  }
  Files.rmSync(folder.agentNew, { recursive: true, force: true })
  Files.renameSync(Path.join(kit.directory, "agent"), folder.agentNew)
  Files.rmSync(kit.directory, { recursive: true, force: true })
  return true
}
