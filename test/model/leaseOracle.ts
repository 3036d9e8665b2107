/**
 * What leases and repository claims are by the rules, in memory and one command at a time: written from the rules and
 * without any of the product's code, so that the two can disagree. Time is two marks: a row is silent when the
 * database's clock has left its term behind, a holder is late when its own monotonic clock has. Source: SP-LEASE.
 */

export type Marker = "none" | "requested" | "verified"
export type Kind = "execution" | "repository"

export interface OracleProject {
  readonly name: string
  generation: number
  isActive: boolean
  isRunning: boolean
}

/** A row of either table; `key` is the execution's name, or the repository within its Project. */
export interface OracleRow {
  readonly name: string
  readonly kind: Kind
  readonly key: string
  readonly project: string
  readonly generation: number
  process: string
  cancel: Marker
  isSilent: boolean
}

/** What a process believes that it holds. */
export interface OracleHolding {
  readonly name: string
  readonly kind: Kind
  readonly key: string
  readonly project: string
  readonly generation: number
  readonly process: string
  cancel: Marker
  isLate: boolean
  lost: string | null
  /** How it ended, or null while it is held. */
  outcome: string | null
}

export interface Seen {
  readonly name: string
  readonly kind: Kind
  readonly process: string
  readonly isSilent: boolean
  readonly project: string
  readonly generation: number
}

const order: ReadonlyArray<Marker> = ["none", "requested", "verified"]
const further = (one: Marker, other: Marker): Marker =>
  order.indexOf(one) >= order.indexOf(other) ? one : other

export class LeaseOracle {
  readonly projects = new Map<string, OracleProject>()
  rows: Array<OracleRow> = []
  /** In the order of admission; what has ended stays. */
  readonly holdings = new Map<string, OracleHolding>()

  project(name: string): OracleProject {
    return this.projects.get(name)!
  }

  row({ kind, name }: { readonly kind: Kind; readonly name: string }): OracleRow | undefined {
    return this.rows.find((each) => each.kind === kind && each.name === name)
  }

  private isCurrent({ generation, project }: Pick<OracleRow, "generation" | "project">): boolean {
    return this.project(project).generation === generation
  }

  private add(holding: OracleHolding): void {
    const { cancel, generation, key, kind, name, process, project } = holding
    this.rows.push({ name, kind, key, project, generation, process, cancel, isSilent: false })
  }

  private hold(asked: Omit<OracleHolding, "cancel" | "isLate" | "lost" | "outcome">): void {
    const holding: OracleHolding = { ...asked, cancel: "none", isLate: false, lost: null, outcome: null }
    this.holdings.set(holding.name, holding)
    this.add(holding)
  }

  admit(name: string, project: string, process: string, isMember: boolean): string {
    const { generation, isActive, isRunning } = this.project(project)
    if (!isActive) return "ProjectNotActive"
    if (!isMember) return "AccessRefused"
    if (!isRunning) return "RuntimeNotRunning"
    this.hold({ name, kind: "execution", key: name, project, generation, process })
    return "admitted"
  }

  /** One holder of a repository, whatever became of him; only a sweep takes it from a dead one. */
  claim(
    name: string,
    asked: { readonly project: string; readonly key: string; readonly generation: number },
    process: string
  ): string {
    const holder = this.rows.find(
      (each) => each.kind === "repository" && each.project === asked.project && each.key === asked.key
    )
    if (holder !== undefined) return `RepositoryBusy ${holder.process}`
    if (!this.isCurrent(asked)) return "LeaseLost generation"
    this.hold({ name, kind: "repository", process, ...asked })
    return "won"
  }

  /** What the table holds where this holding's row would be. */
  private inItsPlace(holding: OracleHolding): OracleRow | undefined {
    return this.rows.find(
      (each) => each.kind === holding.kind && each.project === holding.project && each.key === holding.key
    )
  }

  private isRowOf(row: OracleRow | undefined, holding: OracleHolding): row is OracleRow {
    return row?.name === holding.name && row.process === holding.process
  }

  private renew(holding: OracleHolding): string {
    const row = this.inItsPlace(holding)
    const isCurrent = this.isCurrent(holding)
    if (this.isRowOf(row, holding) && isCurrent && row.cancel !== "verified") {
      row.isSilent = false
      row.cancel = further(row.cancel, holding.cancel)
      return "renewed"
    }
    if (!isCurrent) return "generation"
    if (row === undefined && !holding.isLate) {
      this.add(holding)
      return "restored"
    }
    if (row !== undefined) return this.isRowOf(row, holding) ? "cancelled" : "successor"
    return "expired"
  }

  heldBy(process: string): ReadonlyArray<OracleHolding> {
    return [...this.holdings.values()].filter((each) => each.process === process && each.outcome === null)
  }

  /** Every holding that is not lost is asked about once; the answer by its name. */
  heartbeat(process: string): ReadonlyMap<string, string> {
    const answers = new Map<string, string>()
    for (const holding of this.heldBy(process).filter(({ lost }) => lost === null)) {
      const answer = this.renew(holding)
      answers.set(holding.name, answer)
      if (answer === "renewed" || answer === "restored") holding.isLate = false
      else holding.lost = answer
      const row = this.row(holding)
      if (row !== undefined) holding.cancel = further(holding.cancel, row.cancel)
    }
    return answers
  }

