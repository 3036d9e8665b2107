/**
 * What the demo shows: numbered chapters, progress bars, command output behind a margin, small charts. On a terminal
 * bars are drawn in place; in a log each one is a line when it is full.
 */
import { progressBar, sparkline } from "../src/infra/cli/text.ts"

const drawn = process.stdout.isTTY
const columnsOf = (): number => process.stdout.columns ?? 100

let chapters = 0
const startedAt = performance.now()

const write = (text: string): void => void process.stdout.write(text)

export const chapter = (title: string): void => {
  chapters += 1
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1).padStart(5)
  write(`\n${seconds} s  ${chapters}. ${title}\n`)
}

export const say = (sentence: string): void => write(`         ${sentence}\n`)

/** Draws the bar; it is finished when the fraction reaches 1. */
export const bar = (fraction: number, label: string): void => {
  const line = progressBar(fraction, label, columnsOf() - 9)
  if (drawn) write(`\r\u001b[2K         ${line}${fraction >= 1 ? "\n" : ""}`)
  else if (fraction >= 1) write(`         ${line}\n`)
}

/** Clears a bar that was left unfinished. */
export const clearBar = (): void => {
  if (drawn) write("\r\u001b[2K")
}

/** Output of a command in the guest, each line behind a margin. */
export const output = (text: string): void => {
  for (const line of text.split("\n")) if (line !== "") write(`         │ ${line}\n`)
}

export const chart = (name: string, values: ReadonlyArray<number>, show: (value: number) => string): void => {
  if (values.length === 0) return say(`${name.padEnd(8)} cannot be measured here`)
  const cells = Math.max(8, columnsOf() - 60)
  say(
    `${name.padEnd(8)} ${sparkline(values, cells)}  from ${show(Math.min(...values))} to ${show(Math.max(...values))}`
  )
}
