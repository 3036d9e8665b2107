/**
 * Waiting for a fact of the kernel: woken by a change of a watched file, with a poll behind it for what no event
 * tells. On the machine's own clock, since it waits for processes and not for the product's time.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"

/** Looks this often again right after an event, when the fact was not there yet. */
const recheckMillis = 2
const rechecksMax = 50

const watchIfThere = (path: string | null, changed: () => void): Files.FSWatcher | undefined => {
  if (path === null) return undefined
  try {
    const watcher = Files.watch(path, { persistent: false }, changed)
    watcher.on("error", () => watcher.close())
    return watcher
  } catch {
    // The file is gone or watches are used up: the poll is enough.
    return undefined
  }
}

export interface WaitOptions {
  /** A file whose change may mean that the fact has come; null: only the poll. */
  readonly watch: string | null
  readonly pollMillis: number
  readonly millisMax: number
}

/** Waits until `fact` holds; answers whether it did within the time. An error that `fact` throws is a defect. */
export const waitUntil = (fact: () => boolean, options: WaitOptions): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    let rechecks = 0
    let recheck: NodeJS.Timeout | undefined
    const close = () => {
      watcher?.close()
      clearInterval(poll)
      clearTimeout(deadline)
      clearTimeout(recheck)
    }
    const look = (): boolean => {
      try {
        if (!fact()) return false
        close()
        resume(Effect.succeed(true))
      } catch (error) {
        close()
        resume(Effect.die(error))
      }
      return true
    }
    const afterEvent = () => {
      if (look() || rechecks >= rechecksMax) return
      rechecks += 1
      clearTimeout(recheck)
      recheck = setTimeout(afterEvent, recheckMillis)
    }
    const watcher = watchIfThere(options.watch, () => {
      rechecks = 0
      afterEvent()
    })
    const poll = setInterval(look, options.pollMillis)
    const deadline = setTimeout(() => {
      if (look()) return
      close()
      resume(Effect.succeed(false))
    }, options.millisMax)
    look()
    return Effect.sync(close)
  })
