/**
 * What `holdfast doctor` says about each thing that it looked at: pure verdicts over observed facts, each with what
 * to do about it. Looking is done by layers/cli/doctor.ts.
 */
import type { CheckView } from "../http/Views.ts"

/** Oldest Node on which Holdfast runs. The number stands in package.json (`engines`) and bin/holdfast.js too. */
export const nodeVersionMin = "22.19.0"

const parts = (version: string): ReadonlyArray<number> => version.split(".").map(Number)

/** Whether a dotted version is at least the other; missing parts count as zero. */
export const isAtLeast = (version: string, minimum: string): boolean => {
  const [have, need] = [parts(version), parts(minimum)]
  for (let index = 0; index < 3; index += 1) {
    const difference = (have[index] ?? 0) - (need[index] ?? 0)
    if (difference !== 0) return difference > 0
  }
  return true
}

const ok = (name: string, detail: string): CheckView => ({ name, state: "ok", detail, advice: null })

/** Node runs this very process, so a version that is too old is a failure. */
export const nodeCheck = (version: string): CheckView =>
  isAtLeast(version, nodeVersionMin)
    ? ok("node", `Node ${version}`)
    : {
        name: "node",
        state: "failed",
        detail: `Node ${version} is too old`,
        advice: `install Node ${nodeVersionMin} or newer`
      }

/** What a real run of a supervisor showed. */
export interface SupervisorFact {
  readonly kind: "bubblewrap" | "unshare"
  readonly usable: boolean
  readonly detail: string
}

const supervisorAdvice: Record<SupervisorFact["kind"], string> = {
  bubblewrap:
    "install the package bubblewrap (Debian and Ubuntu: apt-get install bubblewrap) and allow unprivileged user namespaces",
  unshare: "install the package util-linux (commands unshare, nsenter, setpriv) and allow user namespaces"
}

/** One check a supervisor. One that does not work is a warning while the other does. */
export const supervisorChecks = (facts: ReadonlyArray<SupervisorFact>): ReadonlyArray<CheckView> => {
  const someWorks = facts.some(({ usable }) => usable)
  return facts.map(({ detail, kind, usable }) =>
    usable
      ? ok(`supervisor ${kind}`, detail)
      : {
          name: `supervisor ${kind}`,
          state: someWorks ? "warning" : "failed",
          detail,
          advice: supervisorAdvice[kind]
        }
  )
}

/** Without usable cgroups guests run, but their limits are not kept and they cannot be paused. */
export const groupsCheck = (mode: "unified" | "hybrid" | "legacy" | "none"): CheckView =>
  mode === "none"
    ? {
        name: "cgroups",
        state: "warning",
        detail: "no cgroup can be made and joined: limits are not kept and absence is proved by process",
        advice: "run the daemon as root, or in a cgroup that is delegated to its user"
      }
    : ok("cgroups", `limits are kept by cgroups (${mode})`)

/** Without a display guests run; those of the image `host` have no desktop then. */
export const desktopCheck = (fact: {
  readonly hasDisplay: boolean
  readonly hasTerminal: boolean
}): CheckView => {
  if (fact.hasDisplay && fact.hasTerminal)
    return ok("desktop", "guests of the image host can have one (Xvnc)")
  return {
    name: "desktop",
    state: "warning",
    detail: fact.hasDisplay
      ? "Xvnc is there and xterm is not: a desktop is empty unless its workspace has an .xsession"
      : "Xvnc is missing: guests of the image host have no desktop",
    advice: "run scripts/setup (Debian and Ubuntu: apt-get install tigervnc-standalone-server xterm)"
  }
}

/** The embedded database, or the one that the environment names instead. */
export const databaseCheck = (fact: {
  readonly externalUrl: boolean
  readonly major: string | undefined
  readonly trouble: string | undefined
}): CheckView => {
  if (fact.externalUrl) {
    return ok("database", "HOLDFAST_DATABASE_URL is set; the daemon checks its version when it starts")
  }
  if (fact.major !== undefined && fact.major !== "")
    return ok("database", `embedded PostgreSQL ${fact.major}`)
  return {
    name: "database",
    state: "failed",
    detail: fact.trouble ?? "the embedded PostgreSQL does not run",
    advice:
      "install Holdfast again without --omit=optional or --ignore-scripts, or set HOLDFAST_DATABASE_URL to a PostgreSQL 15 or newer"
  }
}

/** A daemon that is away is no fault of the machine. */
export const daemonCheck = (
  socketPath: string,
  answer: { readonly version: string; readonly status: string } | { readonly trouble: string }
): CheckView => {
  if ("trouble" in answer) {
    return {
      name: "daemon",
      state: "warning",
      detail: answer.trouble,
      advice: "start one with `holdfast up`"
    }
  }
  const detail = `Holdfast ${answer.version} at ${socketPath} is ${answer.status}`
  return answer.status === "ok"
    ? ok("daemon", detail)
    : { name: "daemon", state: "warning", detail, advice: "see its checks with `holdfast doctor --json`" }
}

/** Whether guests can be carried here: nothing has failed. */
export const isUsable = (checks: ReadonlyArray<CheckView>): boolean =>
  checks.every(({ state }) => state !== "failed")
