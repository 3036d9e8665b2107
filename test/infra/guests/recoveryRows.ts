/**
 * The recovery table, row by row: which files, boot, cgroups and init a daemon finds of a sandbox when it starts, and
 * where its first pass over the registry brings record, charge and guest. Produced and asserted by recovery.test.ts
 * with real processes.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Files from "node:fs"
import type { AbsenceEvidence } from "../../../src/domain/guests/AbsenceProof.ts"
import type { GuestObservation } from "../../../src/domain/guests/GuestSupervisor.ts"
import type { SandboxStatus } from "../../../src/domain/registry/Record.ts"
import { removeGroup, setFrozen } from "../../../src/infra/guests/cgroupControl.ts"
import { controlGroup } from "../../../src/infra/guests/cgroups.ts"
import {
  anotherBoot,
  joinGroups,
  killAndWait,
  killEverything,
  type LeftGuest,
  makeStranger,
  rewrite,
  unrecord
} from "./recoveryNode.ts"

export interface RecoveryRow {
  /** The row of the table, in its words. */
  readonly row: string
  /** Where the daemon died: while it started the guest, with the guest running, or behind the tombstone of its deletion. */
  readonly died: "starting" | "running" | "deleting"
  /** What happens while no daemon runs. */
  readonly meanwhile: (guest: LeftGuest) => Effect.Effect<unknown, never, Scope.Scope>
  readonly seen: GuestObservation["_tag"]
  /** What the next daemon's first pass does about it. */
  readonly verdict: "keep" | "status" | "end" | "delete" | "failed"
  /** What the record says then; null: it is gone. */
  readonly status: SandboxStatus | null
  /** Words of the record's reason; null: it has none. */
  readonly reason: string | null
  readonly isAlive: boolean
  /** What a deletion proves the absence by; null: it is refused, and everything stays charged. */
  readonly evidence: AbsenceEvidence["_tag"] | null
  /** The supervisors' processes differ in what this row is about, so that each of them is tried. */
  readonly differs?: true
}

const nothing = () => Effect.void
const act = (run: () => void) => Effect.sync(run)

/** The guest is gone with its cgroups, and the file is one of a boot before this one. */
const reboot = (guest: LeftGuest, name: string) =>
  Effect.gen(function* () {
    yield* killEverything(guest)
    for (const { path } of guest.identity.groups) yield* removeGroup(path)
    rewrite(guest, name, anotherBoot)
  })

/** A process of the guest's cgroups that is not below its init. */
const addMember = (guest: LeftGuest) =>
  Effect.gen(function* () {
    const { pid } = yield* makeStranger
    joinGroups(pid, guest.identity.groups)
  })

/** One of the groups of a guest whose end has been seen; a group stays busy for a moment behind it. */
const dropGroup = ({ identity }: LeftGuest, at: number) => removeGroup(identity.groups.at(at)!.path)

const replaceGroup = (guest: LeftGuest, at: number) =>
  Effect.andThen(
    dropGroup(guest, at),
    act(() => Files.mkdirSync(guest.identity.groups.at(at)!.path))
  )

const killInit = ({ identity }: LeftGuest) => killAndWait(identity.init.pid)

const interrupted = {
  died: "starting",
  status: "Failed",
  reason: "its start was interrupted",
  isAlive: false
} as const
const adopted = {
  isAlive: true,
  evidence: "GroupsEmpty",
  reason: null,
  died: "running"
} as const
const lost = { died: "running", status: "Failed", verdict: "status", isAlive: false } as const
const uncertain = {
  seen: "Uncertain",
  verdict: "status",
  evidence: null
} as const

const preparingRows: ReadonlyArray<RecoveryRow> = [
  {
    ...interrupted,
    row: "preparing only, same boot, same inode, has members: the group is killed, the start has failed",
    differs: true,
    meanwhile: (guest) => act(() => unrecord(guest)),
    seen: "Unsettled",
    verdict: "end",
    evidence: "GroupsEmpty"
  },
  {
    ...interrupted,
    row: "preparing only, same boot, same inode, empty: the start has failed",
    meanwhile: (guest) =>
      Effect.andThen(
        killEverything(guest),
        act(() => unrecord(guest))
      ),
    seen: "Gone",
    verdict: "status",
    evidence: "GroupsEmpty"
  },
  {
    ...interrupted,
    row: "preparing only, other boot: gone",
    meanwhile: (guest) =>
      Effect.suspend(() => {
        unrecord(guest)
        return reboot(guest, "preparing.json")
      }),
    seen: "Gone",
    verdict: "status",
    evidence: "BootChanged"
  },
  {
    ...uncertain,
    row: "preparing only, same boot, other inode: uncertain, as of a recorded guest",
    died: "starting",
    meanwhile: (guest) =>
      Effect.andThen(
        killEverything(guest),
        Effect.suspend(() => {
          unrecord(guest)
          return replaceGroup(guest, 0)
        })
      ),
    status: "Pending",
    reason: "another one than recorded",
    isAlive: false
  }
]

