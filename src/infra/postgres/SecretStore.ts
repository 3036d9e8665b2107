/** Adapter of sealed secrets, their versions and bindings, in schema `core`. It never sees a value in the clear. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { secretRekeyPageMax, tenantSecretsMax } from "../../domain/Bounds.ts"
import type { SecretId } from "../../domain/Identity.ts"
import { PluginDb, type SqlRow, type StorageFailure } from "../../domain/persistence/PluginDb.ts"
import { type SealedSecret, Secret } from "../../domain/secrets/Secret.ts"
import {
  type SealedVersion,
  SecretAbsent,
  SecretExists,
  SecretsFull,
  SecretStore
} from "../../domain/secrets/SecretStore.ts"
import { type Run, runner } from "./leaseRows.ts"
import { firstOf } from "./rows.ts"
import { tableFullState } from "./storageFailure.ts"

type Service = SecretStore["Service"]

const secretOf = (row: SqlRow): Secret =>
  new Secret({
    id: row["id"] as Secret["id"],
    tenant: row["tenant_id"] as Secret["tenant"],
    name: row["name"] as string,
    provider: "local_encrypted",
    version: Number(row["version"]),
    createdAtMillis: (row["created_at"] as Date).getTime(),
    rotatedAtMillis: (row["rotated_at"] as Date).getTime()
  })

/** Bytes go to the database and come from it as base64, whatever the driver makes of bytea. */
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64")
const bytes = (text: unknown): Uint8Array => new Uint8Array(Buffer.from(String(text), "base64"))

const versionOf = (row: SqlRow): SealedVersion => ({
  secret: row["secret_id"] as SecretId,
  version: Number(row["version"]),
  sealed: { key: row["key"] as string, nonce: bytes(row["nonce"]), box: bytes(row["box"]) }
})

const sealedParameters = ({ box, key, nonce }: SealedSecret) => [key, base64(nonce), base64(box)]

const versionColumns = `v.secret_id, v.version, v.key, encode(v.nonce, 'base64') as nonce, encode(v.box, 'base64') as box`

const insertVersion = (
  from: string
): string => `insert into core.secret_versions (secret_id, version, key, nonce, box)
    select id, version, $4::text, decode($5::text, 'base64'), decode($6::text, 'base64') from ${from}`

const createText = `with secret as (
    insert into core.secrets (id, tenant_id, name) values ($1::uuid, $2::uuid, $3::text) returning *),
  first as (${insertVersion("secret")})
  select * from secret`

/** Only after the version that is the newest now: two rotations of one moment give one version, and one of them none. */
const addVersionText = `with secret as (
    update core.secrets set version = $3::int, rotated_at = now()
      where id = $2::uuid and tenant_id = $1::uuid and version = $3::int - 1 returning *),
  next as (${insertVersion("secret")})
  select * from secret`

const versionText = `select ${versionColumns} from core.secrets s
  join core.secret_versions v on v.secret_id = s.id and v.version = coalesce($3::int, s.version)
  where s.id = $2::uuid and s.tenant_id = $1::uuid`

const bindText = `insert into core.secret_bindings (tenant_id, target_id, config_path, secret_id)
  select s.tenant_id, e.id, $4::text, s.id from core.secrets s, environments e
    where s.id = $2::uuid and s.tenant_id = $1::uuid and e.id = $3::uuid for key share
  on conflict (tenant_id, target_type, target_id, config_path) do update set secret_id = excluded.secret_id
  returning secret_id`

const boundText = `select secret_id from core.secret_bindings
  where tenant_id = $1::uuid and target_type = 'environment' and target_id = $2::uuid and config_path = $3::text`

const otherKeysText = `select ${versionColumns} from core.secret_versions v where v.key <> $1::text
    and ($2::uuid is null or (v.secret_id, v.version) > ($2::uuid, $3::int))
  order by v.secret_id, v.version limit ${secretRekeyPageMax}`

const resealText = `update core.secret_versions
  set key = $4::text, nonce = decode($5::text, 'base64'), box = decode($6::text, 'base64')
  where secret_id = $1::uuid and version = $2::int and key = $3::text and box = decode($7::text, 'base64')
  returning secret_id`

const fullOr =
  (table: SecretsFull["table"]) =>
  (failure: StorageFailure): StorageFailure | SecretsFull =>
    failure.state === tableFullState || failure.constraint === "secrets_version_bounded"
      ? new SecretsFull({ table })
      : failure

const writes = (run: Run): Pick<Service, "addVersion" | "bind" | "create" | "reseal"> => ({
  create: ({ id, name, sealed, tenant }) =>
    run("create", createText, [id, tenant, name, ...sealedParameters(sealed)]).pipe(
      Effect.mapError((failure) =>
        failure.fault === "unique" ? new SecretExists({ name }) : fullOr("secrets")(failure)
      ),
      Effect.map(([row]) => secretOf(row ?? {}))
    ),
  addVersion: (tenant, { sealed, secret, version }) =>
    run("addVersion", addVersionText, [tenant, secret, version, ...sealedParameters(sealed)]).pipe(
      Effect.mapError(fullOr("secret_versions")),
      Effect.map((rows) => firstOf(rows, secretOf))
    ),
  bind: ({ configPath, environment, secret, tenant }) =>
    run("bind", bindText, [tenant, secret, environment, configPath]).pipe(
      Effect.mapError(fullOr("secret_bindings")),
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new SecretAbsent({ secret, why: "unknown" })) : Effect.void
      )
    ),
  reseal: ({ sealed: former, secret, version }, sealed) =>
    Effect.map(
      run("reseal", resealText, [
        secret,
        version,
        former.key,
        ...sealedParameters(sealed),
        base64(former.box)
      ]),
      (rows) => rows.length > 0
    )
})

/** Sealed secrets on schema `core`. */
export const layer: Layer.Layer<SecretStore, never, PluginDb> = Layer.effect(
  SecretStore,
  Effect.gen(function* () {
    const run = runner(yield* PluginDb, "SecretStore")
    return SecretStore.of({
      ...writes(run),
      byId: (tenant, secret) =>
        Effect.map(
          run("byId", "select * from core.secrets where id = $2::uuid and tenant_id = $1::uuid", [
            tenant,
            secret
          ]),
          (rows) => firstOf(rows, secretOf)
        ),
      list: (tenant) =>
        Effect.map(
          run(
            "list",
            `select * from core.secrets where tenant_id = $1::uuid order by name limit ${tenantSecretsMax}`,
            [tenant]
          ),
          (rows) => rows.map(secretOf)
        ),
      version: (tenant, secret, version) =>
        Effect.map(
          run("version", versionText, [tenant, secret, version === "latest" ? null : version]),
          (rows) => firstOf(rows, versionOf)
        ),
      bound: (tenant, environment, configPath) =>
        Effect.map(run("bound", boundText, [tenant, environment, configPath]), (rows) =>
          firstOf(rows, (row) => row["secret_id"] as SecretId)
        ),
      closedByOtherKeys: (key, after) =>
        Effect.map(
          run("closedByOtherKeys", otherKeysText, [key, after?.secret ?? null, after?.version ?? null]),
          (rows) => rows.map(versionOf)
        )
    })
  })
)
