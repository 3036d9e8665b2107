/**
 * The record of where a workspace and what it refers to ended up, built by the host from its own request: a provider only
 * answers with a folder. Source: RL-WORKSPACE-01 to -03.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { EnvironmentId, ExecutionWorkspaceId, RunId, TaskId, TenantId } from "../Identity.ts"
import type { JsonObject } from "../Json.ts"

const text = Schema.NullOr(Schema.String)

const WorkspaceSource = Schema.Struct({
  kind: Schema.String,
  localPath: Schema.String,
  projectId: Schema.optionalKey(text),
  projectWorkspaceId: Schema.optionalKey(text),
  repoUrl: Schema.optionalKey(text),
  repoRef: Schema.optionalKey(text),
  strategy: Schema.optionalKey(text),
  branchName: Schema.optionalKey(text),
  worktreePath: Schema.optionalKey(text)
})

const AdditionalSource = Schema.Struct({
  localPath: Schema.String,
  projectId: Schema.optionalKey(text),
  projectWorkspaceId: Schema.optionalKey(text),
  repoUrl: Schema.optionalKey(text),
  repoRef: Schema.optionalKey(text)
})

const RealizationRequest = Schema.Struct({
  version: Schema.Literal(1),
  adapterType: text,
  tenantId: TenantId,
  environmentId: EnvironmentId,
  executionWorkspaceId: Schema.NullOr(ExecutionWorkspaceId),
  taskId: Schema.NullOr(TaskId),
  runId: RunId,
  requestedMode: Schema.String,
  source: WorkspaceSource,
  additionalSources: Schema.Array(AdditionalSource)
})

const decodeRequest = Schema.decodeUnknownOption(RealizationRequest)

const withPath = <Source extends { readonly localPath: string }>({ localPath, ...rest }: Source) => ({
  ...rest,
  path: localPath
})

/** The record for a workspace that was realized at `cwd`; none without a request that can be read. */
const recordOf = (metadata: JsonObject | undefined, cwd: string): Option.Option<JsonObject> =>
  decodeRequest(metadata?.["workspaceRealizationRequest"]).pipe(
    Option.map(({ additionalSources, source, ...rest }) => ({
      ...rest,
      cwd,
      source: withPath(source),
      additional: additionalSources.map(withPath)
    }))
  )

/** A provider's answer with the record in its metadata; without a request it stays exactly as it is. */
export const withWorkspaceRealization = <
  Realized extends { readonly cwd: string; readonly metadata: JsonObject }
>(
  realized: Realized,
  requestMetadata: JsonObject | undefined
): Realized =>
  Option.match(recordOf(requestMetadata, realized.cwd), {
    onNone: () => realized,
    onSome: (workspaceRealization) => ({
      ...realized,
      metadata: { ...realized.metadata, workspaceRealization }
    })
  })
