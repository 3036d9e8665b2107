/**
 * Every bound of the product: name with its unit, value, and where it comes from. Times are in milliseconds or
 * seconds, sizes in bytes, as the name says. A bound that a user could want to change is a setting whose default
 * stands here; layers/config.ts reads it.
 */

// ---- registry and node (RG figures)
export const nodeSandboxesDefault = 32
export const nodeCpuMillisDefault = 4_000
export const nodeMemoryBytesDefault = 8 * 1024 ** 3
export const registrySnapshotBytesMax = 16 * 1024 ** 2
/** A record file: the largest record that admission lets through, wrapped. */
export const registryFileBytesMax = 16 * 1024 ** 2
export const sandboxLifeSecondsMin = 60
/** The longest life that may be asked of a node, unless its setting says otherwise. */
export const sandboxLifeSecondsDefault = 24 * 3600
export const sandboxLifeSecondsMax = 365 * 24 * 3600
export const imageBytesMax = 2_048
export const argvItemsMax = 256
export const argvItemBytesMax = 65_536
export const environmentPairsMax = 256
export const environmentKeyBytesMax = 256
export const environmentValueBytesMax = 65_536
export const requestBodyBytesMax = 1024 ** 2
/** Paths of UNIX sockets stay below this. */
export const socketPathBytesMax = 104
export const deletionsAtOnceMax = 8
/** How often a node looks for sandboxes whose life is over. A look that comes late is not made up for. */
export const maintenanceIntervalMillis = 1_000
/** The first moment of 2026: a host's clock that shows an earlier one is wrong. */
export const clockPlausibleMillisMin = 1_767_225_600_000
/** A host's clock that goes ahead of the time that has passed, or behind it, by more than this has been set. */
export const clockJumpMillisMax = 60_000
/** How long a clock that has been set has to stay before a life is ended by it. */
export const clockSettleMillis = 10 * 60_000

// ---- limits of a runtime (SP figures)
export const runtimeCpuMillisMin = 100
export const runtimeCpuMillisMax = 64_000
export const runtimeCpuMillisDefault = 1_000
export const runtimeMemoryMebibytesMin = 128
export const runtimeMemoryMebibytesMax = 65_536
export const runtimeMemoryMebibytesDefault = 1_024
export const runtimeProcessesMin = 32
export const runtimeProcessesMax = 8_192
export const runtimeProcessesDefault = 512

// ---- guests
export const guestTmpBytesMax = 256 * 1024 ** 2
export const guestRunBytesMax = 16 * 1024 ** 2
export const guestExecutionsAtOnceMax = 32
export const guestReadyMillisMax = 30_000
export const guestStopGraceMillis = 5_000
export const guestEndMillisMax = 20_000
export const guestUserIdFirst = 30_000
export const guestUserIdsMax = 10_000

// ---- executions (SP figures)
export const executionTimeoutMillisMax = 15 * 60_000
export const executionOutputBytesMax = 16 * 1024 ** 2
export const executionLeaseSeconds = 20
export const heartbeatIntervalMillis = 5_000

// ---- operations (SP-OPS, SP figures)
export const receiptsKeptMin = 20
/** Sentences of proof that a receipt keeps; a re-armed one may have made its machine several times. */
export const receiptAbsencesKeptMax = 16
export const receiptsTrimmedMax = 128
export const runtimeLogRowsMax = 200
export const reconcileIntervalMillis = 10_000
export const logLineCharactersMax = 2_000
export const errorTextCharactersMax = 2_000

// ---- database
export const databasePoolConnectionsDefault = 10
export const databaseStartMillisMax = 30_000
export const databaseVersionMin = 15
export const transactionStatementsPipelinedMax = 64
/** Path of a database socket: what Linux takes, without the closing zero byte. */
export const databaseSocketPathBytesMax = 107
/** PostgreSQL cuts longer names silently, so longer ones are refused. */
export const databaseNameBytesMax = 63
export const databaseServerConnectionsDefault = 100
export const databaseConnectMillisMax = 5_000
export const databaseIdleConnectionMillisMax = 60_000
export const databaseStatementMillisMax = 30_000
export const databaseLockWaitMillisMax = 10_000
export const databaseIdleInTransactionMillisMax = 60_000
/** A COMMIT without an answer for so long is unknown. Longer than the server gives any statement. */
export const databaseCommitMillisMax = 45_000
/** A session that does not answer ROLLBACK for so long, although its statement was cancelled, is given up. */
export const databaseRollbackMillisMax = 5_000
/** A fast shutdown writes a checkpoint, which may take a while on a slow disk. */
export const databaseStopMillisMax = 20_000
/** A server whose daemon was killed needs a moment to notice; after it, it is somebody else's. */
export const databaseNoticeMillisMax = 1_000
export const databaseInitializeMillisMax = 120_000
export const databaseLogBytesMax = 16 * 1024 ** 2
/** How long a second daemon waits while the first one migrates. */
export const migrationLockWaitMillisMax = 10 * 60_000