const recordedRows: ReadonlyArray<RecoveryRow> = [
  {
    ...lost,
    row: "identity, other boot: lost to reboot",
    meanwhile: (guest) => reboot(guest, "identity.json"),
    seen: "Gone",
    reason: "lost to a reboot of the machine",
    evidence: "BootChanged"
  },
  {
    ...adopted,
    row: "identity, same boot, all same inode, alive and member: re-attached",
    differs: true,
    meanwhile: nothing,
    seen: "Running",
    verdict: "keep",
    status: "Running"
  },
  {
    ...adopted,
    row: "identity, same boot, all same inode, alive and member, its start not yet told: adopted",
    died: "starting",
    meanwhile: nothing,
    seen: "Running",
    verdict: "status",
    status: "Running"
  },
  {
    ...adopted,
    row: "identity, same boot, all same inode, alive and member, frozen: re-attached as paused",
    differs: true,
    meanwhile: ({ identity }) => Effect.asVoid(setFrozen(controlGroup(identity.groups)!, true)),
    seen: "Paused",
    verdict: "status",
    status: "Paused"
  },
  {
    ...lost,
    row: "identity, same boot, all same inode, empty, dead: gone with its exit code",
    differs: true,
    meanwhile: killInit,
    seen: "Gone",
    reason: "ended with exit code",
    evidence: "GroupsEmpty"
  },
  {
    ...lost,
    row: "identity, same boot, all same inode, empty, dead, no exit code in the status file: gone",
    meanwhile: killEverything,
    seen: "Gone",
    reason: "ended, and its exit was not seen",
    evidence: "GroupsEmpty"
  },
  {
    ...lost,
    row: "identity, same boot, all same inode, members, dead: half dead, killed, then as above",
    differs: true,
    meanwhile: (guest) => Effect.andThen(addMember(guest), killInit(guest)),
    seen: "Unsettled",
    verdict: "end",
    reason: "ended with exit code",
    evidence: "GroupsEmpty"
  },
  {
    ...uncertain,
    row: "identity, same boot, a cgroup missing: uncertain, charged, told",
    died: "running",
    meanwhile: (guest) => Effect.asVoid(Effect.andThen(killEverything(guest), dropGroup(guest, -1))),
    status: "Running",
    reason: "is missing in the boot that made it",
    isAlive: false
  },
  {
    ...uncertain,
    row: "identity, same boot, a cgroup of other inode, init dead: uncertain, charged, told",
    died: "running",
    meanwhile: (guest) => Effect.andThen(killEverything(guest), replaceGroup(guest, -1)),
    status: "Running",
    reason: "is another one than recorded",
    isAlive: false
  },
  {
    ...uncertain,
    row: "identity, same boot, a cgroup of other inode, init alive: uncertain, and the guest is left alone",
    died: "running",
    meanwhile: (guest) =>
      act(() => {
        const [first, ...rest] = guest.identity.groups
        rewrite(guest, "identity.json", { groups: [{ ...first, inode: "1" }, ...rest] })
      }),
    status: "Running",
    reason: "is another one than recorded",
    isAlive: true
  }
]

const finished = {
  died: "deleting",
  seen: "Gone",
  verdict: "delete",
  status: null,
  reason: null,
  isAlive: false,
  evidence: "GroupsEmpty"
} as const

const tombstoneRows: ReadonlyArray<RecoveryRow> = [
  {
    ...finished,
    row: "tombstone, with everything else still there: the reclamation is finished",
    meanwhile: nothing
  },
  {
    ...finished,
    row: "tombstone, identity of another boot: the reclamation is finished",
    meanwhile: (guest) => act(() => rewrite(guest, "identity.json", anotherBoot))
  },
  {
    ...finished,
    row: "tombstone, cgroups missing: the reclamation is finished",
    meanwhile: (guest) => Effect.forEach(guest.identity.groups, (_, at) => dropGroup(guest, at))
  },
  {
    ...finished,
    row: "tombstone, cgroups of other inodes: the reclamation is finished",
    meanwhile: (guest) => Effect.forEach(guest.identity.groups, (_, at) => replaceGroup(guest, at))
  },
  {
    ...finished,
    row: "tombstone, a stranger in one of the cgroups: he is left alone, and the charge is kept until he leaves",
    meanwhile: (guest) =>
      Effect.map(makeStranger, ({ pid }) => joinGroups(pid, guest.identity.groups.slice(0, 1))),
    verdict: "failed",
    status: "Running",
    evidence: null
  }
]

/** The rows of a launch that was begun; a sandbox that was never launched stands in the test. */
export const recoveryRows: ReadonlyArray<RecoveryRow> = [...tombstoneRows, ...preparingRows, ...recordedRows]
