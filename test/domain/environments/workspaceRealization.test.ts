import { assert, describe, it } from "vitest"
import { withWorkspaceRealization } from "../../../src/domain/environments/workspaceRealization.ts"
import { environment, run, tenant, workspace } from "./leaseBuilders.ts"

const request = {
  version: 1,
  adapterType: "local_agent",
  tenantId: tenant,
  environmentId: environment,
  executionWorkspaceId: workspace,
  taskId: null,
  runId: run,
  requestedMode: "ephemeral",
  source: {
    kind: "project_primary",
    localPath: "/tmp/project",
    projectId: "project-1",
    projectWorkspaceId: null,
    repoUrl: null,
    repoRef: null,
    strategy: "project_primary",
    branchName: null,
    worktreePath: null
  },
  additionalSources: [
    {
      localPath: "/tmp/referenced-project",
      projectId: "referenced-project-1",
      projectWorkspaceId: null,
      repoUrl: null,
      repoRef: null
    }
  ]
}
const realized = {
  cwd: "/workspace/project",
  metadata: { provider: "fake-plugin", remoteCwd: "/workspace/project" }
}

describe("environments/workspaceRealization", () => {
  it("RL-WORKSPACE-01 RL-WORKSPACE-02 the host adds the record and leaves the answer", () => {
    const result = withWorkspaceRealization(realized, { workspaceRealizationRequest: request })
    assert.strictEqual(result.cwd, realized.cwd)
    assert.deepInclude(result.metadata, realized.metadata)
    const { additionalSources, source, ...rest } = request
    const { localPath, ...described } = source
    assert.deepStrictEqual(Object.entries(result.metadata).slice(-1), [
      [
        "workspaceRealization",
        {
          ...rest,
          cwd: "/workspace/project",
          source: { ...described, path: localPath },
          additional: additionalSources.map(({ localPath: path, ...each }) => ({ ...each, path }))
        }
      ]
    ])
  })

  it.each([undefined, {}, { workspaceRealizationRequest: { ...request, version: 2 } }])(
    "RL-WORKSPACE-03 no request that can be read, no record: %j",
    (metadata) => {
      assert.strictEqual(withWorkspaceRealization(realized, metadata), realized)
    }
  )
})