// ---- leases (SP-LEASE)
/** Lease rows of one Project, tombstones among them: an execution beyond is refused. */
export const projectLeasesMax = 10_000
/** The newest tombstones of a Project stay until their generation ends, and any one for this long. */
export const cancelTombstonesKeptMin = 1_000
export const cancelTombstoneSeconds = 24 * 3600
/** The label of an execution is its command's first word, cut to this. */
export const executionLabelCharactersMax = 100
/** Leases that one sweep of a node looks at, the longest silent first. */
export const leaseInventoryMax = 10_000
/** Tombstones of ended generations that one pass of the sweep removes. */
export const endedLeasesRemovedMax = 1_000
/** Guests that one sweep asks at a time whether a dead process has left something in them. */
export const sweptGuestsAtOnceMax = 8
/** Repositories of one Project that are claimed at a time: a claim of a further one is refused. */
export const projectRepositoriesMax = 256
export const repositoryNameCharactersMax = 400
export const repositoryLeaseSeconds = 30
/** How long somebody waits for a repository that another one works on, and how often he looks. */
export const repositoryWaitMillisMax = 10_000
export const repositoryPollMillis = 100
/** Looks of a loser that sees no holder yet, since the winner has not committed, and the pause between them. */
export const repositoryContendedLooksMax = 20
export const repositoryContendedMillis = 5

// ---- worktrees
/** Worktrees of one Project, those that are being made or removed among them: one beyond is refused. */
export const projectWorktreesMax = 256
/** What a directory takes as a name, without its closing zero byte and with room for a number that git may add. */
export const worktreeNameCharactersMax = 200
export const branchNameCharactersMax = 200
/** One step of git in a guest. Source: SP figures (file operation 120 s). */
export const worktreeStepMillisMax = 120_000
/** What is read of the answer of such a step: a word or the name of a commit. */
export const worktreeAnswerBytesMax = 4_096

// ---- sampling and history (SP-RES)
export const sampleIntervalMillis = 10_000
/** A sample that claims to be later than the database's clock by more than this is refused. */
export const sampleFutureMillisMax = 60_000
export const minuteHistorySeconds = 24 * 3600
export const hourHistorySeconds = 30 * 24 * 3600
/** A probe that takes longer counts as failed; the old values stay and are marked stale. */
export const sampleProbeMillisMax = 5_000
export const samplesAtOnceMax = 8
/** Samples that are recorded in one statement. */
export const sampleBatchMax = 256
/** How long an offered sample waits for others at the most before its batch goes. */
export const sampleBatchMillis = 100
/** Batches on their way to the database at a time, each on a connection of its own. */
export const sampleBatchesAtOnceMax = 4
/** Offered samples that have no answer yet: one beyond is refused. */
export const sampleOffersMax = 4_096
/** How long a sample is offered again and again to a runtime whose row somebody else holds. */
export const sampleBusyMillisMax = 5_000
/** Running runtimes of a node that one tick samples, those first whose sample is oldest. */
export const sampleTargetsMax = 1_024
/** Buckets of one metric that one read answers: a day of minutes or a month of hours fits. */
export const historyPointsMax = 1_440
export const historyPruneRowsMax = 1_000
/** Rows that a prune pass looks at for each thousand it may take, so that locked ones do not stall it. */
export const historyPruneCandidatesMax = 2_000
/** Deleted Projects whose history one prune pass looks at. */
export const historyDeletionsAtOnceMax = 256
export const historyPruneIntervalMillis = 60_000
/** Passes that one tick makes at most before it rests, each a transaction of its own. */
export const historyPrunePassesMax = 100

