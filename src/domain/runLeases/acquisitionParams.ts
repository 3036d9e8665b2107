/** What every provider plugin is told when it is asked for a resource, whichever driver asks. Source: RL section 3.4. */
import * as DateTime from "effect/DateTime"
import type { JsonObject } from "../Json.ts"
import type { Acquisition } from "./EnvironmentDriver.ts"

/** What the run does not have is absent; a task that it does not have is null. Source: RL-DRIVER-02, RL-EXPIRY-02. */
export const acquisitionParams = (asked: Acquisition, driverKey: string, config: JsonObject): JsonObject => {
  const { adapterType, agent, environment, executionWorkspace, requestedExpiresAtMillis, run, task } = asked
  return {
    driverKey,
    tenantId: asked.tenant,
    environmentId: environment.id,
    executionWorkspaceSettings: null,
    taskId: task,
    config,
    runId: run,
    ...(executionWorkspace === null
      ? {}
      : { executionWorkspaceId: executionWorkspace.id, workspaceMode: executionWorkspace.mode }),
    ...(agent === undefined ? {} : { agentId: agent }),
    ...(adapterType === undefined ? {} : { adapterType }),
    ...(requestedExpiresAtMillis === undefined
      ? {}
      : { requestedExpiresAt: DateTime.formatIso(DateTime.makeUnsafe(requestedExpiresAtMillis)) })
  }
}
