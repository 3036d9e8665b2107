/**
 * What a provider says about a creation that failed half-way: which resource may exist, under which placeholder, for
 * whom. It is believed by its content, never by the class of the error that carried it. Source: RL-CREATE-01 to -06.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { EnvironmentId, type RunId, RunId as RunIdSchema, TenantId } from "../Identity.ts"
import { canonicalText, isJsonObject, type JsonObject } from "../Json.ts"
import type { EnvironmentLease } from "./EnvironmentLease.ts"

export const creationCleanupSchema = "holdfast/environment-creation-cleanup/v1"

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

const CreationEvidence = Schema.Struct({
  providerLeaseId: Schema.String.check(Schema.isPattern(new RegExp(`^holdfast-create-${uuid}$`))),
  attemptId: Schema.String.check(Schema.isPattern(new RegExp(`^${uuid}$`))),
  tenantId: TenantId,
  environmentId: EnvironmentId,
  runId: RunIdSchema,
  accountFingerprint: Schema.String.check(Schema.isPattern(/^[a-f0-9]{64}$/)),
  labels: Schema.Record(Schema.String, Schema.String).check(
    Schema.makeFilter((labels) => (labels["holdfast-provider"] ?? "") !== "")
  ),
  observedProviderLeaseId: Schema.optionalKey(Schema.NonEmptyString)
})
export type CreationEvidence = typeof CreationEvidence.Type

const CreationCleanup = Schema.Struct({
  schema: Schema.Literal(creationCleanupSchema),
  cleanup: CreationEvidence
})

const decodeCleanup = Schema.decodeUnknownOption(CreationCleanup)
const decodeEvidence = Schema.decodeUnknownOption(CreationEvidence)

/** What an error carries as `data`, whatever its class is. */
export const dataOf = (error: unknown): unknown =>
  typeof error === "object" && error !== null && "data" in error ? error.data : undefined

/** The evidence in an error, if it is about exactly this acquisition; foreign or malformed evidence is none. */
export const creationEvidenceIn = (
  error: unknown,
  scope: { readonly tenant: TenantId; readonly environment: EnvironmentId; readonly run: RunId }
): Option.Option<CreationEvidence> =>
  decodeCleanup(dataOf(error)).pipe(
    Option.map(({ cleanup }) => cleanup),
    Option.filter(
      ({ environmentId, runId, tenantId }) =>
        tenantId === scope.tenant && environmentId === scope.environment && runId === scope.run
    )
  )

/**
 * The evidence that a provider has observed, if its error answers a destroy with exactly the stored evidence and nothing
 * but the observed id added; so stored evidence that was observed once is not observed again. Source: RL-CREATE-10.
 */
export const observationIn = (error: unknown, stored: CreationEvidence): Option.Option<CreationEvidence> =>
  decodeCleanup(dataOf(error)).pipe(
    Option.map(({ cleanup }) => cleanup),
    Option.filter(
      ({ observedProviderLeaseId, ...rest }) =>
        observedProviderLeaseId !== undefined && canonicalText(rest) === canonicalText(stored)
    )
  )

export type EvidenceReading =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Unusable" }
  | { readonly _tag: "Usable"; readonly evidence: CreationEvidence }

/**
 * Reads the evidence that a lease has stored. It has to be about this lease; a reference of the row that a deletion has
 * taken away is not held against it. Source: RL-CREATE-08.
 */
export const readCreationEvidence = (lease: EnvironmentLease): EvidenceReading => {
  if (!Object.hasOwn(lease.metadata, "failedCreateCleanup")) return { _tag: "Absent" }
  const evidence = Option.getOrUndefined(decodeEvidence(lease.metadata["failedCreateCleanup"]))
  const isOurs =
    evidence !== undefined &&
    evidence.providerLeaseId === lease.providerLeaseId &&
    evidence.tenantId === lease.tenant &&
    (lease.environment === null || evidence.environmentId === lease.environment) &&
    (lease.run === null || evidence.runId === lease.run)
  return isOurs ? { _tag: "Usable", evidence } : { _tag: "Unusable" }
}

/** The metadata that keeps the evidence. */
export const storedEvidence = (evidence: CreationEvidence): JsonObject => ({ failedCreateCleanup: evidence })

/** What the provider says of how far it came, unread. */
export const acquisitionDiagnosticIn = (error: unknown): unknown => {
  const data = dataOf(error)
  return isJsonObject(data) ? data["acquisitionDiagnostic"] : undefined
}
