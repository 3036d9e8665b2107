/**
 * A provider that holds rows in a file and has faults on order, to prove that a control plane survives them. Resources lie
 * in `<stateDirectory>/resources.json`, so they outlive the worker. Faults are read from `<stateDirectory>/faults.json`
 * before each call, `{ "<method>": [fault, …] }`, and each is used once:
 *
 *     { "fault": "lost" }                    done, and never answered
 *     { "fault": "crash" }                   done, and the worker ends before its answer
 *     { "fault": "crash_before" }            the worker ends before it does anything
 *     { "fault": "status", "status": 503 }   not done; 404 names the resource, the others do not
 *     { "fault": "status_after", "status": 503 }   done, and answered with that status
 *     { "fault": "slow", "millis": 500 }     done after a while
 *     { "fault": "duplicate" }               done, and answered twice
 *     { "fault": "lie", "receipt": {…} }     not done; answers this
 *     { "fault": "canary", "text": "…" }     not done; an error with this text
 *     { "fault": "garbage" }, { "fault": "oversized" }   breaks the protocol
 *     { "fault": "hang" }                    blocks the worker's only thread
 *
 * `<stateDirectory>/visibility.json`, `{ "hiddenListings": n }`, has a new resource missing from the next n listings.
 */
import { randomUUID } from "node:crypto"
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { fault, RpcError, serve } from "../serve.mjs"

const read = (directory, name, otherwise) => {
  try {
    return JSON.parse(readFileSync(join(directory, name), "utf8"))
  } catch {
    return otherwise
  }
}

const write = (directory, name, value) => {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, `${name}.new`), JSON.stringify(value))
  renameSync(join(directory, `${name}.new`), join(directory, name))
}

const directoryOf = ({ config }) => {
  const directory = config?.stateDirectory
  if (typeof directory !== "string" || !directory.startsWith("/"))
    throw new RpcError(-32602, "config.stateDirectory is an absolute path")
  return directory
}

const resourcesOf = (directory) => read(directory, "resources.json", {})

const change = (directory, make) => {
  const resources = resourcesOf(directory)
  const answer = make(resources)
  write(directory, "resources.json", resources)
  return answer
}

const takeFault = (directory, method) => {
  const faults = read(directory, "faults.json", {})
  const [next, ...rest] = faults[method] ?? []
  if (next !== undefined) write(directory, "faults.json", { ...faults, [method]: rest })
  return next
}

const acquire = (directory, { intent }) =>
  change(directory, (resources) => {
    const id = intent?.name ?? `scripted-${randomUUID()}`
    const { hiddenListings = 0 } = read(directory, "visibility.json", {})
    resources[id] ??= {
      state: "running",
      installation: intent?.installation ?? null,
      hiddenListings,
      creates: 0
    }
    resources[id].creates += 1
    return { providerLeaseId: id, metadata: { remoteCwd: "/workspace" } }
  })

const resume = (directory, { providerLeaseId }) =>
  change(directory, (resources) => {
    if (resources[providerLeaseId] === undefined)
      return { providerLeaseId: null, metadata: { expired: true } }
    resources[providerLeaseId].state = "running"
    return { providerLeaseId, metadata: {} }
  })

const stop = (directory, { providerLeaseId }) =>
  change(directory, (resources) => {
    if (resources[providerLeaseId] === undefined) throw fault(404, "no such resource", providerLeaseId)
    resources[providerLeaseId].state = "stopped"
    return { providerLeaseId, state: "stopped" }
  })

const destroy = (directory, { providerLeaseId }) =>
  change(directory, (resources) => {
    delete resources[providerLeaseId]
    return { providerLeaseId, state: "destroyed" }
  })

/** A released resource is gone; what its receipt has to say is that nothing of it runs. */
const release = (directory, params) => ({ ...destroy(directory, params), state: "stopped" })

const list = (directory, { installation }) =>
  change(directory, (resources) => {
    const leases = []
    for (const [id, resource] of Object.entries(resources)) {
      if (resource.installation !== installation) continue
      if (resource.hiddenListings > 0) resource.hiddenListings -= 1
      else leases.push({ providerLeaseId: id, intentName: id })
    }
    return { leases }
  })

const execute = (directory, { args = [], command, leaseMetadata, providerLeaseId, stdin }, { log }) => {
  const resource = resourcesOf(directory)[providerLeaseId ?? leaseMetadata?.providerLeaseId]
  if (resource?.state !== "running") throw fault(409, "the resource does not run", providerLeaseId)
  const said = command === "echo" ? `${args.join(" ")}\n` : (stdin ?? "")
  log("stdout", said)
  return { exitCode: command === "false" ? 1 : 0, signal: null, timedOut: false, stdout: said, stderr: "" }
}

const actions = {
  environmentAcquireLease: acquire,
  environmentResumeLease: resume,
  environmentReleaseLease: release,
  environmentStopLease: stop,
  environmentDestroyLease: destroy,
  environmentListLeases: list,
  environmentRealizeWorkspace: () => ({ cwd: "/workspace", metadata: {} }),
  environmentExecute: execute
}

/** Answers that are to be sent a second time. */
const twice = new Set()

const never = () => new Promise(() => undefined)

const before = async (order, params) => {
  if (order.fault === "crash_before") process.exit(1)
  if (order.fault === "status")
    throw fault(
      order.status,
      "the provider refuses",
      order.status === 404 ? params.providerLeaseId : undefined
    )
  if (order.fault === "canary") throw new RpcError(-32000, order.text, { text: order.text })
  if (order.fault === "slow") await pause(order.millis)
  if (order.fault === "hang") for (;;);
  if (order.fault === "garbage") process.stdout.write("this is no message\n")
  if (order.fault === "oversized") process.stdout.write("x".repeat(5_000_000))
}

const after = (order, method) => {
  if (order.fault === "crash") process.exit(1)
  if (order.fault === "status_after") throw fault(order.status, "done, and yet refused")
  if (order.fault === "duplicate") twice.add(method)
  return order.fault === "lost" ? never() : undefined
}

const method = (name) => async (params, call) => {
  const directory = directoryOf(params)
  const order = takeFault(directory, name) ?? {}
  await before(order, params)
  if (order.fault === "lie") return order.receipt
  const answer = actions[name](directory, params, call)
  await after(order, name)
  return answer
}

const send = (message) => void process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)

serve({
  methods: Object.fromEntries(Object.keys(actions).map((name) => [name, method(name)])),
  answer: (message, name) => {
    send(message)
    if (twice.delete(name)) send(message)
  }
})
