/** The table of acquisition budgets: what is configured, what the provider declares, and what the call may take. */
export const acquisitionBudgets: ReadonlyArray<
  readonly [row: string, config: object, declared: number | undefined, budget: number | undefined]
> = [
  [
    "explicit provider and bridge budgets",
    { timeoutMs: 1234, bridgeRequestTimeoutMs: 40_000 },
    300_000,
    70_000
  ],
  ["declared acquisition default", {}, 300_000, 330_000],
  ["explicit shorter provider budget", { timeoutMs: 5000 }, 300_000, 35_000],
  [
    "bridge budget does not shorten acquisition default",
    { bridgeRequestTimeoutMs: 40_000 },
    300_000,
    330_000
  ],
  ["bridge extends the acquisition default", { bridgeRequestTimeoutMs: 400_000 }, 300_000, 430_000],
  ["undeclared provider retains worker default", {}, undefined, undefined],
  ["timeoutMs 1234, no bridge, undeclared", { timeoutMs: 1234 }, undefined, 31_234]
]
