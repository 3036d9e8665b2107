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
export const sandboxLifeSecondsDefaultMax = 24 * 3600
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
export const repositoryLeaseSeconds = 30
export const heartbeatIntervalMillis = 5_000

// ---- operations (SP-OPS, SP figures)
export const receiptsKeptMin = 20
export const receiptsTrimmedMax = 128
export const runtimeLogRowsMax = 200
export const reconcileIntervalMillis = 10_000
export const progressIntervalMillis = 250
export const progressLogLinesMax = 40
export const logLineCharactersMax = 2_000
export const errorTextCharactersMax = 2_000

// ---- sampling (SP-RES)
export const sampleIntervalMillis = 10_000
/** A sample that claims to be later than the database's clock by more than this is refused. */
export const sampleFutureMillisMax = 60_000
export const minuteHistorySeconds = 24 * 3600
export const hourHistorySeconds = 30 * 24 * 3600

// ---- database
export const databasePoolConnectionsDefault = 10
export const databaseStartMillisMax = 30_000
export const databaseVersionMin = 15
export const transactionStatementsPipelinedMax = 64
