/**
 * Text for terminals: aligned tables, progress bars, sizes and ages. Pure; no colour, so that it reads the same in a
 * log and on a screen.
 */

/** Columns aligned on the left with two spaces between; the last column is not padded. */
export const table = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths: Array<number> = []
  for (const row of rows) {
    row.forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, cell.length)
    })
  }
  return rows.map((row) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join("  ")
      .trimEnd()
  )
}

const barCellsMax = 40
const barCellsMin = 10

/** A bar with the share done and what is being done; never wider than the columns. */
export const progressBar = (fraction: number, label: string, columns: number): string => {
  const share = Math.min(1, Math.max(0, Number.isFinite(fraction) ? fraction : 0))
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  const cells = Math.max(barCellsMin, Math.min(barCellsMax, columns - percent.length - label.length - 5))
  const full = Math.floor(share * cells)
  const bar = `[${"#".repeat(full)}${".".repeat(cells - full)}] ${percent}  ${label}`
  return bar.slice(0, Math.max(1, columns - 1))
}

const sparkCells = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

/** The values as one line of blocks between their smallest and their largest; the newest `columns` of them. */
export const sparkline = (values: ReadonlyArray<number>, columns: number): string => {
  const shown = values.slice(-columns)
  const lowest = Math.min(...shown)
  const span = Math.max(...shown) - lowest
  return shown
    .map(
      (value) => sparkCells[span === 0 ? 0 : Math.round(((value - lowest) / span) * (sparkCells.length - 1))]
    )
    .join("")
}

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"]

/** Bytes in the largest unit that keeps the number at 1 or above. */
export const bytes = (count: number): string => {
  let value = count
  let unit = 0
  while (value >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 || Number.isInteger(value) ? value : value.toFixed(1)} ${byteUnits[unit]}`
}

/** Thousandths of a CPU as CPUs. */
export const cpus = (cpuMillis: number): string => `${cpuMillis / 1000} cpu`

const ageUnits: ReadonlyArray<readonly [seconds: number, unit: string]> = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"]
]

/** How long ago, in the largest whole unit; "now" for less than a second and for the future. */
export const ago = (thenMillis: number, nowMillis: number): string => {
  const seconds = Math.floor((nowMillis - thenMillis) / 1000)
  const found = ageUnits.find(([unitSeconds]) => seconds >= unitSeconds)
  return found === undefined ? "now" : `${Math.floor(seconds / found[0])} ${found[1]} ago`
}

/** A figure of a metric in its own unit; one that was never measured is unknown. */
export const figure = (metric: string, value: number | null): string => {
  const name = metric === "cpu_usec" ? "cpu" : metric.replace(/_bytes$/, "")
  if (value === null) return `${name} unknown`
  if (metric === "cpu_usec") return `${name} ${(value / 1_000_000).toFixed(2)} s`
  return metric.endsWith("_bytes") ? `${name} ${bytes(value)}` : `${name} ${value}`
}
