/**
 * Cases of the supervisor's conformance about ports: what a socket of the host leads to, who may stand behind it, and
 * that it ends with the guest.
 */
import * as Effect from "effect/Effect"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import { membersOf } from "../../src/infra/guests/cgroups.ts"
import {
  type GuestMethods,
  GuestSupervisor,
  makeSpec,
  run,
  type RunState,
  withGuest
} from "./guestHarness.ts"
import { inTime } from "../support/waiting.ts"
import {
  answered,
  bridgesOf,
  drawToken,
  impostor,
  killBridges,
  namesake,
  readAll,
  servingGuest,
  withOpenPort
} from "./portHarness.ts"

/** Where the machine cannot lead ports out, each of these cases says instead that it is told so. */
const refusedHere = Effect.gen(function* () {
  const supervisor = yield* GuestSupervisor
  const spec = makeSpec()
  yield* withGuest(spec, () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(supervisor.openPort(spec.sandbox, { port: 80, token: drawToken() }))
      if (refused.code !== "not_supported") throw new Error(`opened a port: ${refused.message}`)
    })
  )
})

/** Declares the cases for a daemon over the given state directory. */
export const portCases = (it: GuestMethods, stateDirectory: string): void => {
  const portCase = <E>(name: string, body: Effect.Effect<void, E, GuestSupervisor | RunState>): void =>
    it.effect(name, () =>
      Effect.gen(function* () {
        if ((yield* GuestSupervisor).capabilities.ports) yield* body
        else yield* refusedHere
      })
    )

  portCase(
    "a guest whose port is led out ends when its agent does, and no bridge waits for the grace",
    Effect.gen(function* () {
      const spec = makeSpec({ processesMax: 32 })
      yield* withOpenPort({ spec, port: 8080 }, ({ identity }) =>
        Effect.gen(function* () {
          const supervisor = yield* GuestSupervisor
          const ending = supervisor.end(spec.sandbox, { graceMillis: 60_000 })
          expect((yield* inTime("the guest ends", ending, 20_000))._tag).toBe("Gone")
          expect(bridgesOf(identity)).toEqual([])
        })
      )
    })
  )

  portCase(
    "RG-RUN-01 a port of the guest is reached by a private socket, by the same one again",
    Effect.gen(function* () {
      const spec = servingGuest(8080, "hello")
      yield* withOpenPort({ spec, port: 8080 }, ({ identity, path, again }) =>
        Effect.gen(function* () {
          yield* answered(path, "hello")
          expect(Files.statSync(path).mode & 0o777).toBe(0o600)
          expect(path.startsWith(stateDirectory)).toBe(true)
          const bridges = bridgesOf(identity)
          expect(bridges).toHaveLength(2)
          expect(yield* again).toBe(path)
          expect(bridgesOf(identity)).toEqual(bridges)
          for (const { path: group } of identity.groups) {
            for (const bridge of bridges) expect(membersOf(group)).toContain(bridge)
          }
          const user = Files.statSync(`/proc/${bridges[0]}`).uid
          expect(user).toBe(identity.userId)
        })
      )
    })
  )

  portCase(
    "RG-RUN-01 nothing of a bridge is shown to the guest, and the token to nobody",
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withOpenPort({ spec, port: 81 }, ({ identity, path, token, again }) =>
        Effect.gen(function* () {
          const shown = yield* run(spec.sandbox, [
            "sh",
            "-c",
            "ls -R /run /workspace; cat /proc/[0-9]*/cmdline"
          ])
          expect(shown.stdout).not.toContain("control.sock")
          expect(shown.stdout).not.toContain("socat")
          for (const bridge of bridgesOf(identity)) {
            for (const file of ["cmdline", "environ"]) {
              expect(Files.readFileSync(`/proc/${bridge}/${file}`, "latin1")).not.toContain(token)
            }
          }
          // Nobody listens in the guest: the connection ends, and the bridge stays.
          expect(yield* readAll(path)).toBe("")
          expect(yield* again).toBe(path)
        })
      )
    })
  )

  portCase(
    "RG-RUN-04 whoever else listens in a bridge's place is not taken for it, and is replaced",
    Effect.gen(function* () {
      const spec = servingGuest(8080, "mine")
      yield* withOpenPort({ spec, port: 8080 }, ({ identity, path, again }) =>
        Effect.gen(function* () {
          yield* answered(path, "mine")
          yield* killBridges(identity)
          const stranger = yield* impostor(path)
          const other = yield* impostor(Path.join(Path.dirname(path), "control.sock"))
          expect(yield* again).toBe(path)
          yield* answered(path, "mine")
          expect([...stranger.asked, ...other.asked]).toEqual([])
        }).pipe(Effect.scoped)
      )
    })
  )

  for (const isMember of [true, false]) {
    const who = isMember ? "of the guest's groups elsewhere" : "of no group in the ports directory"
    portCase(
      `RG-RUN-04 a process ${who} that listens by the same name is not taken for the bridge`,
      Effect.gen(function* () {
        const spec = servingGuest(8080, "mine")
        yield* withOpenPort({ spec, port: 8080 }, ({ identity, path, again }) =>
          Effect.gen(function* () {
            // Its file stays behind, as after a kill.
            yield* killBridges(identity)
            const ports = Path.dirname(path)
            const directory = isMember ? Path.dirname(ports) : ports
            yield* namesake(identity, { name: "8080.sock", directory, isMember })
            expect(yield* again).toBe(path)
            yield* answered(path, "mine")
          }).pipe(Effect.scoped)
        )
      })
    )
  }

  portCase(
    "RG-RUN-01 bridges that were given another token are replaced",
    Effect.gen(function* () {
      const spec = makeSpec()
      yield* withOpenPort({ spec, port: 82 }, ({ identity, path, token, again }) =>
        Effect.gen(function* () {
          Files.chmodSync(Path.join(Path.dirname(path), "token"), 0o600)
          Files.writeFileSync(Path.join(Path.dirname(path), "token"), `${drawToken()}\n`)
          const before = bridgesOf(identity)
          expect(yield* again).toBe(path)
          const after = bridgesOf(identity)
          expect(after).toHaveLength(2)
          expect(after.filter((pid) => before.includes(pid))).toHaveLength(1)
          expect(Files.readFileSync(Path.join(Path.dirname(path), "token"), "utf8")).toBe(`${token}\n`)
        })
      )
    })
  )

  portCase(
    "RG-RUN-01 a guest that is paused or gone has no endpoint, and its bridges end with it",
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      const identity = yield* withOpenPort({ spec, port: 83 }, ({ identity: started, path, again }) =>
        Effect.gen(function* () {
          if (supervisor.capabilities.pause) {
            yield* supervisor.pause(spec.sandbox)
            const paused = yield* Effect.flip(again)
            expect(paused).toMatchObject({ code: "invalid_guest_state", state: "paused" })
            yield* supervisor.resume(spec.sandbox)
          }
          const bridges = bridgesOf(started)
          const seen = yield* supervisor.end(spec.sandbox, { graceMillis: 0 })
          expect(seen._tag).toBe("Gone")
          for (const bridge of bridges) expect(Files.existsSync(`/proc/${bridge}/exe`)).toBe(false)
          const gone = yield* Effect.flip(again)
          expect(gone).toMatchObject({ code: "invalid_guest_state" })
          expect(yield* readAll(path)).toBe("")
          return started
        })
      )
      expect(Files.readdirSync(Path.join(stateDirectory, "runtime", identity.sandbox)).sort()).toEqual([
        "owner.lock",
        "tombstone.json"
      ])
    })
  )

  portCase(
    "no more ports than the bound are led out",
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withOpenPort({ spec, port: 1 }, ({ path, token }) =>
        Effect.gen(function* () {
          // Fifteen names in the directory are as good as fifteen bridges: what counts is what was made.
          for (let port = 2; port <= 16; port += 1) {
            Files.writeFileSync(Path.join(Path.dirname(path), `${port}.sock`), "")
          }
          const refused = yield* Effect.flip(supervisor.openPort(spec.sandbox, { port: 17, token }))
          expect(refused).toMatchObject({ code: "not_supported" })
          expect(refused.message).toContain("16 ports")
        })
      )
    })
  )
}
