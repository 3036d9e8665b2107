/**
 * The files of one launch, in the order that makes it recoverable: what is removed first, what is durable before the
 * spawn, what before the guest's first instruction. The owner lock is held by the caller.
 */
import * as Files from "node:fs"
import * as Path from "node:path"
import { PreparedLaunch } from "../../domain/guests/GuestFacts.ts"
import type { OwnedGroup } from "../../domain/guests/AbsenceProof.ts"
import type { GuestSpec } from "../../domain/guests/GuestSpec.ts"
import type { GuestIdentity } from "../../domain/guests/GuestSupervisor.ts"
import { ensureDirectory, replaceFile, syncDirectory } from "../filesystem/privateFiles.ts"
import { channelPipes } from "./agentLink.ts"
import { accountFiles, agentFiles, agentScript, commandScript, environmentScript } from "./agentScript.ts"
import type { RunFile, SandboxFolder } from "./folders.ts"
import { writeGuestFile } from "./guestFile.ts"

const openToEnter = 0o711
const readableByAll = 0o444
const ownerOnly = 0o600
const workspaceMode = 0o700

/** Makes the sandbox's folder when it is not there: only the lock's place. What makes a launch durable syncs it. */
export const makeFolder = (folder: SandboxFolder): void => {
  ensureDirectory(folder.directory, openToEnter)
}

/** Names of the pipes that the agent needs from its first moment; they are the guest's user's. */
const agentPipes = (channels: ReadonlyArray<string>): ReadonlyArray<string> => [
  agentFiles.orders,
  agentFiles.answers,
  ...channels.flatMap(channelPipes)
]

/** Names of all pipes of a launch. */
export const launchPipes = (channels: ReadonlyArray<string>): ReadonlyArray<string> => [
  agentFiles.hold,
  ...agentPipes(channels)
]

const markPrefix = "launching-"

/** File without which the attempt's program ends before it becomes anything. */
export const launchMarkOf = (folder: SandboxFolder, attemptId: string): string =>
  Path.join(folder.directory, `${markPrefix}${attemptId}`)

/**
 * Gives every launch of the sandbox up that is still on its way to its cgroups. A look at the groups behind this sees
 * whoever has joined them; whoever joins later ends by itself.
 */
export const abandonLaunches = (folder: SandboxFolder): void => {
  if (!Files.existsSync(folder.directory)) return
  for (const name of Files.readdirSync(folder.directory)) {
    if (name.startsWith(markPrefix)) Files.rmSync(Path.join(folder.directory, name), { force: true })
  }
}

/**
 * Forgets the former guest of the sandbox, which is gone. Its identity goes durably before its cgroups do: an identity
 * whose groups are missing would be uncertain for ever.
 */
export const forgetFormer = async (folder: SandboxFolder): Promise<void> => {
  abandonLaunches(folder)
  const former = ["identity.json", "preparing.json"].map((name) => Path.join(folder.directory, name))
  if (!former.some((path) => Files.existsSync(path))) return
  for (const path of former) Files.rmSync(path, { force: true })
  await syncDirectory(folder.directory)
}

/** Makes the private storage and gives it to the guest's user. `owner` is null where the daemon's own user is used. */
export const makeStorage = (folder: SandboxFolder, owner: number | null): void => {
  ensureDirectory(folder.run, openToEnter)
  for (const path of [folder.workspace, folder.scratch]) {
    ensureDirectory(path, workspaceMode)
    if (owner !== null && Files.lstatSync(path).uid !== owner) Files.lchownSync(path, owner, owner)
  }
}

/**
 * Fills the fresh agent directory and puts it in place. The environment and the main command lie in files that only
 * the guest's user reads. Source: RG-REC-02.
 */
export const placeAgent = (options: {
  readonly folder: SandboxFolder
  readonly spec: GuestSpec
  readonly channels: ReadonlyArray<string>
  readonly owner: number | null
  readonly innerUserId: number
}): void => {
  const { folder, owner, spec } = options
  const at = (name: string) => Path.join(folder.agentNew, name)
  if (owner !== null)
    for (const pipe of agentPipes(options.channels)) Files.lchownSync(at(pipe), owner, owner)
  const accounts = accountFiles(options.innerUserId)
  writeGuestFile(at(agentFiles.script), agentScript, { mode: readableByAll, owner: null })
  writeGuestFile(at(agentFiles.passwd), accounts.passwd, { mode: readableByAll, owner: null })
  writeGuestFile(at(agentFiles.group), accounts.group, { mode: readableByAll, owner: null })
  const environment = environmentScript(spec.environment)
  writeGuestFile(at(agentFiles.environment), environment, { owner })
  if (spec.argv.length > 0) {
    const main = commandScript({ argv: spec.argv, environment: {}, workingDirectory: "/workspace" })
    writeGuestFile(at(agentFiles.main), main, { owner })
  }
  Files.rmSync(folder.agent, { recursive: true, force: true })
  Files.renameSync(folder.agentNew, folder.agent)
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`

/** Makes the launch durable: from here on a crash leaves what recovery needs to find and end everything of it. */
export const publishPreparing = async (options: {
  readonly folder: SandboxFolder
  readonly spec: GuestSpec
  readonly bootId: string
  readonly userId: number
  readonly groups: ReadonlyArray<OwnedGroup>
}): Promise<void> => {
  const { folder, spec } = options
  const { attemptId, generation, runId, sandbox } = spec
  const run: RunFile = { version: 1, generation, runId, attemptId, userId: options.userId }
  const preparing = new PreparedLaunch({
    sandbox,
    generation,
    runId,
    attemptId,
    bootId: options.bootId,
    userId: options.userId,
    groups: options.groups
  })
  const { cpuMillis, disk, image, memoryBytes, processesMax } = spec
  const launch = { version: 1, sandbox, generation, image, disk, cpuMillis, memoryBytes, processesMax }
  // A monitor's report of the former guest must not be read as this one's.
  Files.rmSync(folder.status, { force: true })
  Files.writeFileSync(launchMarkOf(folder, attemptId), "", { mode: ownerOnly })
  await Promise.all([
    replaceFile(folder.directory, "spec.json", json(launch)),
    replaceFile(folder.directory, "run.json", json(run)),
    replaceFile(folder.directory, "preparing.json", json(preparing))
  ])
  await Promise.all([syncDirectory(folder.directory), syncDirectory(Path.dirname(folder.directory))])
}

/** Makes the guest's binding durable. preparing.json goes behind it, so that one of the two is always there. */
export const publishIdentity = async (folder: SandboxFolder, identity: GuestIdentity): Promise<void> => {
  await replaceFile(folder.directory, "identity.json", json(identity))
  await syncDirectory(folder.directory)
  for (const path of [
    Path.join(folder.directory, "preparing.json"),
    launchMarkOf(folder, identity.attemptId)
  ]) {
    Files.rmSync(path, { force: true })
  }
}
