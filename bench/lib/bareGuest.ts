/**
 * The yardstick of guests: the product's own bubblewrap options, started by nobody but Node. No cgroup, no record, no
 * user of its own, no filter; a shell that says when it is ready and runs the lines that it is given.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as Files from "node:fs"
import * as Path from "node:path"
import type { Writable } from "node:stream"
import { bubblewrapPlan } from "../../src/infra/guests/bubblewrap.ts"
import { rootEntries } from "../../src/infra/guests/guestRoot.ts"
import { descriptors } from "../../src/infra/guests/launchPlan.ts"

const shell = 'echo ready; while read -r line; do sh -c "$line"; echo done; done'

export interface BareGuest {
  /** Runs a line in the guest and waits for its end. */
  readonly run: (line: string) => Promise<void>
  /** Ends it and waits until it is gone. */
  readonly end: () => Promise<void>
}

/** Answers the next line of the guest, or fails when it ends first. */
const lineReader = (child: ChildProcess) => {
  const lines: Array<string> = []
  let rest = ""
  let wake = () => {}
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n")
    rest = parts.pop()!
    lines.push(...parts)
    wake()
  })
  child.once("exit", () => wake())
  return async (wanted: string): Promise<void> => {
    while (lines.length === 0 && child.exitCode === null && child.signalCode === null) {
      await new Promise<void>((resume) => void (wake = resume))
    }
    const line = lines.shift()
    if (line !== wanted) throw new Error(`the bare guest said ${line ?? "nothing"} instead of ${wanted}`)
  }
}

const planFor = (directory: string) =>
  bubblewrapPlan({
    root: {
      entries: rootEntries("host"),
      accounts: null,
      agent: Path.join(directory, "agent"),
      workspace: Path.join(directory, "workspace"),
      scratch: Path.join(directory, "scratch"),
      hostname: "bare"
    },
    command: ["/bin/sh", "-c", shell],
    features: { disablesUserNamespaces: true },
    hasFilter: false
  })

/** Starts the command and waits until its shell is ready. */
export const startBareGuest = async (directory: string): Promise<BareGuest> => {
  for (const name of ["agent", "workspace", "scratch"]) {
    Files.mkdirSync(Path.join(directory, name), { recursive: true })
  }
  const { argv, options } = planFor(directory)
  const status = Files.openSync("/dev/null", "w")
  const child = spawn(argv[0]!, argv.slice(1), {
    stdio: ["pipe", "pipe", "ignore", status, "pipe", "pipe"]
  })
  Files.closeSync(status)
  const gone = new Promise<void>((resume) => child.once("exit", () => resume()))
  const nextLine = lineReader(child)
  const write = (descriptor: number, text: string) =>
    (child.stdio as ReadonlyArray<unknown> as ReadonlyArray<Writable>)[descriptor]!.end(text)
  write(descriptors.options, options)
  write(descriptors.block, "\n")
  await nextLine("ready")
  return {
    run: async (line) => {
      child.stdin!.write(`${line}\n`)
      await nextLine("done")
    },
    end: async () => {
      child.kill("SIGKILL")
      await gone
    }
  }
}
