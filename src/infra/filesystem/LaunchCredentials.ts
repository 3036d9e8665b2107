/**
 * Adapter of LaunchCredentials on one private file, read anew for each launch, so that a change counts at once:
 *
 *     { "*": { "NPM_TOKEN": "…" }, "7": { "GIT_TOKEN": "…" } }      for every Project, and for Project 7 beside
 *
 * No file, no credentials. A file that others may read, that is a link, too large or of another form fails: then nothing
 * is started, rather than without its credentials.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Files from "node:fs"
import { credentialBytesMax, credentialBytesMin, credentialFileBytesMax } from "../../domain/Bounds.ts"
import { type LaunchCredential, LaunchCredentials } from "../../domain/host/LaunchCredentials.ts"
import type { ProjectId } from "../../domain/Identity.ts"
import { PrivateFileRefused, readPrivateFile } from "./privateFiles.ts"

const everyProject = "*"
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/
const keyPattern = /^(\*|[1-9]\d*)$/
const othersMask = 0o077

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The sentences name fields and never values. */
const refuse = (why: string): never => {
  throw new PrivateFileRefused(why)
}

const variablesOf = (value: unknown): ReadonlyArray<readonly [string, string]> => {
  if (!isObject(value)) return refuse("each entry must be an object of variables")
  return Object.entries(value).map(([name, secret]) => {
    if (!namePattern.test(name)) return refuse("a name is not one of a variable")
    const bytes = typeof secret === "string" ? Buffer.byteLength(secret) : 0
    if (typeof secret !== "string" || secret.includes("\0")) return refuse("a value must be text without NUL")
    if (bytes < credentialBytesMin || bytes > credentialBytesMax) {
      return refuse(`a value must have ${credentialBytesMin} to ${credentialBytesMax} bytes`)
    }
    return [name, secret] as const
  })
}

/** What a Project gets of the file's text: its own beside those of every Project, its own first. Throws. */
export const credentialsOf = (text: string, project: ProjectId): ReadonlyArray<LaunchCredential> => {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    return refuse("it is not JSON")
  }
  if (!isObject(content) || !Object.keys(content).every((key) => keyPattern.test(key))) {
    return refuse("its keys must be * and ids of Projects")
  }
  const read = new Map(Object.entries(content).map(([key, value]) => [key, variablesOf(value)]))
  const variables = new Map([...(read.get(everyProject) ?? []), ...(read.get(String(project)) ?? [])])
  return [...variables].map(([name, value]) => ({ name, value: Redacted.make(value) }))
}

const read = (path: string): string | undefined => {
  const found = Files.lstatSync(path, { throwIfNoEntry: false })
  if (found !== undefined && (found.mode & othersMask) !== 0) return refuse("group and others may read it")
  return readPrivateFile(path, credentialFileBytesMax)
}

export const layer = (options: { readonly path: string }): Layer.Layer<LaunchCredentials> =>
  Layer.succeed(
    LaunchCredentials,
    LaunchCredentials.of({
      resolve: (_, project) =>
        Effect.try({
          try: () => {
            const text = read(options.path)
            return text === undefined ? [] : credentialsOf(text, project)
          },
          catch: (error) => error
        })
    })
  )
