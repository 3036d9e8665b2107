/** P8: claims of repositories, each worker one of its own, and all of them the same one. */
import type { Suite } from "../lib/definition.ts"
import { productClaims, productProgram } from "../lib/leases.ts"
import { plainClaims, workersMax } from "../lib/leaseWork.ts"
import { onRuntimes } from "./leases.ts"

const common = {
  figure: { name: "perSecond", better: "higher" },
  beside: ["p50Millis", "p99Millis", "clientCpuMicros"],
  baseline: "pg, on conflict"
} as const

const own = (worker: number): number => worker + 1
const same = (): number => 1

export const repositories: Suite = {
  ...common,
  id: "P8",
  title: "repository claims, distinct",
  what: "Claim and release of a repository that nobody else wants. claimRepository is the program: register, handle, scope and evidence.",
  workers: [1, 4, workersMax],
  targets: [{ contender: "RepositoryClaims", ratioAtLeast: 0.95 }],
  open: () =>
    onRuntimes((settings) => [
      plainClaims(settings, own),
      productClaims(settings, own),
      productProgram(settings, own)
    ])
}

export const oneRepository: Suite = {
  ...common,
  id: "P8b",
  title: "repository claims, one key",
  what: "All workers try for one repository; a try counts, won or lost, and a winner releases it. A release that finds nothing voids the run.",
  workers: [1, 4, workersMax],
  targets: [{ contender: "RepositoryClaims", workers: [workersMax], ratioAtLeast: 1.5 }],
  open: () => onRuntimes((settings) => [plainClaims(settings, same), productClaims(settings, same)])
}
