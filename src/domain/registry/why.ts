/**
 * Why a sandbox is what it is: the chain from the request to the proof, told from durable facts only. Each step says
 * when it was, who wanted it, and what is known of it. What is not known is said to be unknown, never guessed. Pure.
 * Source: BX-02, FC-22.
 */
import { type AbsenceProof, describeProof } from "../guests/AbsenceProof.ts"
import type { SandboxId } from "../Identity.ts"
import type { Provenance } from "../reclamation/Provenance.ts"

/** The steps in the order of the chain. A state comes as often as it was taken. */
export const whySteps = [
  "request",
  "admission",
  "intention",
  "guest",
  "state",
  "deletion",
  "absence",
  "tombstone",
  "reservation"
] as const

export interface WhyStep {
  readonly step: (typeof whySteps)[number]
  /** By the node's clock; null: it has not happened, or the time is not remembered. */
  readonly atMillis: number | null
  /** Who wanted it; null: it has not happened, or is not known. */
  readonly actor: string | null
  /** One sentence. */
  readonly told: string
  readonly facts: Readonly<Record<string, string | number>>
}

/** What is on disk about a sandbox: its provenance, from its record or from its tombstone, and its published proof. */
export interface WhyFacts {
  readonly sandbox: SandboxId
  readonly provenance: Provenance | null
  /** Whether the registry still has the record, and with it the reservation. */
  readonly isCharged: boolean
  readonly proof: AbsenceProof | null
}

type Facts = WhyStep["facts"]

/** Who acts on what others have asked for. */
const theNode = "node"

const step = (
  name: WhyStep["step"],
  told: string,
  rest: { readonly atMillis?: number | null; readonly actor?: string | null; readonly facts?: Facts } = {}
): WhyStep => ({
  step: name,
  atMillis: rest.atMillis ?? null,
  actor: rest.actor ?? null,
  told,
  facts: rest.facts ?? {}
})

const requestStep = ({ createdAtMillis, origin, project }: Provenance): WhyStep =>
  origin !== null
    ? step("request", `asked for under the key ${origin.key}`, {
        atMillis: createdAtMillis,
        actor: origin.actor,
        facts: { key: origin.key, hash: origin.hash }
      })
    : project !== null
      ? step("request", `asked for by an operation of project ${project}`, {
          atMillis: createdAtMillis,
          actor: `project ${project}`,
          facts: { project }
        })
      : step("request", "asked for by a program, without a key", { atMillis: createdAtMillis })

const admissionStep = ({ cpuMillis, createdAtMillis, memoryBytes }: Provenance): WhyStep =>
  step("admission", `charged with ${cpuMillis} thousandths of a CPU and ${memoryBytes} bytes`, {
    atMillis: createdAtMillis,
    actor: theNode,
    facts: { sandboxes: 1, cpuMillis, memoryBytes }
  })

const intentionStep = ({ createdAtMillis, expiresAtMillis, origin }: Provenance): WhyStep =>
  step("intention", "recorded durably as Pending before anything of it existed", {
    atMillis: createdAtMillis,
    actor: theNode,
    facts: {
      expiresAtMillis,
      ...(origin?.startedAtMillis == null ? {} : { startedAtMillis: origin.startedAtMillis })
    }
  })

const guestStep = ({ guest }: Provenance): WhyStep =>
  guest === null
    ? step("guest", "no guest of it is recorded")
    : step(
        "guest",
        `carried by ${guest.supervisor}, init ${guest.init.pid} (start ${guest.init.startTicks}) of boot ${guest.bootId}`,
        {
          actor: theNode,
          facts: {
            supervisor: guest.supervisor,
            generation: guest.generation,
            pid: guest.init.pid,
            startTicks: guest.init.startTicks,
            bootId: guest.bootId,
            userId: guest.userId
          }
        }
      )

const stateSteps = ({ history, statusReason }: Provenance): ReadonlyArray<WhyStep> =>
  history.map(({ atMillis, status, wanted }, index) => {
    const why = index === history.length - 1 && statusReason !== null ? `: ${statusReason}` : ""
    return step("state", `became ${status} for ${wanted}${why}`, {
      atMillis,
      actor: theNode,
      facts: { status, wanted }
    })
  })

const deletionStep = ({ deletion }: Provenance): WhyStep =>
  deletion === null
    ? step("deletion", "nobody has asked for its deletion")
    : step("deletion", `its deletion was intended durably: ${deletion.reason}`, {
        atMillis: deletion.requestedAtMillis,
        actor: deletion.actor,
        facts: { reason: deletion.reason }
      })

const proofSteps = ({ proof }: WhyFacts): ReadonlyArray<WhyStep> =>
  proof === null
    ? [step("absence", "its absence is not proved"), step("tombstone", "no tombstone is published")]
    : [
        step("absence", describeProof(proof), {
          atMillis: proof.observedAtMillis,
          actor: theNode,
          facts: {
            evidence: proof.evidence._tag,
            generation: proof.generation,
            ...(proof.exit?.exitCode == null ? {} : { exitCode: proof.exit.exitCode })
          }
        }),
        step("tombstone", "its tombstone is published and fences the id for ever", { actor: theNode })
      ]

/** What the reservation waits for, or that it is given back. */
const reservationStep = ({ provenance, isCharged, proof }: WhyFacts): WhyStep => {
  if (!isCharged) return step("reservation", "given back, for the proof of its absence", { actor: theNode })
  if (proof !== null) return step("reservation", "kept until its files are removed behind the tombstone")
  return step(
    "reservation",
    provenance?.deletion == null ? "kept, as long as it is there" : "kept until its absence is proved"
  )
}

/** The whole chain. A sandbox that was reclaimed without a record has only its end. */
export const explain = (facts: WhyFacts): ReadonlyArray<WhyStep> => {
  const { provenance } = facts
  return [
    ...(provenance === null
      ? [step("request", "nothing of its request is remembered")]
      : [
          requestStep(provenance),
          admissionStep(provenance),
          intentionStep(provenance),
          guestStep(provenance),
          ...stateSteps(provenance),
          deletionStep(provenance)
        ]),
    ...proofSteps(facts),
    reservationStep(facts)
  ]
}
