/** What the node's API answers, as lines for people. Pure. */
import { ago, bytes, cpus, table } from "../../infra/cli/text.ts"
import type {
  InspectionView,
  ReadinessView,
  SandboxDeletionView,
  SandboxSummary,
  SandboxView,
  WhyView
} from "../../infra/http/node/NodeViews.ts"

/** How long until then, in the words of an age. */
const left = (thenMillis: number, nowMillis: number): string =>
  thenMillis <= nowMillis ? "over" : `in ${ago(nowMillis, thenMillis).replace(/ ago$/, "")}`

const stateOf = ({ deleting, status }: SandboxSummary): string =>
  deleting ? `${status}, being deleted` : status

export const sandboxTable = (
  sandboxes: ReadonlyArray<SandboxSummary>,
  nowMillis: number
): ReadonlyArray<string> =>
  table([
    ["SANDBOX", "STATE", "CPU", "MEMORY", "AGE", "EXPIRES"],
    ...sandboxes.map((each) => [
      each.sandbox,
      stateOf(each),
      cpus(each.cpuMillis),
      bytes(each.memoryBytes),
      ago(each.createdAtMillis, nowMillis),
      left(each.expiresAtMillis, nowMillis)
    ])
  ])

/** One line about a sandbox that was changed. */
export const sandboxLine = (sandbox: SandboxView, nowMillis: number): string =>
  `${sandbox.sandbox} ${stateOf(sandbox)}, expires ${left(sandbox.expiresAtMillis, nowMillis)}`

const pairsText = (pairs: Readonly<Record<string, string>>): string =>
  Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ")

export const inspectionLines = (seen: InspectionView, nowMillis: number): ReadonlyArray<string> => {
  const why = seen.statusReason === null ? "" : ` (${seen.statusReason})`
  const rows: ReadonlyArray<readonly [string, string]> = [
    ["sandbox", `${seen.sandbox}, generation ${seen.generation}`],
    ["state", `${stateOf(seen)}${why}`],
    ["guest", seen.ready ? "answers" : `does not answer: ${seen.notReadyBecause}`],
    ["request", seen.requestId ?? ""],
    ["image", seen.image],
    ["command", seen.argv.join(" ")],
    ["limits", `${cpus(seen.cpuMillis)}, ${bytes(seen.memoryBytes)}, ${seen.processesMax} processes`],
    ["environment", seen.environment.join(" ")],
    ["metadata", pairsText(seen.metadata)],
    ["created", ago(seen.createdAtMillis, nowMillis)],
    ["expires", left(seen.expiresAtMillis, nowMillis)],
    ["deletion", seen.deletion === null ? "" : `${seen.deletion.reason}, by ${seen.deletion.actor}`]
  ]
  return table(rows.filter(([, text]) => text !== ""))
}

export const deletionLines = (deletion: SandboxDeletionView): ReadonlyArray<string> =>
  deletion.proof === null ? [] : [`proved  ${deletion.proof}`, `deleted ${deletion.sandbox}`]

export const whyLines = ({ steps }: WhyView): ReadonlyArray<string> =>
  table([
    ["STEP", "WHEN", "WHO", "WHAT"],
    ...steps.map(({ actor, atMillis, step, told }) => [
      step,
      atMillis === null ? "-" : new Date(atMillis).toISOString(),
      actor ?? "-",
      told
    ])
  ])

export const readinessLine = ({ charges, node, state, supervisor, why }: ReadinessView): string => {
  const room =
    charges === null ? "" : `, ${charges.used.sandboxes} of ${charges.capacity.sandboxes} sandboxes`
  return `node ${node} is ${state.replace("_", " ")}${why === null ? "" : ` (${why})`}: ${supervisor}${room}`
}
