import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Files from "node:fs"
import * as Path from "node:path"
import { credentialBytesMax, credentialBytesMin, credentialFileBytesMax } from "../../../src/domain/Bounds.ts"
import type { Caller } from "../../../src/domain/host/Accounts.ts"
import { LaunchCredentials } from "../../../src/domain/host/LaunchCredentials.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"
import { credentialsOf, layer } from "../../../src/infra/filesystem/LaunchCredentials.ts"
import { errorName } from "../../../src/infra/filesystem/privateFiles.ts"
import { temporaryDirectory } from "../../domain/registry/fixture.ts"

const project = ProjectId.make(7)
const canary = "canary-0123456789"

const plain = (text: string) =>
  Object.fromEntries(credentialsOf(text, project).map(({ name, value }) => [name, Redacted.value(value)]))

const thrownBy = (text: string): string => {
  try {
    credentialsOf(text, project)
  } catch (error) {
    return errorName(error)
  }
  return "nothing"
}

const resolved = (path: string) =>
  Effect.flatMap(LaunchCredentials, (owner) =>
    // The file knows no callers.
    owner.resolve({} as Caller, project)
  ).pipe(Effect.provide(layer({ path })))

const wrong: ReadonlyArray<readonly [what: string, text: string]> = [
  ["no JSON", `{ "${canary}`],
  ["a list", "[]"],
  ["a key that is no Project", `{ "web": { "TOKEN": "${canary}" } }`],
  ["a name that is no variable's", `{ "*": { "MY-TOKEN": "${canary}" } }`],
  ["a value that is no text", '{ "*": { "TOKEN": 12345678 } }'],
  ["a value with NUL", `{ "*": { "TOKEN": "${canary}\\u0000" } }`],
  ["a value that is too short", `{ "*": { "TOKEN": "${"x".repeat(credentialBytesMin - 1)}" } }`],
  ["a value that is too long", `{ "*": { "TOKEN": "${"x".repeat(credentialBytesMax + 1)}" } }`],
  ["a wrong entry of another Project", `{ "8": { "TOKEN": 1 }, "*": { "TOKEN": "${canary}" } }`]
]

describe("filesystem/LaunchCredentials", () => {
  it("a Project gets its own variables beside those of every Project, its own first", () => {
    const text = JSON.stringify({
      "*": { SHARED: "of every project", TOKEN: "of every project" },
      "7": { TOKEN: "of project seven" },
      "8": { OTHER: "of project eight" }
    })
    assert.deepStrictEqual(plain(text), { SHARED: "of every project", TOKEN: "of project seven" })
  })

  it.each(wrong)("SP-TX-11 %s is refused, with a sentence that repeats nothing of it", (_, text) => {
    const sentence = thrownBy(text)
    assert.notStrictEqual(sentence, "nothing")
    assert.notInclude(sentence, "canary")
  })

  it.live("no file is no credentials; a change counts at once", () =>
    Effect.gen(function* () {
      const path = Path.join(yield* temporaryDirectory, "credentials.json")
      assert.deepStrictEqual(yield* resolved(path), [])
      Files.writeFileSync(path, `{ "7": { "TOKEN": "${canary}" } }`, { mode: 0o600 })
      assert.lengthOf(yield* resolved(path), 1)
    })
  )

  it.live("SP-TX-11 a file that others may read, a link and one that is too large fail", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const write = (name: string, text: string, mode: number) => {
        Files.writeFileSync(Path.join(directory, name), text)
        Files.chmodSync(Path.join(directory, name), mode)
      }
      write("open", "{}", 0o640)
      write("closed", "{}", 0o600)
      Files.symlinkSync(Path.join(directory, "closed"), Path.join(directory, "link"))
      write("large", " ".repeat(credentialFileBytesMax + 1), 0o600)
      for (const name of ["open", "link", "large"]) {
        assert.isTrue((yield* Effect.exit(resolved(Path.join(directory, name))))._tag === "Failure", name)
      }
      assert.deepStrictEqual(yield* resolved(Path.join(directory, "closed")), [])
    })
  )
})
