/**
 * Figures that a rule fixes, written out. Tests of behaviour go by a bound's name, and so go with it when it changes; here it
 * is held to what its rule says.
 */
import { assert, describe, it } from "vitest"
import {
  argvItemBytesMax,
  argvItemsMax,
  cleanupBackoffMillisDefault,
  cleanupClaimAheadMillisMax,
  cleanupClaimMillis,
  cleanupClaimRenewMillis,
  cleanupOperatorRetryMillis,
  cleanupSweepPageMax,
  cleanupUnattendedTriesMax,
  deletionsAtOnceMax,
  endpointTokenBytes,
  environmentKeyBytesMax,
  environmentPairsMax,
  environmentValueBytesMax,
  imageBytesMax,
  maintenanceIntervalMillis,
  nodeCpuMillisDefault,
  nodeMemoryBytesDefault,
  nodeSandboxesDefault,
  orphanBufferMax,
  orphanWritePauseMillisDefault,
  orphanWriteTriesMax,
  providerCallMarginMillis,
  providerWorkerReadyMillisDefault,
  providerWorkerReadyPollMillisDefault,
  registrySnapshotBytesMax,
  requestBodyBytesMax,
  resumeAttemptMillisDefault,
  resumePauseFirstMillis,
  resumePauseMillisMax,
  sandboxLifeSecondsDefault,
  sandboxLifeSecondsMax,
  sandboxLifeSecondsMin,
  socketPathBytesMax
} from "../../src/domain/Bounds.ts"

describe("domain/Bounds", () => {
  it("RG-BUD-01 RG-BUD-04 RG-DEL-09 the figures of the node's registry", () => {
    assert.deepStrictEqual(
      {
        registrySnapshotBytesMax,
        nodeSandboxesDefault,
        nodeCpuMillisDefault,
        nodeMemoryBytesDefault,
        sandboxLifeSecondsMin,
        sandboxLifeSecondsDefault,
        sandboxLifeSecondsMax,
        imageBytesMax,
        argvItemsMax,
        argvItemBytesMax,
        environmentPairsMax,
        environmentKeyBytesMax,
        environmentValueBytesMax,
        requestBodyBytesMax,
        socketPathBytesMax,
        maintenanceIntervalMillis,
        deletionsAtOnceMax,
        endpointTokenBytes
      },
      {
        registrySnapshotBytesMax: 16_777_216,
        nodeSandboxesDefault: 32,
        nodeCpuMillisDefault: 4_000,
        nodeMemoryBytesDefault: 8_589_934_592,
        sandboxLifeSecondsMin: 60,
        sandboxLifeSecondsDefault: 86_400,
        sandboxLifeSecondsMax: 31_536_000,
        imageBytesMax: 2_048,
        argvItemsMax: 256,
        argvItemBytesMax: 65_536,
        environmentPairsMax: 256,
        environmentKeyBytesMax: 256,
        environmentValueBytesMax: 65_536,
        requestBodyBytesMax: 1_048_576,
        socketPathBytesMax: 104,
        maintenanceIntervalMillis: 1_000,
        deletionsAtOnceMax: 8,
        endpointTokenBytes: 32
      }
    )
  })

  it("RL-BUDGET-01 RL-FENCE-02 RL-SWEEP-05 U1 the figures of run leases", () => {
    assert.deepStrictEqual(
      {
        providerWorkerReadyMillisDefault,
        providerWorkerReadyPollMillisDefault,
        orphanWriteTriesMax,
        orphanWritePauseMillisDefault,
        orphanBufferMax,
        resumeAttemptMillisDefault,
        resumePauseFirstMillis,
        resumePauseMillisMax,
        cleanupClaimMillis,
        cleanupClaimRenewMillis,
        cleanupClaimAheadMillisMax,
        cleanupSweepPageMax,
        cleanupBackoffMillisDefault,
        cleanupUnattendedTriesMax,
        cleanupOperatorRetryMillis,
        providerCallMarginMillis
      },
      {
        providerWorkerReadyMillisDefault: 15_000,
        providerWorkerReadyPollMillisDefault: 250,
        orphanWriteTriesMax: 3,
        orphanWritePauseMillisDefault: 100,
        orphanBufferMax: 256,
        resumeAttemptMillisDefault: 60_000,
        resumePauseFirstMillis: 250,
        resumePauseMillisMax: 5_000,
        cleanupClaimMillis: 900_000,
        cleanupClaimRenewMillis: 30_000,
        cleanupClaimAheadMillisMax: 1_800_000,
        cleanupSweepPageMax: 20,
        cleanupBackoffMillisDefault: 300_000,
        cleanupUnattendedTriesMax: 5,
        cleanupOperatorRetryMillis: 1_800_000,
        providerCallMarginMillis: 30_000
      }
    )
  })
})
