/**
 * The yardstick for everything that goes to the database: plain `pg`, a connection for each worker, prepared
 * statements. The package has no types of its own, so the little that is used of it is declared here.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createRequire } from "node:module"

export interface PlainQuery {
  /** Name under which the server keeps the statement prepared. */
  readonly name: string
  readonly text: string
  readonly values?: ReadonlyArray<unknown>
}

export interface PlainResult {
  readonly rows: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly rowCount: number | null
}

export interface PlainClient {
  readonly connect: () => Promise<void>
  readonly query: {
    (query: PlainQuery | string): Promise<PlainResult>
    /** An object that carries its own protocol. */
    (submittable: { readonly submit: unknown } & Readonly<Record<string, unknown>>): unknown
  }
  readonly end: () => Promise<void>
}

export interface PlainSettings {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  /** Settings for the server in the form of its command line. */
  readonly options?: string
}

const { Client } = createRequire(import.meta.url)("pg") as {
  readonly Client: new (settings: PlainSettings) => PlainClient
}

/**
 * An open connection, closed with the scope. It plans while the tables are still empty, and does not settle on reading
 * them whole: the product's sessions do not either, and a yardstick that slowed down would flatter them.
 */
export const plainClient = (settings: PlainSettings): Effect.Effect<PlainClient, Error, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.tryPromise({
      try: async () => {
        const options = `${settings.options ?? ""} -c enable_seqscan=off`
        const client = new Client({ ...settings, options })
        await client.connect()
        return client
      },
      catch: (failure) => (failure instanceof Error ? failure : new Error(String(failure)))
    }),
    (client) => Effect.promise(() => client.end())
  )

/** As many open connections as there are workers. */
export const plainClients = (
  settings: PlainSettings,
  count: number
): Effect.Effect<ReadonlyArray<PlainClient>, Error, Scope.Scope> =>
  Effect.all(Array.from({ length: count }, () => plainClient(settings)))

/** Runs statements one after another on a connection of their own. */
export const runPlainly = (
  settings: PlainSettings,
  texts: ReadonlyArray<string>
): Effect.Effect<PlainResult, Error> =>
  Effect.scoped(
    Effect.flatMap(plainClient(settings), (client) =>
      Effect.tryPromise({
        try: async () => {
          let last: PlainResult = { rows: [], rowCount: 0 }
          for (const text of texts) last = await client.query(text)
          return last
        },
        catch: (failure) => (failure instanceof Error ? failure : new Error(String(failure)))
      })
    )
  )
