/** What the steps of machines need; given once, when the plans are made. */
import type { GuestSupervisor } from "../guests/GuestSupervisor.ts"
import type { Identifiers } from "../Identifiers.ts"
import type { HeldLeases } from "../leases/HeldLeases.ts"
import type { LeaseStore } from "../leases/LeaseStore.ts"
import type { RepositoryClaims } from "../leases/RepositoryClaims.ts"
import type { RunState } from "../reclamation/RunState.ts"
import type { Registry } from "../registry/Registry.ts"
import type { Disks } from "../runtimes/Disks.ts"
import type { RuntimeStore } from "../runtimes/RuntimeStore.ts"
import type { SnapshotRows } from "../runtimes/SnapshotRows.ts"
import type { WorkspaceCopies } from "../runtimes/WorkspaceCopies.ts"
import type { OperationRows } from "./OperationStore.ts"
import type { Act, UnboundSteps, UnboundTakeBack } from "./plan.ts"

export type MachineServices =
  | GuestSupervisor
  | Registry
  | RunState
  | Disks
  | Identifiers
  | RuntimeStore
  | SnapshotRows
  | WorkspaceCopies
  | OperationRows
  | LeaseStore
  | HeldLeases
  | RepositoryClaims

export type MachineAct = Act<MachineServices>
export type MachineSteps = UnboundSteps<MachineServices>
export type MachineTakeBack = UnboundTakeBack<MachineServices>