// ---- operations: execution, claims and signals (SP-OPS)
/** Waits between tries while the database is away. */
export const storageRetryMillisMin = 100
export const storageRetryMillisMax = 5_000
/** Operations that one daemon carries out at a time. */
export const operationsAtOnceMax = 8
/** Progress events that a slow watcher may be behind before it loses the oldest. */
export const operationEventsBufferedMax = 1_024
/** Admissions, or ends of operations, that wait for each other and share one statement. */
export const sharedCallsMax = 256
/** Such statements under way at a time, of each kind. */
export const sharedCallsAtOnceMax = 2
/** Such callers from which on those who wait go in two statements, one behind the other. */
export const halvedCallsMin = 8
/** Every so many claims look at the whole queue, so that an operation put back is not passed over. */
export const claimsBetweenFullWalksMax = 64
/** Claimed operations that recovery reads at once. */
export const recoveryPageRowsMax = 100
/** Pages that one recovery pass reads; what is left waits for the next pass. */
export const recoveryPagesMax = 100
export const guestReadyPollMillis = 100
/** Executions get this long to end before a stop ends them. */
export const quiesceMillisMax = 5_000
export const quiescePollMillis = 50
/** Exit code of a command that a cancellation has ended: 128 and the number of SIGKILL. */
export const cancelledExitCode = 137

/** A node that was not seen for so long is said to be waited for; a daemon notes its node at each heartbeat. */
export const nodeUnseenSeconds = 30
/** Operations ahead of a waiting one that are counted; more are told as so many. */
export const operationsAheadCountedMax = 1_000
/** Receipts that one page of a Project's operations has. */
export const operationsListMax = 100

// ---- removal
/** Removed Projects whose receipts are kept, the newest. */
export const removedProjectsKeptMax = 10_000
/** A removal that waits for an operation looks at its row this often, whatever events it may have missed. */
export const removalPollMillis = 1_000

// ---- snapshots of workspaces (SP-OPS)
/** Snapshots of one Project, those that are being made or removed among them: one beyond is refused. */
export const projectSnapshotsMax = 16
/** A workspace whose files take more of the disk is not copied. */
export const snapshotBytesMax = 64 * 1024 ** 3
/** A copy that takes longer is given up, since a guest stands still for it. Source: SP figures (file operation 120 s). */
export const workspaceCopyMillisMax = 120_000
/** Making a copy durable, or measuring it: nobody stands still for that. */
export const workspaceSyncMillisMax = 10 * 60_000
/** Tries to let a paused guest go on before it is left to the next claim or sweep. */
export const guestResumeTriesMax = 5

// ---- desktops (SP-DESK)
/** Desktops that a daemon has, and requests for one that it works on, together: one beyond is refused. */
export const desktopsMax = 64
/** Viewers of one desktop at a time. */
export const desktopViewersMax = 8
/** How long a display may take until it answers, how often it is asked, and how long one answer may take. */
export const desktopReadyMillisMax = 30_000
export const desktopReadyPollMillis = 50
export const displayAnswerMillisMax = 2_000
/** A display that has run for so long is ended; whoever needs it further starts another one. */
export const desktopLifeMillisMax = 24 * 3_600_000
/** How often it is looked up whether a viewer may still see the desktop. */
export const desktopAccessMillis = 5_000

// ---- reconciliation
/** Runtimes, or unfinished snapshots, that one statement of the reconcile sweep reads. */
export const reconcilePageRows = 500
/** How long the first, second, third and every later automatic recovery waits. Source: SP figures. */
export const recoveryDelaysSeconds: ReadonlyArray<number> = [0, 30, 120, 600]
/** A machine that has run for so long without a break is healthy, and the count begins anew. Source: SP figures. */
export const recoveryHealthySeconds = 15 * 60

// ---- API
/** Requests that are under way when the daemon stops get this long. */
export const httpStopGraceMillis = 2_000
/** How often a watched operation's row is read again when no signal came; another process may carry it out. */
export const operationWatchMillis = 1_000
/** A sweep whose newest pass ended longer ago than this is told as silent. */
export const sweepSilentMillisMax = 5 * 60_000
/** How long one check of the daemon's health may take before it counts as failed. */
export const systemCheckMillisMax = 3_000
/** How long somebody at a socket may take to accept; a slower one counts as alive, and its socket is kept. */
export const socketAnswerMillisMax = 1_000
/** Fields that one refusal of a request names. */
export const refusedFieldsNamedMax = 8
/** Of the name of a refused field, which may be anything. */
export const refusedFieldCharactersMax = 400

// ---- CLI
/** How often a verb that waits opens a broken event stream again, and how long it pauses before. */
export const watchReconnectsMax = 10
export const watchReconnectMillis = 500
/** How often the progress of a deletion is looked up while its answer is awaited. */
export const deletionPollMillis = 300
/** How long `doctor` waits for the daemon's view. */
export const daemonAnswerMillisMax = 5_000

