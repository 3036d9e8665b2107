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
import { ensureDirectory } from "../filesystem/privateFiles.ts"
import { channelPipes } from "./agentLink.ts"
import { accountFiles, agentFiles, agentScript, commandScript, environmentScript } from "./agentScript.ts"
import { replaceFiles, syncDirectories, unnamed } from "./durableFiles.ts"
import type { RunFile, SandboxFolder } from "./folders.ts"
import { fillGuestFile } from "./guestFile.ts"

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
const markBlank = ".launching"

/**
 * What a launch makes for a sandbox of which nothing is there, to be made ahead: a file system takes its time to find
 * a place for a new file, the more the busier it was. Files are empty and become the launch's when it writes them.
 */
export const launchBlanks = (
  folder: SandboxFolder,
  channels: ReadonlyArray<string>
): {
  readonly entered: ReadonlyArray<string>
  readonly closed: ReadonlyArray<string>
  readonly files: ReadonlyArray<string>
  readonly pipes: ReadonlyArray<string>
} => ({
  entered: [folder.directory, folder.agentNew, folder.run],
  closed: [folder.workspace, folder.scratch],
  files: [
    folder.lock,
    folder.log,
    folder.status,
    folder.options,
    folder.filter,
    ...["spec.json", "run.json", "preparing.json", "identity.json"].map((name) =>
      Path.join(folder.directory, unnamed(name))
    ),
    Path.join(folder.directory, markBlank),
    ...[agentFiles.script, agentFiles.passwd, agentFiles.group, agentFiles.environment].map((name) =>
      Path.join(folder.agentNew, name)
    )
  ],
  pipes: launchPipes(channels).map((name) => Path.join(folder.agentNew, name))
})

/** File without which the attempt's program ends before it becomes anything. */
export const launchMarkOf = (folder: SandboxFolder, attemptId: string): string =>
  Path.join(folder.directory, `${markPrefix}${attemptId}`)

const makeMark = (folder: SandboxFolder, attemptId: string): void => {
  const blank = Path.join(folder.directory, markBlank)
  if (Files.existsSync(blank)) Files.renameSync(blank, launchMarkOf(folder, attemptId))
  else Files.writeFileSync(launchMarkOf(folder, attemptId), "", { mode: ownerOnly })
}

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
  // A monitor's report of the former guest must not be read as the next one's.
  for (const path of [...former, folder.status]) Files.rmSync(path, { force: true })
  await syncDirectories([folder.directory])
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
  fillGuestFile(at(agentFiles.script), agentScript, { mode: readableByAll, owner: null })
  fillGuestFile(at(agentFiles.passwd), accounts.passwd, { mode: readableByAll, owner: null })
  fillGuestFile(at(agentFiles.group), accounts.group, { mode: readableByAll, owner: null })
  const environment = environmentScript(spec.environment)
  fillGuestFile(at(agentFiles.environment), environment, { owner })
  if (spec.argv.length > 0) {
    const main = commandScript({
      argv: spec.argv,
      environment: {},
      workingDirectory: "/workspace"
    })
    fillGuestFile(at(agentFiles.main), main, { owner })
  }
  Files.rmSync(folder.agent, { recursive: true, force: true })
  Files.renameSync(folder.agentNew, folder.agent)
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`

/**
 * Makes the launch durable: from then on a crash leaves what recovery needs to find and end everything of it. Nothing may
 * be spawned before.
 */
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
  const launch = {
    version: 1,
    sandbox,
    generation,
    image,
    disk,
    cpuMillis,
    memoryBytes,
    processesMax
  }
  makeMark(folder, attemptId)
  await replaceFiles(folder.directory, [
    ["spec.json", json(launch)],
    ["run.json", json(run)],
    ["preparing.json", json(preparing)]
  ])
  await syncDirectories([folder.directory, Path.dirname(folder.directory)])
}

/** Makes the guest's binding durable. preparing.json goes behind it, so that one of the two is always there. */
export const publishIdentity = async (folder: SandboxFolder, identity: GuestIdentity): Promise<void> => {
  await replaceFiles(folder.directory, [["identity.json", json(identity)]])
  await syncDirectories([folder.directory])
  for (const path of [
    Path.join(folder.directory, "preparing.json"),
    launchMarkOf(folder, identity.attemptId)
  ]) {
    Files.rmSync(path, { force: true })
  }
}