  isValid(name: string): boolean {
    const { isLate, lost, outcome } = this.holdings.get(name)!
    return outcome === null && lost === null && !isLate
  }

  confirm(name: string): string {
    const holding = this.holdings.get(name)!
    if (holding.outcome !== null) return "settled"
    if (holding.lost !== null) return holding.lost
    if (holding.isLate) return "expired"
    const row = this.inItsPlace(holding)
    if (!this.isCurrent(holding)) return "generation"
    if (row === undefined) return "absent"
    if (!this.isRowOf(row, holding)) return "successor"
    if (row.cancel !== "none") return "cancelled"
    return row.isSilent ? "expired" : "usable"
  }

  private remove(row: OracleRow): void {
    this.rows = this.rows.filter((each) => each !== row)
  }

  /** A cancelled execution leaves its tombstone, even where its row has gone; one of an ended machine needs none. */
  private entomb(holding: OracleHolding): string {
    const row = this.row(holding)
    if (!this.isCurrent(holding) || (row !== undefined && row.process !== holding.process)) return "absent"
    holding.cancel = "verified"
    if (row === undefined) this.add(holding)
    else row.cancel = "verified"
    return "cancelled"
  }

  private settle(holding: OracleHolding): string {
    if (holding.kind === "execution" && holding.cancel !== "none") return this.entomb(holding)
    const row = this.inItsPlace(holding)
    if (!this.isRowOf(row, holding)) return "absent"
    if (row.cancel === "none") {
      this.remove(row)
      return "released"
    }
    row.cancel = "verified"
    return "cancelled"
  }

  finalize(name: string, isEnded: boolean): string {
    const holding = this.holdings.get(name)!
    if (holding.outcome !== null) return holding.outcome
    if (!isEnded) return "retained"
    holding.outcome = this.settle(holding)
    return holding.outcome
  }

  /** The machine of that generation is proved gone to this process; answers how many holdings end by it. */
  proveGone(process: string, project: string, generation: number): number {
    const ended = this.heldBy(process).filter(
      (each) => each.project === project && each.generation === generation
    )
    for (const each of ended) this.finalize(each.name, true)
    return ended.length
  }

  /** Asked by any process: whoever holds it knows at once where it is the asker, else with a heartbeat. */
  cancel(name: string, asker: string): string {
    const holding = this.holdings.get(name)!
    const row = this.row({ kind: "execution", name })
    const isAskersOwn = holding.process === asker && holding.outcome === null
    if (!isAskersOwn) {
      if (row === undefined) return "LeaseNotFound"
      row.cancel = further(row.cancel, "requested")
      return row.cancel
    }
    if (holding.cancel === "none" && row !== undefined) row.cancel = further(row.cancel, "requested")
    holding.cancel = further(further(holding.cancel, "requested"), row?.cancel ?? "none")
    return holding.cancel
  }

  cancelAll(project: string, asker: string): ReadonlyArray<string> {
    const asked = this.rows.filter(
      (each) => each.kind === "execution" && each.project === project && each.cancel !== "verified"
    )
    for (const row of asked) row.cancel = "requested"
    for (const holding of this.heldBy(asker)) {
      if (holding.kind === "execution" && holding.project === project) {
        holding.cancel = further(holding.cancel, "requested")
      }
    }
    return asked.map(({ name }) => name)
  }

  /** Rows that a sweep of the node looks at: a tombstone is nobody's work. */
  inventory(isOfNode: (process: string) => boolean): ReadonlyArray<Seen> {
    return this.rows
      .filter((each) => isOfNode(each.process) && each.cancel !== "verified")
      .map((each) => ({ ...each }))
  }

  /** Expired then, of a dead process whose guest is known to be over, or the sweeper's own and not held: and still so. */
  sweep(
    inventory: ReadonlyArray<Seen>,
    sweeper: string,
    facts: { readonly isDead: (process: string) => boolean; readonly isOver: (seen: Seen) => boolean }
  ): ReadonlyArray<string> {
    const isHeld = (name: string) => this.holdings.get(name)?.outcome === null
    const stale = inventory.filter((seen) => {
      if (!seen.isSilent) return false
      if (seen.process === sweeper)
        return !(this.holdings.get(seen.name)?.process === sweeper && isHeld(seen.name))
      return facts.isDead(seen.process) && facts.isOver(seen)
    })
    const gone = stale.flatMap((seen) => {
      const row = this.row(seen)
      return row?.process === seen.process && row.cancel !== "verified" ? [row] : []
    })
    for (const row of gone) this.remove(row)
    return gone.map(({ name }) => name)
  }

  takeOver(seen: Seen, successor: string): boolean {
    const row = this.row(seen)
    if (row?.process !== seen.process || row.cancel === "verified" || !row.isSilent) return false
    row.process = successor
    row.isSilent = false
    return true
  }

  removeEnded(): number {
    const ended = this.rows.filter((each) => each.cancel === "verified" && !this.isCurrent(each))
    for (const row of ended) this.remove(row)
    return ended.length
  }
}
