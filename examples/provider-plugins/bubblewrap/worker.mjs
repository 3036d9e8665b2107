/**
 * A provider plugin that carries bubblewrap guests through its own process. A lease is a folder below
 * `config.stateDirectory`, named by the daemon's intent, so that the same create again, or one whose answer was lost,
 * finds the same folder. A command runs in a guest of its own that sees the folder as /workspace and nothing of the host
 * but its programs.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { access, cp, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fault, RpcError, serve } from "../serve.mjs"

const outputBytesMax = 1024 * 1024
const namePattern = /^[A-Za-z0-9._-]{1,160}$/

/** Commands that run now, by lease. */
const commands = new Map()

const rootOf = ({ stateDirectory } = {}) => {
  if (typeof stateDirectory !== "string" || !stateDirectory.startsWith("/"))
    throw new RpcError(-32602, "config.stateDirectory is an absolute path")
  return join(stateDirectory, "leases")
}

const folderOf = (config, providerLeaseId) => {
  if (
    typeof providerLeaseId !== "string" ||
    !namePattern.test(providerLeaseId) ||
    providerLeaseId.startsWith(".")
  )
    throw new RpcError(-32602, "providerLeaseId is none of this provider's")
  return join(rootOf(config), providerLeaseId)
}

const readLease = async (folder) => {
  try {
    return JSON.parse(await readFile(join(folder, "lease.json"), "utf8"))
  } catch {
    return undefined
  }
}

/** Whole or not at all: the record is what makes the folder a lease. */
const writeLease = async (folder, lease) => {
  await writeFile(join(folder, "lease.new"), JSON.stringify(lease), { mode: 0o600 })
  await rename(join(folder, "lease.new"), join(folder, "lease.json"))
}

const requireLease = async (config, providerLeaseId) => {
  const folder = folderOf(config, providerLeaseId)
  const lease = await readLease(folder)
  if (lease === undefined) throw fault(404, "there is no such lease", providerLeaseId)
  return { folder, lease }
}

const acquire = async ({ config, intent }) => {
  const providerLeaseId = intent?.name ?? `lease-${randomUUID()}`
  const folder = folderOf(config, providerLeaseId)
  await mkdir(join(folder, "workspace"), { recursive: true, mode: 0o700 })
  const lease = (await readLease(folder)) ?? { installation: intent?.installation ?? null, state: "running" }
  await writeLease(folder, lease)
  return { providerLeaseId, metadata: { remoteCwd: "/workspace" } }
}

const resume = async ({ config, providerLeaseId }) => {
  const folder = folderOf(config, providerLeaseId)
  const lease = await readLease(folder)
  if (lease === undefined) return { providerLeaseId: null, metadata: { expired: true } }
  await writeLease(folder, { ...lease, state: "running" })
  return { providerLeaseId, metadata: { remoteCwd: "/workspace" } }
}

const endCommands = async (providerLeaseId) => {
  const running = [...(commands.get(providerLeaseId) ?? [])]
  for (const { child } of running) child.kill("SIGKILL")
  await Promise.all(running.map(({ ended }) => ended))
}

const stop = async ({ cancelActiveWork, config, providerLeaseId }) => {
  const { folder, lease } = await requireLease(config, providerLeaseId)
  if (cancelActiveWork) await endCommands(providerLeaseId)
  else if (commands.get(providerLeaseId)?.size > 0) throw fault(409, "a command is running", providerLeaseId)
  await writeLease(folder, { ...lease, state: "stopped" })
  return { providerLeaseId, state: "stopped" }
}

const destroy = async ({ config, providerLeaseId }) => {
  const folder = folderOf(config, providerLeaseId)
  await endCommands(providerLeaseId)
  await rm(folder, { recursive: true, force: true })
  return { providerLeaseId, state: "destroyed" }
}