// ---- carrying guests (RG-RUN, RG-DEL)
/** Tasks of our own in a guest beside the ones it is promised: monitor, init, agent, and an execution's runner. */
export const guestOwnProcessesMax = 8
export const guestLaunchMillisMax = 10_000
export const guestPollMillis = 1
/** Ports of a guest that are led out at a time, connections at a time of each, and the time to open or to prove one. */
export const guestPortsMax = 16
export const guestPortConnectionsMax = 64
export const guestPortMillisMax = 5_000
/** Time for one order of the shell that starts programs: a fork, or one small program. */
export const launchShellMillisMax = 10_000
/** How often a wait for the end of a guest looks by itself when no event came. */
export const guestEndPollMillis = 250
export const guestFreezeMillisMax = 5_000
/** How long the word of a monitor about its guest's end may be on its way. */
export const guestReportMillisMax = 1_000
export const guestPingMillisMax = 5_000
/** A command's outputs are read this long after its end, for pipes that its background processes still hold. */
export const executionDrainMillis = 250
/** Time in which an execution has to announce itself before it counts as failed. */
export const executionStartMillisMax = 10_000
/** Output that waits for its reader before the guest's pipe is left full. */
export const executionBufferedBytesMax = 1024 ** 2
/** Channels of executions made ready at a time, and the stock below which more are made. */
export const executionChannelsMadeMax = 8
export const executionChannelsKeptMin = 4
/** Locks with pipes that are made ahead for the next launches. */
export const launchKitsKeptMin = 4
export const launchKitsMadeMax = 8
export const launchKitsDelayMillis = 250
/** Runners of a guest that wait for a command; each is one shell. Made again this long after one was taken, or at its end. */
export const executionRunnersKeptMin = 1
export const executionRunnersDelayMillis = 25
/** A line of an agent that is longer is no line of an agent. */
export const agentLineBytesMax = 4_096
export const cgroupRemovalTriesMax = 500
export const cgroupRemovalPauseMillis = 2
export const runStateFileBytesMax = 256 * 1024
/** Directory entries that a reclamation removes before it lets others run. */
export const reclaimEntriesAtOnceMax = 256
export const sampleDiskMillisMax = 2_000
export const supervisorProbeMillisMax = 5_000

// ---- host
/** Rows that the schema itself refuses to pass; at most the inserts of that very moment come through beyond. */
export const tenantsMax = 10_000
export const tenantAccountsMax = 10_000
export const tenantProjectsMax = 100_000
export const projectMembershipsMax = 1_000
export const pluginsMax = 64
/** Projects that one listing answers. */
export const projectListMax = 1_000
export const alertRowsMax = 1_000
export const auditRowsMax = 10_000
/** Pending deletions that are read at once. */
export const deletionsPageMax = 100
/** How often pending deletions of Projects are gone on with, and how long a pass stays with one. */
export const deletionRetryMillis = 60_000
export const deletionPassMillisMax = 60_000
/** A deletion that has stopped so often needs an operator, and is tried on this often from then on. Source: FC-09. */
export const deletionUnattendedTriesMax = 5
export const deletionOperatorRetrySeconds = 30 * 60
/** Completed deletion records kept, the newest. */
export const deletionRecordsMax = 10_000

// ---- node
/** Nodes that one installation ever had. */
export const nodesMax = 10_000
/** States of a sandbox that its record remembers with their times, the newest. */
export const statusMomentsKeptMax = 16
/** Digits, point and suffix of a quantity such as `1.5Gi`: what is longer is no quantity of a machine. */
export const quantityCharactersMax = 32
/** Sandboxes that one listing answers. */
export const sandboxListMax = 1_000
/** How long a stop may wait for the guest to end by itself. */
export const sandboxStopGraceMillisMax = 60_000

// ---- secrets
/** A credential of a launch in bytes: shorter ones could not be told from other output, longer ones are none. */
export const credentialBytesMin = 8
export const credentialBytesMax = 8_192
/** The file of launch credentials, in bytes. */
export const credentialFileBytesMax = 65_536
/** Random bytes of an endpoint token, written as 64 hex digits. */
export const endpointTokenBytes = 32

