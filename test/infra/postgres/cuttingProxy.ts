/**
 * A socket between a handle and the server that can lose an answer or hold answers back: what no server can be asked
 * to do by itself.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { mkdtempSync, rmSync } from "node:fs"
import { createConnection, createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { CloneShape } from "../../support/clone.ts"

export interface Cutting {
  readonly address: CloneShape["address"]
}

const socketName = ".s.PGSQL.5432"

const between = (
  server: string,
  onAnswer: (chunk: Buffer, client: Socket, upstream: Socket) => void,
  onRequest: (chunk: Buffer, client: Socket) => void
) =>
  createServer((client) => {
    const upstream = createConnection(join(server, socketName))
    client.on("data", (chunk) => {
      onRequest(chunk, client)
      upstream.write(chunk)
    })
    upstream.on("data", (chunk) => onAnswer(chunk, client, upstream))
    for (const [one, other] of [
      [client, upstream],
      [upstream, client]
    ] as const) {
      one.on("error", () => other.destroy())
      one.on("close", () => other.destroy())
    }
  })

const listening = (
  real: CloneShape["address"],
  server: ReturnType<typeof between>
): Effect.Effect<Cutting, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<{ readonly folder: string }>((resume) => {
      const folder = mkdtempSync(join(tmpdir(), "hf-cut-"))
      server.listen(join(folder, socketName), () => resume(Effect.succeed({ folder })))
    }),
    ({ folder }) =>
      Effect.sync(() => {
        server.close()
        rmSync(folder, { recursive: true, force: true })
      })
  ).pipe(Effect.map(({ folder }) => ({ address: { ...real, host: folder } })))

/** Drops the connection in the moment in which the server has answered COMMIT. */
export const losingCommits = (real: CloneShape["address"]) =>
  listening(
    real,
    between(
      real.host,
      (chunk, client, upstream) => {
        if (!chunk.includes("COMMIT\0")) return void client.write(chunk)
        client.destroy()
        upstream.destroy()
      },
      () => undefined
    )
  )

/** Once `begin` has passed, hands no answer over before `commit` has passed too. */
export const answeringAfterCommit = (real: CloneShape["address"]) => {
  const waiting = new Map<Socket, { committed: boolean; readonly kept: Array<Buffer> }>()
  return listening(
    real,
    between(
      real.host,
      (chunk, client) => {
        const state = waiting.get(client)
        if (state === undefined || state.committed) return void client.write(chunk)
        state.kept.push(chunk)
      },
      (chunk, client) => {
        if (chunk.includes("begin\0")) waiting.set(client, { committed: false, kept: [] })
        const state = waiting.get(client)
        if (state === undefined || !chunk.includes("commit\0")) return
        state.committed = true
        for (const each of state.kept) client.write(each)
      }
    )
  )
}
