/**
 * Which HTTP status a refusal or failure of the domain becomes, and which of its fields may be shown: ONE table, by
 * `code`. A code that is not in the table is our mistake and becomes a 500 that tells nothing. Pure.
 */
import { type ApiError, apiErrorOf, Detail, type ErrorStatus, Internal, isApiError } from "./ApiErrors.ts"
import * as Schema from "effect/Schema"

/** `details` are the fields of the refusal that its answer repeats: ids and figures only. */
interface Row {
  readonly status: ErrorStatus
  readonly details: ReadonlyArray<string>
}

const row = (status: ErrorStatus, ...details: ReadonlyArray<string>): Row => ({ status, details })

/** Every code that a domain program can answer with. A test compares it with the codes that the domain declares. */
export const refusalTable: Readonly<Record<string, Row>> = {
  // host
  access_refused: row(403, "project"),
  project_not_active: row(409, "project"),
  project_not_found: row(404, "project"),
  project_name_refused: row(422),
  project_name_taken: row(409, "name"),
  projects_full: row(409, "projectsMax"),
  nodes_full: row(503),
  plugin_load_failed: row(503),
  // operations
  claim_lost: row(500),
  generation_conflict: row(409, "project", "expected", "actual"),
  invalid_request: row(400, "field"),
  invalid_parameters: row(422, "field"),
  operation_in_progress: row(409, "project", "operation", "action", "state"),
  operation_not_found: row(404, "operation"),
  operation_not_queued: row(409, "operation", "action", "state"),
  project_deletion_required: row(409, "project"),
  request_key_conflict: row(409, "project", "requestKey", "operation"),
  sandbox_of_another_node: row(409, "project"),
  snapshot_exists: row(409, "project"),
  snapshot_not_found: row(404, "project"),
  snapshots_full: row(409, "project"),
  pause_unavailable: row(422, "project"),
  no_safe_copy: row(409, "project"),
  supervisor_unavailable: row(422, "project"),
  workspace_not_writable: row(503, "project"),
  runtime_already_provisioned: row(409, "project"),
  runtime_not_provisioned: row(409, "project", "action"),
  // removal
  confirmation_stale: row(409, "project", "unconfirmed", "unknown"),
  deletion_blocked: row(409, "project"),
  deletion_failed: row(503, "project", "participant", "reason"),
  deletion_owner_unavailable: row(503, "project", "participant", "reason"),
  confirmation_needed: row(409, "project", "paths"),
  metadata_busy: row(409, "project"),
  metadata_unreadable: row(409, "project"),
  removal_blocked: row(409, "project", "operation"),
  removal_not_admitted: row(409, "project", "missing"),
  // leases, guests, samples
  absence_not_proved: row(409, "sandbox"),
  guest_failure: row(503, "sandbox", "step"),
  guest_spec_refused: row(422, "sandbox", "field"),
  history_range_refused: row(422, "resolution", "fromMillis", "toMillis"),
  invalid_guest_state: row(409, "sandbox", "state"),
  lease_lost: row(409, "lease", "reason"),
  lease_not_found: row(404, "lease"),
  leases_full: row(409, "project", "leasesMax"),
  credentials_unavailable: row(503, "project"),
  not_supported: row(422, "call"),
  repositories_full: row(409, "project", "repositoriesMax"),
  repository_busy: row(409, "project", "repository", "sinceMillis"),
  runtime_not_running: row(409, "project", "state"),
  sample_refused: row(500),
  sample_stale: row(500),
  sample_busy: row(500),
  sample_offers_full: row(500),
  unknown_supervisor: row(422),
  // desktops
  desktop_failed: row(503, "project"),
  desktop_not_ready: row(409, "project", "state"),
  desktop_unavailable: row(422, "project"),
  desktops_disposed: row(503, "project"),
  desktops_full: row(409, "project", "of", "max"),
  display_lost: row(503),
  // worktrees
  branch_exists: row(409, "project", "worktree"),
  branch_in_use: row(409, "project", "worktree"),
  git_unavailable: row(422, "project", "worktree"),
  repository_not_found: row(404, "project", "worktree"),
  start_point_not_found: row(422, "project", "worktree"),
  worktree_dirty: row(409, "project", "worktree"),
  worktree_exists: row(409, "project", "worktree"),
  worktree_failed: row(422, "project", "worktree"),
  worktree_locked: row(409, "project", "worktree"),
  worktree_not_found: row(404, "project", "worktree"),
  worktree_path_taken: row(409, "project", "worktree"),
  worktrees_full: row(409, "project", "worktree"),
  // registry
  capacity_exceeded: row(409),
  disk_failure: row(503),
  endpoint_unavailable: row(503, "sandbox"),
  idempotency_conflict: row(409, "key", "sandbox"),
  invalid_sandbox_state: row(409, "sandbox", "status"),
  registry_full: row(409),
  registry_write_failed: row(503),
  run_state_failure: row(503, "sandbox"),
  sandbox_create_failed: row(503, "sandbox"),
  sandbox_expired: row(409, "sandbox", "expiredAtMillis"),
  sandbox_id_taken: row(409, "sandbox"),
  sandbox_not_found: row(404, "sandbox"),
  state_directory_held: row(503),
  state_directory_refused: row(503),
  storage_unavailable: row(503),
  // environments and run leases
  administrator_needed: row(403),
  driver_operation_missing: row(422, "driver", "operation"),
  environment_absent: row(404, "environment"),
  environment_disabled: row(409, "environment"),
  environment_driver_unregistered: row(422, "driver"),
  environment_exists: row(409, "what"),
  environment_in_use: row(409, "environment", "destroyed", "failed", "skippedLiveRun"),
  environment_lease_gone: row(409, "lease"),
  environment_lease_not_active: row(409, "lease", "status"),
  environment_lease_not_found: row(404, "lease"),
  environment_lease_not_owed: row(409, "lease", "status"),
  environment_leases_full: row(409),
  environment_not_found: row(404, "environment"),
  environment_tenant_mismatch: row(403),
  environments_full: row(409),
  local_command_refused: row(422, "why"),
  local_processes_remain: row(503, "lease", "processes"),
  node_config_refused: row(422, "field"),
  orphan_spool_unreadable: row(503, "why"),
  remote_host_refused: row(503, "why"),
  remote_outcome_unknown: row(503),
  remote_processes_remain: row(503, "processes"),
  remote_workspace_not_realized: row(503),
  request_key_under_way: row(409, "requestKey"),
  resource_elsewhere: row(409),
  reusable_lease_scope_mismatch: row(409),
  runner_harness_backup_unavailable: row(409, "lease"),
  sandbox_creation_cleaned: row(503),
  sandbox_lease_preserved: row(503, "lease", "why"),
  sandbox_orphan_cleanup_write_failed: row(503),
  ssh_config_refused: row(422),
  teardown_unconfirmed: row(503, "lease", "why"),
  work_reference_refused: row(422, "what"),
  work_table_full: row(409, "table"),
  workspace_not_realized: row(503, "exitCode"),
  workspace_unpackable: row(422, "why"),
  // providers and secrets
  plugin_folder_refused: row(422, "why"),
  provider_failed: row(503, "why"),
  provider_in_use: row(409, "provider", "leases"),
  provider_not_found: row(404, "provider"),
  provider_worker_offline: row(503, "provider"),
  provider_workers_unwired: row(503, "provider"),
  sandbox_provider_unknown: row(422, "provider"),
  secret_absent: row(409, "secret", "why"),
  secret_contended: row(409, "secret"),
  secret_exists: row(409, "name"),
  secret_not_found: row(404, "reference"),
  secret_ref_invalid: row(422),
  secret_refused: row(422, "what"),
  secret_unreadable: row(503, "secret", "key"),
  secrets_full: row(409, "table"),
  // database
  commit_unknown: row(503),
  storage_failure: row(503),
  transaction_ended: row(500)
}

