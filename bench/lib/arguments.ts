/** Reads the command line of the benchmarks: which suites, how many rounds, how long. */

export interface BenchArguments {
  /** Ids of suites in lower case; none means all. */
  readonly suites: ReadonlyArray<string>
  readonly rounds: number
  readonly seconds: number
  /** A missed target fails the run. */
  readonly strict: boolean
}

export const usage = `usage: npm run bench -- [suite...] [--rounds N] [--seconds S] [--strict]
  suite         ids of suites, such as P1, or a group: registry, runtime; without them, all
  --rounds N    counted rounds, at least 5 (default 5)
  --seconds S   length of one run, at least 0.2 (default 1)
  --strict      a missed target fails the run; a void figure always does`

const numberAfter = (words: ReadonlyArray<string>, flag: string, fallback: number): number | null => {
  const at = words.indexOf(flag)
  if (at < 0) return fallback
  const value = Number(words[at + 1])
  return words[at + 1] === undefined || !Number.isFinite(value) ? null : value
}

/** Answers the arguments, or a sentence that says what is wrong with them. */
export const readArguments = (words: ReadonlyArray<string>): BenchArguments | string => {
  const rounds = numberAfter(words, "--rounds", 5)
  const seconds = numberAfter(words, "--seconds", 1)
  if (rounds === null || !Number.isInteger(rounds) || rounds < 5)
    return "--rounds takes a whole number of at least 5"
  if (seconds === null || seconds < 0.2) return "--seconds takes a number of at least 0.2"
  const values = new Set(
    ["--rounds", "--seconds"].map((flag) => words.indexOf(flag) + 1).filter((at) => at > 0)
  )
  const rest = words.filter((_, at) => !values.has(at))
  const unknown = rest.find(
    (word) => word.startsWith("-") && !["--rounds", "--seconds", "--strict"].includes(word)
  )
  if (unknown !== undefined) return `${unknown} is not known`
  return {
    suites: rest.filter((word) => !word.startsWith("-")).map((word) => word.toLowerCase()),
    rounds,
    seconds,
    strict: words.includes("--strict")
  }
}