// ---- registry commits
/** Mutations that share one sync of the records directory. */
export const registryBatchMax = 64
/** Threads that write and flush, in one process, whatever the number of its registries. */
export const diskThreadsMax = 2
/** Bytes read of a lock file to name its holder. */
export const lockHolderBytesMax = 512

// ---- requests for a sandbox: what is absurd on any machine; what fits this one is a matter of its capacity
export const sandboxCpuMillisMax = 1_024_000
export const sandboxMemoryBytesMax = 16 * 1024 ** 4
/** Path of a disk on the host: what Linux takes, without the closing zero byte. */
export const diskPathBytesMax = 4_095

// ---- run leases on environments
export const tenantAgentsMax = 10_000
export const tenantTasksMax = 100_000
export const tenantRunsMax = 100_000
/** Oldest ended runs that make room at once when a tenant has as many runs as it may. */
export const endedRunsRemovedMax = 1_000
export const tenantExecutionWorkspacesMax = 10_000
/** Live runs of an agent that one stop goes for. */
export const agentRunsStoppedMax = 1_000
export const tenantSecretsMax = 1_000
export const secretVersionsMax = 1_000
export const tenantSecretBindingsMax = 10_000
/** A secret's value: at least what redaction can take out of an output without taking anything else. */
export const secretBytesMax = 65_536
export const secretRekeyPageMax = 100
/** A value shorter than this could not be taken out of a text without taking other things with it. */
export const secretBytesMin = 8
export const secretNameCharactersMax = 160
/** Tries of a rotation that others come before. */
export const secretRotationTriesMax = 5
/** Secrets that one config may name: each is read for every call. */
export const configSecretsMax = 32
/** Levels of a config and of what a provider returns; what lies deeper is not taken. */
export const configDepthMax = 64
/** Keys of the ring: the current one and former ones whose boxes are not all closed anew. */
export const secretKeysMax = 16
export const secretKeyFileBytesMax = 8_192
export const providerPluginsMax = 256
export const environmentsMax = 1_000
export const managedResourceBindingsMax = 1_000
/** Leases of one environment that are not over; the next acquisition is refused. */
export const environmentLeasesLiveMax = 1_000
export const environmentLeaseListMax = 1_000
/** Intents that one pass looks at. There are never more of them than acquisitions under way and lost ones. */
export const providerIntentsPageMax = 100
/** An environment has at most this many intents: each is an acquisition under way, or one that was lost. */
export const environmentIntentsMax = 1_000
/** How long a request waits for another daemon that carries it out already, and how often it looks. Source: FC-04. */
export const acquisitionElsewhereMillisMax = 5 * 60_000
export const acquisitionElsewherePollMillis = 200
/** Age from which an intent of a process that is gone is taken for lost. Source: BX-03. */
export const providerIntentGraceSeconds = 60
/** Between the two observations before a provider's orphan is destroyed. Source: BX-03. */
export const providerOrphanGraceMillis = 60_000
/** An active lease whose run ended longer ago is abandoned: until then the run releases it itself. Source: RL 6.4 item 3. */
export const abandonedLeaseGraceSeconds = 5 * 60
/** A lease that is over stays readable this long. Source: FC-15, FC-22. */
export const endedLeaseKeptSeconds = 30 * 24 * 3_600
export const endedLeasesPrunedMax = 1_000
/** Metadata of one lease, as text. */
export const leaseMetadataBytesMax = 262_144
/** How long an acquisition waits for a provider's worker, and how often it looks. Source: RL U1. */
export const providerWorkerReadyMillisDefault = 15_000
export const providerWorkerReadyPollMillisDefault = 250
/** How long a resume is tried again, and the pauses between tries; each is up to a quarter shorter or longer. Source: RL U1. */
export const resumeAttemptMillisDefault = 60_000
export const resumePauseFirstMillis = 250
export const resumePauseMillisMax = 5_000
/** Run parents that one runtime remembers, one a lease. */
export const traceParentsKeptMax = 10_000
/** Writes of an orphan's row before the spool is used. Source: RL U1. */
export const orphanWriteTriesMax = 3
export const orphanWritePauseMillisDefault = 100
/** Orphans that this process remembers beside the spool. Source: RL U1. */
export const orphanBufferMax = 256
/** Files in the orphan spool, and the size of one. Source: FC-19. */
export const orphanSpoolFilesMax = 10_000
export const orphanSpoolFileBytesMax = 524_288
/** Malformed files that are put aside; what is beyond stays where it is and is counted all the same. */
export const orphanSpoolQuarantineMax = 10_000
/** A backup of a native runner: its manifest, its files, and how deep they lie. */
export const harnessManifestBytesMax = 4 * 1024 ** 2
export const harnessBackupFilesMax = 10_000
export const harnessBackupBytesMax = 64 * 1024 ** 3
export const harnessBackupDepthMax = 32
/** Added to a provider's own time-out: what the call may take beyond it. Source: RL-BUDGET-01. */
export const providerCallMarginMillis = 30_000
/** The longest budget of one call: what a timer of the platform can wait. */
export const providerCallMillisMax = 2_147_483_647
/** Causes of an error that are followed down to a provider's own: a longer chain is somebody's circle. */
export const errorCausesReadMax = 8
/** A cleanup claim, its renewal, and how far ahead an end may lie to be believed. Source: RL U1. */
export const cleanupClaimMillis = 15 * 60_000
export const cleanupClaimRenewMillis = 30_000
export const cleanupClaimAheadMillisMax = 30 * 60_000
/** The cleanup sweep. Source: RL U1, FC-09. */
export const cleanupSweepPageMax = 20
/** Pages that are swept together, so that what their rows ask of the database is, and such batches at a time. */
export const cleanupSweepPagesTogetherMax = 5
export const cleanupSweepBatchesAtOnceMax = 2
/** Statements of one kind for intents, acquisitions or releases under way at a time: what comes meanwhile shares the next. */
export const groupedStatementsAtOnceMax = 4
/** Intents, acquisitions or releases that one statement carries out. */
export const groupedLeasesMax = 64
/** Claims, settlements or looks of cleanups that one statement carries out. */
export const groupedCleanupsMax = 100
/** Pages of one sweep: what is left is due in the next one. */
export const cleanupSweepPagesMax = 500
/** Abandoned leases that one sweep is at at a time, and leases that one run's release is at. */
export const abandonedAtOnceMax = 8
export const releasesAtOnceMax = 8
export const cleanupBackoffMillisDefault = 5 * 60_000
export const cleanupUnattendedTriesMax = 5
export const cleanupOperatorRetryMillis = 30 * 60_000
/** How long the pipes of a local command that has ended are read on, where something still holds them. */
export const localPipesMillisMax = 1_000
export const sshPortDefault = 22
/** How long a connection to a host may take to come about, and how often it is asked whether it is still there. */
export const sshConnectSeconds = 10
/** How long a host may take to end a lease's processes. */
export const sshEndMillisMax = 15_000
/** A workspace as it is packed for another place. */
export const workspaceArchiveBytesMax = 256 * 1024 ** 2