/** The answer to anything that the daemon did not foresee. It tells nothing of what happened. */
export const internalError = (): Internal =>
  new Internal({
    code: "internal",
    message: "the daemon failed at this request: its log tells why",
    details: {}
  })

/** Status of a code; 500 for one that is not in the table. */
export const statusOf = (code: string): ErrorStatus =>
  Object.hasOwn(refusalTable, code) ? refusalTable[code]!.status : 500

const isDetail = Schema.is(Detail)

/** What every refusal and failure of the domain carries. */
export interface Refusal {
  readonly code: string
  readonly message: string
}

/** The fields of a refusal that the table lets through. */
export const detailsOf = (refusal: Refusal): Readonly<Record<string, Detail>> => {
  const details: Record<string, Detail> = {}
  for (const name of refusalTable[refusal.code]?.details ?? []) {
    const value: unknown = Reflect.get(refusal, name)
    if (isDetail(value)) details[name] = value
  }
  return details
}

/** The error body of a refusal: its own sentence and the fields that the table names; an unknown code tells nothing. */
export const answerOf = (refusal: Refusal | ApiError): ApiError => {
  if (isApiError(refusal)) return refusal
  const status = statusOf(refusal.code)
  if (status === 500) return internalError()
  const { code, message } = refusal
  return apiErrorOf(status, { code, message, details: detailsOf(refusal) })
}
