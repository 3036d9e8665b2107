/**
 * Conformance of a supervisor that carries real guests: the rules that any adapter of GuestSupervisor has to keep on a
 * real kernel. Run by test/infra/guests for each of ours; an adapter of somebody else can be given to it too.
 */
import { layer } from "@effect/vitest"
import * as Files from "node:fs"
import { afterAll } from "vitest"
import type { SupervisorKind } from "../../src/domain/guests/GuestSpec.ts"
import { daemonLayer, makeStateDirectory } from "./guestHarness.ts"
import { absenceCases } from "./supervisorAbsence.ts"
import { commandCases } from "./supervisorCommands.ts"
import { lifeCases } from "./supervisorLife.ts"
import { portCases } from "./supervisorPorts.ts"
import { secretCases } from "./supervisorSecrets.ts"
import { wallCases } from "./supervisorWalls.ts"

/** Declares every case against one daemon with a state directory of its own. */
export const supervisorSuite = (kind: SupervisorKind, guestsAtOnce: number): void => {
  const stateDirectory = makeStateDirectory()
  afterAll(() => Files.rmSync(stateDirectory, { recursive: true, force: true }))

  layer(daemonLayer(stateDirectory, kind), { excludeTestServices: true })("one daemon", (it) => {
    commandCases(it)
    secretCases(it, stateDirectory)
    wallCases(it, stateDirectory)
    lifeCases(it, stateDirectory)
    absenceCases(it, stateDirectory, guestsAtOnce)
    portCases(it, stateDirectory)
  })
}
