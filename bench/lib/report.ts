/** Prints the result of a suite as a table, and keeps it as JSON beside it. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Suite } from "./definition.ts"
import type { Row, SuiteResult, Verdict } from "./runSuite.ts"
import type { Spread } from "./statistics.ts"

const figure = (value: number | undefined): string => {
  if (value === undefined || !Number.isFinite(value)) return "-"
  if (value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(3)
}

const spread = ({ median, min, max }: Spread): string =>
  Number.isFinite(median) ? `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})` : "-"

const rowText = (suite: Suite, row: Row): ReadonlyArray<string> => [
  String(row.workers),
  row.contender,
  row.void.length > 0 ? "VOID" : spread(row.ratio),
  ...[suite.figure.name, ...suite.beside].map((name) => figure(row.figures[name])),
  String(row.rounds)
]

const aligned = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 1 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join("  ")
      .trimEnd()
  )
}

const verdictWord = ({ met }: Verdict): string => {
  if (met === null) return "not judged, left out:"
  return met ? "met   " : "MISSED"
}

const verdictText = (verdict: Verdict): string =>
  `${verdictWord(verdict)} ${verdict.target} at ${verdict.workers}: ${spread(verdict.value)}`

/** The lines that people read. Ratios are the median of the rounds, with the smallest and the largest. */
export const linesOf = (suite: Suite, result: SuiteResult): ReadonlyArray<string> => [
  "",
  `${suite.id} ${suite.title}`,
  suite.what,
  ...Object.entries(result.setting).map(([name, value]) => `  ${name}: ${value}`),
  `  load of the machine: ${result.load.map((value) => value.toFixed(2)).join(" before, ")} after`,
  "",
  ...aligned([
    [
      suite.loadName ?? "workers",
      "contender",
      `ratio to ${suite.baseline}`,
      suite.figure.name,
      ...suite.beside,
      "rounds"
    ],
    ...result.rows.map((row) => rowText(suite, row))
  ]),
  ...result.leftOut.map(({ name, why }) => `left out: ${name}: ${why}`),
  ...result.rows.flatMap((row) => row.void.map((why) => `VOID ${row.contender} at ${row.workers}: ${why}`)),
  "",
  ...result.verdicts.map(verdictText)
]

/** Writes the whole result, every run included, and answers the path. */
export const keep = (directory: string, result: SuiteResult): string => {
  mkdirSync(directory, { recursive: true })
  const path = join(directory, `${result.suite}.json`)
  // JSON has no NaN: what was not measured becomes null.
  writeFileSync(path, `${JSON.stringify(result, null, 1)}\n`)
  return path
}
