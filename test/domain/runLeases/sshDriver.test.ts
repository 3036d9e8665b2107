/** The driver `ssh` on a real clone, over a real OpenSSH server. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Files from "node:fs"
import * as Path from "node:path"
import { EnvironmentLeaseStore } from "../../../src/domain/environments/EnvironmentLeaseStore.ts"
import { EnvironmentStore } from "../../../src/domain/environments/EnvironmentStore.ts"
import type { Acquisition } from "../../../src/domain/runLeases/EnvironmentDriver.ts"
import { sshDriver } from "../../../src/domain/runLeases/sshDriver.ts"
import { bindSecret, createSecret } from "../../../src/domain/secrets/vault.ts"
import * as WorkspaceArchives from "../../../src/infra/filesystem/WorkspaceArchives.ts"
import * as RemoteHosts from "../../../src/infra/providers/RemoteHosts.ts"
import { isGone } from "../../support/processes.ts"
import { hasSshServer, sshServer } from "../../support/sshd.ts"
import { newAgent, newEnvironment, newRun, newTenant, onClone } from "./fixture.ts"
import { leaseRow, sql } from "./rawRows.ts"
import { freshRuntime } from "./runtimes.ts"

const driver = Effect.provide(sshDriver, Layer.merge(RemoteHosts.layer, WorkspaceArchives.layer))

/** A host of its own, its environment with a bound key, and an acquisition of a run there. */
const remoteScene = Effect.gen(function* () {
  const { folder, host } = yield* sshServer
  const tenant = yield* newTenant
  const run = yield* newRun(tenant, (yield* newAgent(tenant)).id)
  const secret = yield* createSecret({ tenant, name: "ssh-key", value: host.privateKey })
  const environment = yield* newEnvironment("ssh", {
    host: host.host,
    port: host.port,
    username: host.username,
    remoteWorkspacePath: `${folder}/work`,
    privateKey: null,
    privateKeySecretRef: { type: "secret_ref", secretId: secret.id, version: "latest" },
    knownHosts: host.knownHosts,
    strictHostKeyChecking: true
  })
  yield* bindSecret({
    tenant,
    secret: secret.id,
    environment: environment.id,
    configPath: "privateKeySecretRef"
  })
  const runtime = yield* freshRuntime({ drivers: [yield* driver] })
  const asked: Acquisition = { tenant, environment, task: null, run: run.id, executionWorkspace: null }
  return { asked, environment, folder, host, runtime }
})

describe.skipIf(!hasSshServer)("runLeases/sshDriver", () => {
  it.live("RL-SSH-01 RL-SSH-02 RL-SECRET-05 a lease names its host, works there and ends there", () =>
    onClone(
      Effect.gen(function* () {
        const { asked, environment, folder, host, runtime } = yield* remoteScene
        const { lease } = yield* runtime.acquireRunLease(asked)
        assert.strictEqual(lease.status, "active")
        assert.include(lease.providerLeaseId, `ssh://${host.username}@${host.host}:${host.port}`)
        assert.deepInclude(lease.metadata, {
          driver: "ssh",
          host: host.host,
          port: host.port,
          username: host.username,
          remoteWorkspacePath: `${folder}/work`,
          remoteCwd: `${folder}/work`
        })
        const text = JSON.stringify(yield* leaseRow(lease.id))
        assert.notInclude(text, Redacted.value(host.privateKey).split("\n")[1]!)
        Files.mkdirSync(`${folder}/given`)
        Files.writeFileSync(Path.join(folder, "given/file"), "brought")
        const place = { environment, lease }
        const realized = yield* runtime.realizeWorkspace({
          ...place,
          workspace: { localPath: `${folder}/given`, mode: "shared_workspace" }
        })
        const said = yield* runtime.execute({
          ...place,
          command: "sh",
          args: [
            "-c",
            "cat file; setsid sleep 1000 >/dev/null 2>&1 & p=$!; until [ $(ps -o sid= -p $p) = $p ]; do :; done; echo :$p"
          ],
          cwd: realized.cwd,
          env: {},
          timeoutMillis: 30_000
        })
        const [brought, left] = said.stdout.split(":")
        assert.strictEqual(brought, "brought")
        assert.isFalse(isGone(Number(left)))
        const [released] = yield* runtime.releaseRunLeases(asked.run!)
        assert.strictEqual(released?.environment?.driver, "ssh")
        assert.strictEqual(released?.lease.status, "released")
        assert.isTrue(isGone(Number(left)))
      })
    )
  )

  it.live(
    "RL-REL-09 RL-SECRET-04 a lease is ended where it was acquired, whatever became of its environment",
    () =>
      onClone(
        Effect.gen(function* () {
          const { asked, environment, runtime } = yield* remoteScene
          const { lease } = yield* runtime.acquireRunLease(asked)
          yield* (yield* EnvironmentStore).update(environment.id, { config: { host: "127.0.0.1", port: 1 } })
          yield* sql("delete from core.secret_bindings")
          assert.lengthOf(yield* runtime.releaseRunLeases(asked.run!), 1)
          const row = yield* (yield* EnvironmentLeaseStore).getLeaseById(lease.id)
          assert.strictEqual(Option.getOrThrow(row).status, "released")
        })
      )
  )

  it.live("RL-REL-10 a host that does not answer keeps the lease active, and says so", () =>
    onClone(
      Effect.gen(function* () {
        const { asked, runtime } = yield* remoteScene
        const { lease } = yield* runtime.acquireRunLease(asked)
        yield* sql(
          "update environment_leases set sent_config = jsonb_set(sent_config, '{port}', '1') where id = $1::uuid",
          [lease.id]
        )
        const told: Array<[string, unknown]> = []
        const released = yield* runtime.releaseRunLeases(asked.run!, {
          onError: (id, error) => Effect.sync(() => void told.push([id, error]))
        })
        assert.deepStrictEqual(released, [])
        assert.lengthOf(told, 1)
        assert.deepInclude(told[0]![1], { code: "remote_host_refused", why: "unreachable" })
        const row = yield* (yield* EnvironmentLeaseStore).getLeaseById(lease.id)
        assert.strictEqual(Option.getOrThrow(row).status, "active")
      })
    )
  )

  it.live("a host that refuses leaves no row, and so does a config that is none", () =>
    onClone(
      Effect.gen(function* () {
        const { asked, environment, runtime } = yield* remoteScene
        const refusalOf = (config: object): Effect.Effect<unknown, unknown> =>
          Effect.flip(
            runtime.acquireRunLease({
              ...asked,
              environment: { ...environment, config: { ...environment.config, ...config } }
            })
          )
        assert.deepInclude(yield* refusalOf({ knownHosts: "" }), { why: "host_key" })
        for (const config of [
          { username: "-oProxyCommand=x" },
          { host: "-x" },
          { remoteWorkspacePath: "here" },
          { port: 0 }
        ]) {
          assert.deepInclude(yield* refusalOf(config), { code: "ssh_config_refused" })
        }
        assert.deepStrictEqual(yield* sql("select id from environment_leases"), [])
      })
    )
  )
})
