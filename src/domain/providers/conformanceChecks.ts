/**
 * The checks of a provider plugin's conformance. Each fails with a sentence for the plugin's author. conformance.ts runs
 * them.
 */
import * as Effect from "effect/Effect"
import { isJsonObject } from "../Json.ts"
import {
  about,
  create,
  destroy,
  execute,
  expect,
  isReceipt,
  type Kit,
  lacks,
  listed,
  madeOf,
  told,
  withoutIntents
} from "./conformanceKit.ts"
import { ProviderRpcError } from "./ProviderWorkers.ts"

export interface Check {
  readonly name: string
  /** Why it does not apply; undefined where it does. */
  readonly leftOut?: (kit: Kit) => string | undefined
  /** Fails with a sentence for the plugin's author. */
  readonly run: (kit: Kit) => Effect.Effect<void, string>
}

const lifeChecks: ReadonlyArray<Check> = [
  {
    name: "the worker has the methods that no provider can do without",
    run: ({ methods }) =>
      expect(
        methods.has("environmentAcquireLease") && methods.has("environmentDestroyLease"),
        "a worker has environmentAcquireLease and environmentDestroyLease"
      )
  },
  {
    name: "two creations are two resources",
    run: (kit) =>
      Effect.flatMap(Effect.all([kit.acquire, kit.acquire]), ([first, second]) =>
        expect(first.id !== second.id, "two acquisitions answered the same providerLeaseId")
      )
  },
  {
    name: "a destroyed resource can be destroyed again",
    run: (kit) => Effect.flatMap(kit.acquire, ({ id }) => Effect.andThen(destroy(kit, id), destroy(kit, id)))
  },
  {
    name: "a stop is answered with a receipt that names the resource, also the second time",
    leftOut: lacks("environmentStopLease"),
    run: (kit) =>
      Effect.flatMap(kit.acquire, ({ id }) =>
        kit
          .call("environmentStopLease", {
            ...about(kit, id),
            cancelActiveWork: true,
            resourceDisposition: "stop_and_retain"
          })
          .pipe(
            told("environmentStopLease"),
            Effect.flatMap((answer) =>
              expect(
                isReceipt(answer, id, "stopped"),
                'environmentStopLease answers { providerLeaseId, state: "stopped" } of that very resource'
              )
            ),
            Effect.repeat({ times: 1 })
          )
      )
  },
  {
    name: "a resource that is there is resumed, and one that is gone is said to be gone",
    leftOut: lacks("environmentResumeLease"),
    run: (kit) =>
      Effect.gen(function* () {
        const { id } = yield* kit.acquire
        const resume = kit.call("environmentResumeLease", about(kit, id)).pipe(told("environmentResumeLease"))
        const there = yield* resume
        yield* expect(
          isJsonObject(there) && there["providerLeaseId"] === id,
          "environmentResumeLease answers the providerLeaseId that it was asked for"
        )
        yield* destroy(kit, id)
        const gone = yield* resume
        yield* expect(
          isJsonObject(gone) &&
            gone["providerLeaseId"] === null &&
            isJsonObject(gone["metadata"]) &&
            gone["metadata"]["expired"] === true,
          "environmentResumeLease of a resource that is gone answers { providerLeaseId: null, metadata: { expired: true } }"
        )
      })
  }
]

const commandChecks: ReadonlyArray<Check> = [
  {
    name: "a command's output and its end are told apart",
    leftOut: lacks("environmentExecute"),
    run: (kit) =>
      Effect.gen(function* () {
        const { id } = yield* kit.acquire
        const said = yield* execute(kit, id, "echo", ["holdfast"])
        yield* expect(
          said["exitCode"] === 0 && said["stdout"] === "holdfast\n",
          "echo holdfast says holdfast"
        )
        const failed = yield* execute(kit, id, "false", [])
        yield* expect(failed["exitCode"] === 1, "false ends with exit code 1, which is no error of the call")
        const read = yield* execute(kit, id, "cat", [], { stdin: "what was given" })
        yield* expect(
          read["stdout"] === "what was given",
          "cat answers what it was given on its standard input"
        )
      })
  }
]

const intentChecks: ReadonlyArray<Check> = [
  {
    name: "FC-04 the same creation again is the same resource",
    leftOut: withoutIntents,
    run: (kit) =>
      Effect.gen(function* () {
        const { id, intent } = yield* kit.acquire
        const again = yield* Effect.flatMap(create(kit, kit.call, intent, yield* kit.uuid), (answer) =>
          madeOf(answer, intent)
        )
        yield* expect(again.id === id, "the same intent made a second resource")
      })
  },
  {
    name: "BX-03 a resource is listed under its installation's label, under no other, and no longer once it is destroyed",
    leftOut: withoutIntents,
    run: (kit) =>
      Effect.gen(function* () {
        const { id } = yield* kit.acquire
        yield* expect(
          (yield* listed(kit, kit.installation)).includes(id),
          "the listing does not have the resource"
        )
        const foreign = yield* listed(kit, `${kit.installation}-other`)
        yield* expect(foreign.length === 0, "the listing of another label has resources of this one")
        yield* destroy(kit, id)
        yield* expect(
          !(yield* listed(kit, kit.installation)).includes(id),
          "the listing has what was destroyed"
        )
      })
  }
]

const mannerChecks: ReadonlyArray<Check> = [
  {
    name: "an unknown method is refused, and the worker goes on",
    run: (kit) =>
      kit.call("environmentNoSuchMethod", about(kit, "none")).pipe(
        Effect.matchEffect({
          onSuccess: () => Effect.fail("an unknown method is answered with error -32601"),
          onFailure: (error) =>
            expect(
              error instanceof ProviderRpcError && error.code === -32601,
              "an unknown method is answered with error -32601"
            )
        })
      )
  },
  {
    name: "a resource of nobody's is destroyed without harm to another",
    run: (kit) =>
      Effect.gen(function* () {
        const { id } = yield* kit.acquire
        yield* Effect.ignore(kit.call("environmentDestroyLease", about(kit, `${id}-none`)))
        if (!kit.methods.has("environmentResumeLease")) return
        const there = yield* kit
          .call("environmentResumeLease", about(kit, id))
          .pipe(told("environmentResumeLease"))
        yield* expect(
          isJsonObject(there) && there["providerLeaseId"] === id,
          "destroying an unknown id took a known one with it"
        )
      })
  },
  {
    name: "FC-21 no answer has a secret of the config in it",
    leftOut: ({ secrets }) => (secrets.length === 0 ? "the config has no secret" : undefined),
    run: ({ leaks }) =>
      expect(
        leaks.size === 0,
        `${[...leaks].join(", ")} echoed a secret: the daemon takes it out, but it should not have been there`
      )
  }
]

export const checks: ReadonlyArray<Check> = [
  ...lifeChecks,
  ...commandChecks,
  ...intentChecks,
  ...mannerChecks
]