/** Every lease under the label of this installation, and of no other. */
const list = async ({ config, installation }) => {
  const root = rootOf(config)
  const names = await readdir(root).catch(() => [])
  const leases = []
  for (const name of names) {
    const lease = await readLease(join(root, name))
    if (lease?.installation === installation) leases.push({ providerLeaseId: name, intentName: name })
  }
  return { leases }
}

const realize = async ({ config, leaseMetadata, providerLeaseId, workspace }) => {
  const id = providerLeaseId ?? leaseMetadata?.providerLeaseId
  if (id !== undefined) {
    const { folder } = await requireLease(config, id)
    const { localPath } = workspace ?? {}
    // The worker runs on the daemon's machine, so it reads the directory itself. Links stay links.
    if (typeof localPath === "string")
      await cp(localPath, join(folder, "workspace"), { recursive: true, verbatimSymlinks: true })
  }
  return { cwd: "/workspace", metadata: { provider: "bubblewrap", mode: workspace?.mode ?? null } }
}

const hostFolders = async () => {
  const bound = []
  for (const folder of ["/usr", "/bin", "/sbin", "/lib", "/lib64"]) {
    await access(folder).then(
      () => bound.push("--ro-bind", folder, folder),
      () => undefined
    )
  }
  return bound
}

const guestOf = async (folder, cwd) => [
  ...(await hostFolders()),
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  "--tmpfs",
  "/tmp",
  "--bind",
  join(folder, "workspace"),
  "/workspace",
  "--unshare-all",
  "--die-with-parent",
  "--new-session",
  "--clearenv",
  "--chdir",
  cwd || "/workspace"
]

const collect = (stream, name, log) => {
  let text = ""
  stream.setEncoding("utf8")
  stream.on("data", (chunk) => {
    if (text.length < outputBytesMax) text += chunk
    log(name, chunk)
  })
  return () => text
}

const execute = async (params, { log, signal }) => {
  const { args = [], command, config, cwd, env = {}, leaseMetadata, stdin, timeoutMs } = params
  const providerLeaseId = params.providerLeaseId ?? leaseMetadata?.providerLeaseId
  const { folder, lease } = await requireLease(config, providerLeaseId)
  if (lease.state !== "running") throw fault(409, "the lease is stopped", providerLeaseId)
  const variables = Object.entries({ PATH: "/usr/bin:/bin", HOME: "/workspace", ...env })
  const words = [
    ...(await guestOf(folder, cwd)),
    ...variables.flatMap(([name, value]) => ["--setenv", name, value]),
    "--",
    command,
    ...args
  ]
  const child = spawn("bwrap", words, { stdio: ["pipe", "pipe", "pipe"] })
  child.stdin.on("error", () => undefined)
  child.stdin.end(stdin ?? "")
  const stdout = collect(child.stdout, "stdout", log)
  const stderr = collect(child.stderr, "stderr", log)
  let timedOut = false
  const deadline =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => ((timedOut = true), child.kill("SIGKILL")), timeoutMs)
  signal.addEventListener("abort", () => child.kill("SIGKILL"))
  const ended = new Promise((resolve) => {
    child.once("error", () => resolve([127, null]))
    child.once("close", (code, ending) => resolve([code, ending]))
  })
  const running = { child, ended }
  commands.set(providerLeaseId, (commands.get(providerLeaseId) ?? new Set()).add(running))
  const [exitCode, ending] = await ended
  clearTimeout(deadline)
  commands.get(providerLeaseId)?.delete(running)
  return { exitCode, signal: ending, timedOut, stdout: stdout(), stderr: stderr() }
}

serve({
  methods: {
    environmentAcquireLease: acquire,
    environmentResumeLease: resume,
    environmentReleaseLease: async (params) => ({ ...(await destroy(params)), state: "stopped" }),
    environmentStopLease: stop,
    environmentDestroyLease: destroy,
    environmentListLeases: list,
    environmentRealizeWorkspace: realize,
    environmentExecute: execute
  },
  onEnd: async () => {
    for (const providerLeaseId of commands.keys()) await endCommands(providerLeaseId)
  }
})
