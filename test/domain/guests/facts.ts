/** Facts about one sandbox from a partial description. */
import {
  type GuestFacts,
  PreparedLaunch,
  SeenGroup,
  SeenInit
} from "../../../src/domain/guests/GuestFacts.ts"
import { GuestIdentity } from "../../../src/domain/guests/GuestSupervisor.ts"
import { Generation, SandboxId } from "../../../src/domain/Identity.ts"

export const sandbox = SandboxId.make("sb-00000000-0000-4000-8000-000000000001")
export const thisBoot = "11111111-1111-4111-8111-111111111111"
export const formerBoot = "22222222-2222-4222-8222-222222222222"
export const generation = Generation.make(3)
export const groups = [
  { path: "/g/a", inode: "10" },
  { path: "/g/b", inode: "11" }
]
const launch = { sandbox, generation, runId: "run", attemptId: "attempt", userId: 30_001 }
export const init = { pid: 501, startTicks: "77" }

export const identity = (changes: Partial<GuestIdentity> = {}) =>
  new GuestIdentity({
    ...launch,
    supervisor: "bubblewrap",
    bootId: thisBoot,
    monitor: { pid: 500, startTicks: "76" },
    init,
    groups,
    ...changes
  })

export const preparing = (changes: Partial<PreparedLaunch> = {}) =>
  new PreparedLaunch({ ...launch, bootId: thisBoot, groups, ...changes })

export const facts = (changes: Partial<GuestFacts>): GuestFacts => ({
  bootId: thisBoot,
  tombstone: null,
  preparing: null,
  identity: null,
  groups: [],
  init: SeenInit.Gone(),
  witnesses: 0,
  frozen: false,
  exit: null,
  generation: Generation.make(1),
  ...changes
})

export const empty = SeenGroup.Same({ populated: false })
export const full = SeenGroup.Same({ populated: true })
export const alive = SeenInit.Alive({ isOfGuest: true })