/** Runs that daemons began and did not see the end of: one pass looks at so many. */
export const daemonRunsPageMax = 1_000
/** What a new environment may be described with, and its config as the API takes it. */
export const environmentDescriptionCharactersMax = 1_000
export const environmentConfigBytesMax = 65_536
/** Resources that nobody owns, as one pass of the search at providers remembers them. Source: FC-03. */
export const providerStraysKeptMax = 10_000

// ---- workers of provider plugins
/** One message of a worker's or to one, as a line. A longer one ends the worker that sent it. */
export const providerMessageBytesMax = 4_194_304
/** Requests that one worker has not answered; the next is refused. */
export const providerCallsInFlightMax = 256
/** Bytes that wait to be read by one worker; beyond them a request is refused. */
export const providerOutboxBytesMax = 16_777_216
/** What a worker may say of its command's output in one call; the rest is dropped. */
export const providerLogBytesMax = 16_777_216
export const providerHandshakeMillisMax = 10_000
/** How often a worker is asked whether it lives, and how long it may take to answer: then it hangs, and is killed. */
export const providerPingMillis = 5_000
export const providerPingAnswerMillisMax = 10_000
/** From the word to end until the signal, and from that one until the next. */
export const providerShutdownMillisMax = 2_000
export const providerRestartFirstMillis = 250
export const providerRestartMillisMax = 30_000
/** A worker that lived so long begins its back-off anew when it dies. */
export const providerSteadyMillis = 30_000
/** Budget of a call that names none. */
export const providerCallMillisDefault = 5 * 60_000
/** Methods that a worker may say it has. */
export const providerMethodsMax = 64
export const providerManifestBytesMax = 1_048_576
/** One call of a conformance check. */
export const providerCheckMillisMax = 60_000
/** The provider `fake`: sandboxes in memory, and calls that it remembers. */
export const fakeSandboxesMax = 10_000
export const fakeCallsKeptMax = 10_000
