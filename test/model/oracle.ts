/**
 * What operations and runtimes are by the rules, in memory and one command at a time: written from the rules and without
 * any of the product's code, so that the two can disagree. Time is no part of it. Source: SP-ADM, SP-OPS, SP-DEL-04.
 */

/** The newest receipts that a settlement leaves to a Project. Source: SP-OPS-04. */
const receiptsKept = 20

export interface OracleMachine {
  readonly sandbox: string
  readonly generation: number
  readonly node: string
}

export interface OracleOperation {
  readonly name: string
  readonly project: string
  readonly action: string
  readonly key: string
  readonly initiator: string
  readonly generation: number
  state: "queued" | "claimed" | "succeeded" | "failed" | "superseded"
  claimedBy: string | null
  claims: number
  /** Node that it waits for; null: any. Only while it is live. */
  node: string | null
  /** Machines of its recipes that are not proved gone, the newest last. */
  owed: ReadonlyArray<OracleMachine>
  newGeneration: number | null
  /** Sandbox of its new recipe. */
  made: string | null
}

export interface OracleRuntime {
  generation: number
  machine: OracleMachine | null
  observed: string
}

export interface OracleProject {
  readonly name: string
  isActive: boolean
  runtime: OracleRuntime | null
}

/** A claim as its holder knows it. */
export interface HeldBy {
  readonly daemon: string
  readonly claims: number
}

export interface Asked {
  readonly project: string
  readonly action: string
  readonly key: string
  readonly initiator: "user" | "system"
  readonly expected: number | null
  /** Name of the operation, should it be a new one. */
  readonly name: string
}

export class Oracle {
  readonly projects = new Map<string, OracleProject>()
  /** In the order of admission. */
  operations: Array<OracleOperation> = []

  project(name: string): OracleProject {
    const found = this.projects.get(name)
    if (found === undefined) throw new Error(`the test knows no project ${name}`)
    return found
  }

  operation(name: string): OracleOperation {
    const found = this.operations.find((each) => each.name === name)
    if (found === undefined) throw new Error(`the test knows no operation ${name}`)
    return found
  }

  live(project: string): OracleOperation | undefined {
    return this.operations.find(
      (each) => each.project === project && (each.state === "queued" || each.state === "claimed")
    )
  }

  /** What a request is answered with; an admission changes the state. */
  admit(asked: Asked): string {
    const project = this.project(asked.project)
    if (!project.isActive) return "ProjectNotActive"
    const receipt = this.operations.find((each) => each.project === asked.project && each.key === asked.key)
    if (receipt !== undefined) return this.askAgain(receipt, project, asked)
    const runtime =
      project.runtime ??
      (asked.action === "provision" ? { generation: 1, machine: null, observed: "unprovisioned" } : null)
    if (runtime === null) return "RuntimeNotProvisioned"
    if (asked.expected !== null && asked.expected !== runtime.generation) return "GenerationConflict"
    const live = this.live(asked.project)
    if (live !== undefined && !this.givesWay(live, asked)) return "OperationInProgress"
    if (asked.action !== "provision" && runtime.machine === null) return "RuntimeNotProvisioned"
    if (asked.action === "provision" && this.isWhole(runtime)) return "RuntimeAlreadyProvisioned"
    if (live !== undefined) live.state = "superseded"
    project.runtime = runtime
    this.operations.push({
      name: asked.name,
      project: asked.project,
      action: asked.action,
      key: asked.key,
      initiator: asked.initiator,
      generation: runtime.generation,
      state: "queued",
      claimedBy: null,
      claims: 0,
      node: this.nodeOf(project),
      owed: [],
      newGeneration: null,
      made: null
    })
    return "admitted"
  }

  private askAgain(receipt: OracleOperation, project: OracleProject, asked: Asked): string {
    const isSame =
      receipt.action === asked.action && (asked.expected === null || asked.expected === receipt.generation)
    if (!isSame) return "RequestKeyConflict"
    if (receipt.state !== "failed") return "repeated"
    if (project.runtime === null) return "RuntimeNotProvisioned"
    const { generation } = project.runtime
    if (receipt.generation !== generation && receipt.newGeneration !== generation) return "GenerationConflict"
    const live = this.live(asked.project)
    if (live !== undefined && !this.givesWay(live, asked)) return "OperationInProgress"
    if (receipt.action === "provision" && this.isWhole(project.runtime)) {
      // What another request has provisioned meanwhile is not put away by one that failed before.
      if (project.runtime.machine?.sandbox !== receipt.made) return "RuntimeAlreadyProvisioned"
    }
    if (live !== undefined) live.state = "superseded"
    receipt.state = "queued"
    receipt.node = this.nodeOf(project)
    return "rearmed"
  }

