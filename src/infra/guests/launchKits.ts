/**
 * Launch kits: folders of sandboxes that are not there yet, each with its owner lock held, with the agent's pipes and
 * with empty files for a launch to write. Both lock and pipes take a program's run, which a first launch then need not
 * wait for. A kit is put in its place by one rename, which fails where anything is: a sandbox of which something is there
 * is locked in the ordinary way.
 */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import * as Bounds from "../../domain/Bounds.ts"
import { folderAt, runtimeDirectory, type SandboxFolder } from "./folders.ts"
import { launchBlanks } from "./launchFiles.ts"
import { type LaunchShell, quote } from "./launchShell.ts"
import { lockDescriptors } from "./ownerLock.ts"
import { makeStock, type Stock } from "./stock.ts"

/** Directories below runtime/ that are a kit's and no sandbox's. */
export const kitPrefix = ".kit-"

const nameKit = (runtime: string): string => Path.join(runtime, `${kitPrefix}${randomUUID()}`)

export interface LaunchKit {
  readonly directory: string
  /** Holds the lock on the kit's owner.lock. */
  readonly descriptor: number
  readonly channels: ReadonlyArray<string>
}

const { O_NOFOLLOW, O_RDWR } = Files.constants

/**
 * Removes a kit, first from the name by which a program may still be making it: one of a daemon that has died goes on for
 * a moment. What cannot be removed is left to the next daemon.
 */
const discardDirectory = (directory: string): void => {
  const discarded = nameKit(Path.dirname(directory))
  try {
    Files.renameSync(directory, discarded)
    Files.rmSync(discarded, { recursive: true, force: true })
  } catch {
    // It is no sandbox's, and in nobody's way.
  }
}

const discardKit = (kit: LaunchKit): void => {
  Files.closeSync(kit.descriptor)
  discardDirectory(kit.directory)
}

/** Removes what a daemon that died has left. */
const removeFormerKits = (stateDirectory: string): void => {
  const runtime = runtimeDirectory(stateDirectory)
  for (const name of Files.readdirSync(runtime)) {
    if (name.startsWith(kitPrefix)) discardDirectory(Path.join(runtime, name))
  }
}

type Draft = Pick<LaunchKit, "directory" | "channels">

const draftKit = (stateDirectory: string, channelName: () => string): Draft => ({
  directory: nameKit(runtimeDirectory(stateDirectory)),
  channels: Array.from({ length: Bounds.executionChannelsMadeMax }, channelName)
})

/** Script that makes the drafts' directories, pipes and empty files, each with its exact mode. */
const makingScript = (drafts: ReadonlyArray<Draft>): string => {
  const blanks = drafts.map(({ channels, directory }) => launchBlanks(folderAt(directory), channels))
  const words = (of: (each: (typeof blanks)[number]) => ReadonlyArray<string>) =>
    blanks.flatMap(of).map(quote).join(" ")
  return [
    "umask 077",
    `mkdir -m 711 -- ${words(({ entered }) => entered)}`,
    `mkdir -m 700 -- ${words(({ closed }) => closed)}`,
    `mkfifo -m 600 -- ${words(({ pipes }) => pipes)}`,
    `for file in ${words(({ files }) => files)}; do : >"$file" || exit 1; done`
  ].join(" && ")
}

/** Opens the locks of all, or of none where the machine refuses one. */
const openLocks = (drafts: ReadonlyArray<Draft>): ReadonlyArray<LaunchKit> => {
  const kits: Array<LaunchKit> = []
  try {
    for (const draft of drafts) {
      const descriptor = Files.openSync(folderAt(draft.directory).lock, O_RDWR | O_NOFOLLOW)
      kits.push({ ...draft, descriptor })
    }
    return kits
  } catch {
    for (const { descriptor } of kits) Files.closeSync(descriptor)
    return []
  }
}

interface KitOptions {
  readonly stateDirectory: string
  readonly channelName: () => string
  readonly shell: LaunchShell
}

/** A batch of kits, or none where they could not be made: launches then go the ordinary way. */
const makeBatch = ({
  channelName,
  shell,
  stateDirectory
}: KitOptions): Effect.Effect<ReadonlyArray<LaunchKit>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const drafts = Array.from({ length: Bounds.launchKitsMadeMax }, () =>
        draftKit(stateDirectory, channelName)
      )
      // To its end, or it would go on behind the daemon's.
      const isMade = (yield* shell.run(["/bin/sh", "-c", makingScript(drafts)])) === 0
      const kits = isMade ? openLocks(drafts) : []
      if (kits.length === 0) {
        for (const { directory } of drafts) discardDirectory(directory)
        return []
      }
      const discardKits = Effect.sync(() => kits.forEach(discardKit))
      const locked = lockDescriptors(
        kits.map((kit) => kit.descriptor),
        null
      )
      const outcome = yield* restore(locked).pipe(Effect.onInterrupt(() => discardKits))
      return outcome === "held" ? kits : yield* Effect.as(discardKits, [])
    })
  )

/** The stock of kits for the time of the scope; what is left of it is removed with it. */
export const makeKits = (options: KitOptions): Effect.Effect<Stock<LaunchKit, never>, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* Effect.sync(() => removeFormerKits(options.stateDirectory))
    const scope = yield* Effect.scope
    const isOut = Latch.makeUnsafe(false)
    // Starting a program holds the daemon up for a moment: not while somebody waits for a guest's first command, unless
    // the next launch would have to start one itself.
    const delay = Effect.timeoutOption(isOut.await, Bounds.launchKitsDelayMillis)
    const kits = makeStock<LaunchKit, never>({
      first: [],
      keptMin: Bounds.launchKitsKeptMin,
      make: delay.pipe(
        Effect.andThen(makeBatch(options)),
        Effect.tap(() => isOut.close)
      ),
      discard: discardKit,
      scope
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => kits.close().forEach(discardKit)))
    yield* kits.refill
    return {
      ...kits,
      takeReady: () => {
        const kit = kits.takeReady()
        if (kits.left() === 0) isOut.openUnsafe()
        return kit
      }
    }
  })

/**
 * Puts a kit in the place of a sandbox's folder that is not there, or empty; its lock is then held by the kit's
 * descriptor, which the caller closes. False, and the kit is discarded, where something is.
 */
export const placeKit = (kit: LaunchKit, folder: SandboxFolder): boolean => {
  try {
    Files.renameSync(kit.directory, folder.directory)
    return true
  } catch {
    discardKit(kit)
    return false
  }
}
