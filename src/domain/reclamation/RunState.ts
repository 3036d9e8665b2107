/**
 * Port of the private run state of sandboxes on this node: what is on disk about a guest. Nothing here is a proof
 * of life. The stored layout, which this file owns:
 *
 *     runtime/                     0711 below the 0700 state directory
 *       owner.json                 once: version and the registry's owner
 *       sb-<uuid>/                 0711, of the daemon's user
 *         owner.lock               held over a launch and over a reclamation; taken before any file is touched
 *         spec.json                the launch without its secrets
 *         preparing.json           boot id, cgroups with inodes, user, generation: durable before the spawn
 *         launching-<attempt>      mark of a launch on its way to its cgroups; without it the launch ends itself
 *         launch.log               what the supervisor's program said before the guest ran
 *         status.jsonl             written by the supervisor's own monitor: child pid, exit code
 *         identity.json            GuestIdentity: durable before the guest's first instruction; preparing.json goes
 *         run.json                 generation, Run and Attempt ids
 *         agent/, .agent-new/      the agent's script and its pipes; those of a launch that is being prepared
 *         control.sock, ports/     reserved
 *         run/                     native storage of the guest: workspace/ (0700, of the guest's user) and tmp/
 *         tombstone.json           durable only behind a proof; then everything but it and owner.lock goes
 *       .kit-<uuid>/, .probe-<uuid>/   a supervisor's own, of no sandbox and disposable
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { GuestIdentity } from "../guests/GuestSupervisor.ts"
import { SandboxId } from "../Identity.ts"
import type { OutsideTransaction } from "../persistence/PluginDb.ts"
import type { Tombstone } from "./Tombstone.ts"

/** The node's disk failed at a sandbox's private state. `path` is relative to the state directory. */
export class RunStateFailure extends Schema.TaggedError<RunStateFailure>()("RunStateFailure", {
  sandbox: Schema.NullOr(SandboxId),
  step: Schema.String,
  path: Schema.String,
  /** The system's error name, such as EIO, or a sentence where the content was wrong. */
  why: Schema.String
}) {
  readonly code = "run_state_failure"
  override get message(): string {
    return `${this.step} failed at ${this.path}: ${this.why}`
  }
}

export class RunState extends Context.Service<
  RunState,
  {
    /** Sandboxes with any private state, tombstones included. An entry of unknown name is a failure. */
    readonly list: Effect.Effect<ReadonlyArray<SandboxId>, RunStateFailure>
    /** The guest that was last recorded there. It tells nothing of whether it lives. */
    readonly readIdentity: (
      sandbox: SandboxId
    ) => Effect.Effect<Option.Option<GuestIdentity>, RunStateFailure>
    readonly readTombstone: (sandbox: SandboxId) => Effect.Effect<Option.Option<Tombstone>, RunStateFailure>
    /** Durable when it returns: file and folder are synced. Refuses to replace another sandbox's tombstone. */
    readonly publishTombstone: (tombstone: Tombstone) => Effect.Effect<void, RunStateFailure>
    /**
     * Removes everything of the sandbox but tombstone and owner lock, following no link, whatever the guest has
     * left there. Refused without a tombstone. Repeatable. Source: RG-DEL-04, RG-DEL-08.
     */
    readonly reclaim: (sandbox: SandboxId) => Effect.Effect<void, RunStateFailure>
  }
>()("holdfast/domain/reclamation/RunState") {
  declare readonly [OutsideTransaction]: true
}
