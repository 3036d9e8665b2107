/**
 * Cases of the supervisor's conformance about what keeps a guest apart: secrets, privileges, limits, figures.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import * as Files from "node:fs"
import * as Path from "node:path"
import { expect } from "vitest"
import { readMemoryKills } from "../../src/infra/guests/cgroupControl.ts"
import { membersOf } from "../../src/infra/guests/cgroups.ts"
import {
  commandLineOf,
  eventually,
  type GuestMethods,
  GuestSupervisor,
  makeCommand,
  makeSpec,
  processesOf,
  run,
  shell,
  withGuest
} from "./guestHarness.ts"

/** Text of every command line and environment that the host shows of these processes. */
const shownOf = (pids: ReadonlyArray<number>): string =>
  pids
    .flatMap((pid) => ["cmdline", "environ"].map((file) => `/proc/${pid}/${file}`))
    .map((path) => (Files.existsSync(path) ? Files.readFileSync(path, "latin1") : ""))
    .join("\0")

/** Declares the cases for a daemon over the given state directory. */
export const wallCases = (it: GuestMethods, stateDirectory: string): void => {
  it.effect(
    "RG-REC-02 no argument or environment of supervisor, launcher and daemon shows a secret of the guest",
    () =>
      Effect.gen(function* () {
        const secret = `secret-${randomUUID()}`
        const spec = makeSpec({ environment: { TOKEN: secret }, argv: ["sleep", "1000"] })
        yield* withGuest(spec, (identity) =>
          Effect.gen(function* () {
            const supervisor = yield* GuestSupervisor
            const other = `other-${randomUUID()}`
            const command = makeCommand(["sh", "-c", 'printf %s "$TOKEN$OTHER"; exec sleep 1000'], {
              environment: { OTHER: other }
            })
            const shown = yield* Stream.runHead(
              supervisor.execute(spec.sandbox, command).pipe(
                Stream.filter((event) => event._tag === "Output"),
                Stream.map((event) => ({
                  text: new TextDecoder().decode(event.bytes),
                  members: identity.groups.flatMap((group) => membersOf(group.path)),
                  commandLines: identity.groups
                    .flatMap((group) => membersOf(group.path))
                    .map(commandLineOf)
                    .join("\0"),
                  outside: shownOf([process.pid, identity.monitor.pid, identity.init.pid])
                }))
              )
            )
            const seen = Option.getOrThrow(shown)
            expect(seen.text).toBe(secret + other)
            for (const each of [secret, other]) {
              expect(seen.commandLines).not.toContain(each)
              expect(seen.outside).not.toContain(each)
            }
            const spec2 = Files.readFileSync(
              Path.join(stateDirectory, "runtime", spec.sandbox, "spec.json"),
              "utf8"
            )
            expect(spec2).not.toContain(secret)
          })
        )
      })
  )

  it.effect(
    "a guest reaches nothing of the host: no privilege, no writable system, no nested namespace",
    () =>
      Effect.gen(function* () {
        const supervisor = yield* GuestSupervisor
        const spec = makeSpec()
        yield* withGuest(spec, () =>
          Effect.gen(function* () {
            const { stdout } = yield* shell(
              spec.sandbox,
              [
                'can() { if eval "$1" 2>/dev/null; then echo "can: $1"; fi; }',
                "can 'echo x >/proc/sys/kernel/core_pattern'",
                "can 'echo 0 >/proc/sys/kernel/panic'",
                "can 'echo 1 >/proc/sys/vm/drop_caches'",
                "can 'touch /usr/x'",
                "can 'touch /x'",
                "can 'touch /etc/x'",
                "can 'touch /run/holdfast/x'",
                "can 'unshare -U true'",
                "can 'unshare -m true'",
                "can 'mount -t tmpfs x /tmp'",
                "can 'umount /workspace'",
                "can 'ls /root'",
                "can 'cat /etc/shadow'",
                "can 'echo 9999 >/proc/sys/user/max_user_namespaces'",
                "grep -E 'NoNewPrivs|Cap(Prm|Eff|Bnd)|Seccomp:' /proc/self/status | tr -d '\\t'",
                "echo $(ls /sys/class/net 2>/dev/null) $(cat /proc/net/dev | grep -c :)",
                "touch /workspace/ok /tmp/ok && echo writable",
                "ls -l /proc/self/fd"
              ].join("\n")
            )
            expect(stdout).not.toContain("can:")
            expect(stdout).toContain("NoNewPrivs:1")
            for (const set of ["CapPrm", "CapEff", "CapBnd"])
              expect(stdout).toContain(`${set}:0000000000000000`)
            expect(stdout).toContain("writable")
            expect(stdout).toContain("\n1\n")
            expect(stdout).not.toMatch(/(pipe|socket):/)
            expect(stdout).toContain(`Seccomp:${supervisor.capabilities.seccomp ? 2 : 0}`)
          })
        )
      })
  )

  it.effect("processes beyond the limit are refused and the guest stays", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      if (supervisor.capabilities.limits === "none") return
      const spec = makeSpec({ processesMax: 32 })
      yield* withGuest(spec, (identity) =>
        Effect.gen(function* () {
          const bomb = yield* shell(spec.sandbox, "while :; do sleep 100 & done", { timeoutMillis: 3_000 })
          expect(bomb.stderr).toContain("Cannot fork")
          expect(processesOf(identity).length).toBeLessThanOrEqual(32 + 8)
          expect((yield* supervisor.inspect(spec.sandbox))._tag).toBe("Running")
        })
      )
    })
  )

  it.effect("a guest that cannot make a process refuses a command, and takes the next one", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      if (supervisor.capabilities.limits === "none") return
      const spec = makeSpec({ argv: ["sh", "-c", "touch /workspace/up; exec sleep 1000"] })
      yield* withGuest(spec, (identity) =>
        Effect.gen(function* () {
          const up = Path.join(stateDirectory, "runtime", spec.sandbox, "run/workspace/up")
          yield* eventually(
            "the main command runs",
            Effect.sync(() => Files.existsSync(up))
          )
          const limit = identity.groups
            .map((group) => Path.join(group.path, "pids.max"))
            .find((path) => Files.existsSync(path))
          if (limit === undefined) return
          const before = Files.readFileSync(limit, "utf8")
          Files.writeFileSync(limit, "1")
          const answers = yield* Effect.forEach([1, 2, 3, 4], () =>
            Effect.match(run(spec.sandbox, ["true"]), {
              onFailure: (error) => error.message,
              onSuccess: ({ exitCode, stderr }) => `${exitCode} ${stderr}`
            })
          )
          for (const answer of answers) expect(answer).toMatch(/126 .*Cannot fork|limit of processes/)
          expect(answers.at(-1)).toContain("limit of processes")
          Files.writeFileSync(limit, before)
          expect((yield* run(spec.sandbox, ["true"])).exitCode).toBe(0)
          expect(yield* supervisor.end(spec.sandbox, { graceMillis: 5_000 })).toMatchObject({
            _tag: "Gone",
            exit: { exitCode: 143 }
          })
        })
      )
    })
  )

  it.effect("a command that takes too much memory is killed and told as 137", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      if (supervisor.capabilities.limits === "none") return
      const spec = makeSpec({ memoryBytes: 64 * 1024 ** 2 })
      yield* withGuest(spec, (identity) =>
        Effect.gen(function* () {
          const hog = yield* shell(
            spec.sandbox,
            "exec head -c 200M /dev/zero | tail -c 150M >/dev/null; exit $?"
          )
          expect(hog.exitCode).toBe(137)
          expect(readMemoryKills(identity.groups)).toBeGreaterThanOrEqual(1)
        })
      )
    })
  )

  it.effect("a sample tells what the guest uses", () =>
    Effect.gen(function* () {
      const supervisor = yield* GuestSupervisor
      const spec = makeSpec()
      yield* withGuest(spec, () =>
        Effect.gen(function* () {
          yield* shell(
            spec.sandbox,
            "head -c 1M /dev/zero >/workspace/file; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
          )
          const sample = yield* supervisor.sample(spec.sandbox)
          expect(sample.diskBytes).toBeGreaterThanOrEqual(1024 ** 2)
          expect(sample.processes).toBeGreaterThanOrEqual(2)
          if (supervisor.capabilities.limits === "cgroup") {
            expect(sample.cpuMicros).toBeGreaterThan(1_000)
            expect(sample.memoryBytes).toBeGreaterThan(0)
          }
        })
      )
    })
  )
}