  private isWhole({ machine, observed }: OracleRuntime): boolean {
    return machine !== null && ["running", "stopped"].includes(observed)
  }

  private givesWay(live: OracleOperation, { action, initiator }: Asked): boolean {
    const isAutomatic = live.action === "recover" && live.initiator === "system"
    return action === "stop" && initiator === "user" && isAutomatic && live.state === "queued"
  }

  /** The node of the machine that there is, else of the newest that is owed. */
  private nodeOf(project: OracleProject): string | null {
    const newest = this.operations.findLast((each) => each.project === project.name && each.owed.length > 0)
    return project.runtime?.machine?.node ?? newest?.owed.at(-1)?.node ?? null
  }

  /** The operation that a daemon of the node gets; ordinary work of closed Projects before it is superseded. */
  claim(daemon: string, node: string): string | null {
    for (const each of this.operations) {
      if (each.state !== "queued" || (each.node !== null && each.node !== node)) continue
      if (this.project(each.project).isActive) {
        each.state = "claimed"
        each.claimedBy = daemon
        each.claims += 1
        return each.name
      }
      each.state = "superseded"
    }
    return null
  }

  isHeld(each: OracleOperation, { claims, daemon }: HeldBy): boolean {
    return each.state === "claimed" && each.claimedBy === daemon && each.claims === claims
  }

  /** The holder has made the machine: on its receipt first, then in the runtime's row. */
  make(name: string, held: HeldBy, machine: OracleMachine): "saved" | "ClaimLost" {
    const each = this.operation(name)
    if (!this.isHeld(each, held)) return "ClaimLost"
    const project = this.project(each.project)
    each.newGeneration = machine.generation
    each.made = machine.sandbox
    each.owed = [machine]
    if (project.runtime !== null && project.runtime.generation === each.generation) {
      project.runtime.machine = machine
      each.node = machine.node
    }
    return "saved"
  }

  /** The holder has put the next machine in the old one's place in the row, and then both on its receipt. */
  replace(name: string, held: HeldBy, next: OracleMachine): "saved" | "ClaimLost" {
    const each = this.operation(name)
    if (!this.isHeld(each, held)) return "ClaimLost"
    const { runtime } = this.project(each.project)
    if (runtime?.machine == null) throw new Error("the test replaces a machine that is not there")
    // The row holds the next one: only the old one has no other place.
    each.owed = [runtime.machine]
    each.newGeneration = next.generation
    each.made = next.sandbox
    runtime.generation = next.generation
    runtime.machine = next
    return "saved"
  }

  settle(
    name: string,
    held: HeldBy,
    outcome: { readonly state: "succeeded" | "failed"; readonly observed: string }
  ): "settled" | "ClaimLost" {
    const each = this.operation(name)
    if (!this.isHeld(each, held)) return "ClaimLost"
    each.state = outcome.state
    each.claimedBy = null
    const { runtime } = this.project(each.project)
    const generations = [each.generation, each.newGeneration]
    if (runtime !== null && generations.includes(runtime.generation)) runtime.observed = outcome.observed
    this.trim(each.project)
    return "settled"
  }

  /** Receipts that settlements have removed. */
  trimmed = 0

  private trim(project: string): void {
    const all = this.operations.filter((each) => each.project === project)
    const old = new Set(all.slice(0, Math.max(0, all.length - receiptsKept)))
    const isFinal = (each: OracleOperation) => !["queued", "claimed"].includes(each.state)
    const kept = this.operations.filter((each) => !(old.has(each) && isFinal(each) && each.owed.length === 0))
    this.trimmed += this.operations.length - kept.length
    this.operations = kept
  }

  release(name: string, held: HeldBy): boolean {
    const each = this.operation(name)
    if (!this.isHeld(each, held)) return false
    each.state = "queued"
    each.claimedBy = null
    return true
  }

  /** A daemon looks for the claims of dead ones of its node; answers what it took back. */
  recover(node: string, isDead: (daemon: string) => boolean): number {
    let taken = 0
    for (const each of this.operations) {
      const isSeen = each.node === null || each.node === node
      if (each.state !== "claimed" || !isSeen || !isDead(each.claimedBy!)) continue
      each.state = "queued"
      each.claimedBy = null
      taken += 1
    }
    return taken
  }

  /** The machine is proved gone: no receipt owes it. */
  prove(project: string, sandbox: string): void {
    for (const each of this.operations) {
      if (each.project === project) each.owed = each.owed.filter((machine) => machine.sandbox !== sandbox)
    }
  }
}
