/**
 * A socket between a handle and the server that can lose an answer, hold answers back, spoil a request, count them, or
 * let the server say that it is an old one: what no server can be asked to do by itself.
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
  onRequest: (chunk: Buffer, client: Socket) => Buffer | void
) =>
  createServer((client) => {
    const upstream = createConnection(join(server, socketName))
    client.on("data", (chunk) => {
      upstream.write(onRequest(chunk, client) ?? chunk)
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

const handOver = (chunk: Buffer, client: Socket): void => void client.write(chunk)

/** Drops the connection in the moment in which the server has answered a statement with this tag. */
export const losingAnswer = (real: CloneShape["address"], tag: string) =>
  listening(
    real,
    between(
      real.host,
      (chunk, client, upstream) => {
        if (!chunk.includes(`${tag}\0`)) return handOver(chunk, client)
        client.destroy()
        upstream.destroy()
      },
      () => undefined
    )
  )

/** Once a request with `first` has passed, hands no answer over before one with `last` has passed too. */
export const answeringAfter = (real: CloneShape["address"], first: string, last: string) => {
  const waiting = new Map<Socket, { passed: boolean; readonly kept: Array<Buffer> }>()
  return listening(
    real,
    between(
      real.host,
      (chunk, client) => {
        const state = waiting.get(client)
        if (state === undefined || state.passed) return handOver(chunk, client)
        state.kept.push(chunk)
      },
      (chunk, client) => {
        if (!waiting.has(client) && chunk.includes(first)) waiting.set(client, { passed: false, kept: [] })
        const state = waiting.get(client)
        if (state === undefined || !chunk.includes(last)) return
        state.passed = true
        for (const each of state.kept) client.write(each)
      }
    )
  )
}

/** Spoils every BEGIN, so that the server refuses it. */
export const refusingBegin = (real: CloneShape["address"]) =>
  listening(
    real,
    between(real.host, handOver, (chunk) =>
      Buffer.from(chunk.toString("latin1").replaceAll("begin isolation", "begin isolatiom"), "latin1")
    )
  )

/** A value of six bytes, as `server_version_num` is one, comes after its length in the answer. */
const ofSixBytes = Buffer.from([0, 0, 0, 6])

/** The server says that it is of this major version, of two digits. */
export const olderBy = (real: CloneShape["address"], major: number) =>
  listening(
    real,
    between(
      real.host,
      (chunk, client) => {
        const told = chunk.indexOf(ofSixBytes)
        if (told >= 0) chunk.write(String(major), told + ofSixBytes.length)
        handOver(chunk, client)
      },
      () => undefined
    )
  )

/** Keeps a request that contains `mark` for itself where it is told to; it asks about each. */
export const swallowing = (real: CloneShape["address"], mark: string, isToKeep: () => boolean) =>
  listening(
    real,
    between(real.host, handOver, (chunk) => {
      return chunk.includes(mark) && isToKeep() ? Buffer.alloc(0) : undefined
    })
  )

/** Counts what the client writes: each write of a client that waits for its answers arrives as one piece. */
export const counting = (real: CloneShape["address"]) => {
  let writes = 0
  const server = between(real.host, handOver, () => void (writes += 1))
  return Effect.map(listening(real, server), ({ address }) => ({ address, writes: () => writes }))
}
