/** COPY FROM STDIN through plain `pg`, whose package has no stream for it: one chunk, sent when the server asks for it. */
import type { PlainClient } from "./plainPg.ts"

interface CopyConnection {
  readonly query: (text: string) => void
  readonly sendCopyFromChunk: (chunk: Buffer) => void
  readonly endCopyFrom: () => void
}

/** Sends the lines as the rows of one COPY; answers when the server has stored them. */
export const copyIn = (client: PlainClient, text: string, lines: string): Promise<void> =>
  new Promise((resolve, reject) => {
    let failure: Error | null = null
    client.query({
      submit: (connection: CopyConnection) => connection.query(text),
      handleCopyInResponse: (connection: CopyConnection) => {
        connection.sendCopyFromChunk(Buffer.from(lines))
        connection.endCopyFrom()
      },
      handleError: (error: Error) => {
        failure = error
        reject(error)
      },
      handleCommandComplete: () => undefined,
      handleReadyForQuery: () => {
        if (failure === null) resolve()
      }
    })
  })
