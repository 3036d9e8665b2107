/**
 * What runs on the other side of an SSH connection: POSIX sh and nothing that is not there on any machine. Each script
 * prints a line with a mark of this call when the command begins, and one with its outcome when it has ended, both on its
 * standard output.
 */

/** One word for a POSIX shell, whatever is in it. */
export const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

const scriptCommand = (script: string, args: ReadonlyArray<string>): string =>
  ["exec", "sh", "-c", quoted(script), "holdfast", ...args.map(quoted)].join(" ")

/** Folder on the host where it is noted which process groups a lease has. */
const notes = '"$HOME/.holdfast/leases/$lease"'

/**
 * Arguments: mark, lease, bytes of the environment, bytes of the input, working directory, then the command. Both come on
 * standard input, the environment as a script, since everybody on that machine may read arguments. What comes after them is
 * only waited for: when it ends, the daemon is gone or wants the command to end.
 */
const runScript = `
mark=$1 lease=$2 variables=$3 bytes=$4 folder=$5
shift 5
umask 077
notes=${notes}
mkdir -p "$notes" || exit 1
exec 3<&0
head -c "$variables" <&3 >"$notes/environment.$$" || exit 1
head -c "$bytes" <&3 >"$notes/input.$$" || exit 1
mkdir -p -- "$folder" 2>/dev/null
cd -- "$folder" 2>/dev/null || { rm -f "$notes/input.$$" "$notes/environment.$$"; printf '%s folder\\n' "$mark"; exit 1; }
printf '%s start\\n' "$mark"
HOLDFAST_ENVIRONMENT_LEASE=$lease setsid sh -c '. "$0" && rm -f "$0" && exec "$@"' \
  "$notes/environment.$$" "$@" <"$notes/input.$$" 3<&- &
child=$!
echo "$child" >"$notes/group.$child"
{ cat <&3 >/dev/null; kill -s KILL -- "-$child"; } >/dev/null 2>&1 &
watcher=$!
wait "$child"
status=$?
kill -s KILL -- "-$child" 2>/dev/null
kill "$watcher" 2>/dev/null
rm -f "$notes/input.$$" "$notes/group.$child"
rmdir "$notes" 2>/dev/null
printf '\\n%s status %s\\n' "$mark" "$status"
`

/** Arguments: mark, lease. Looks at the notes, and at the environment of every process of this user. */
const endScript = `
mark=$1 lease=$2
notes=${notes}
printf '%s start\\n' "$mark"
left() {
  for environ in /proc/[0-9]*/environ; do
    pid=\${environ#/proc/}
    pid=\${pid%/environ}
    [ "$pid" = "$$" ] || ! tr '\\0' '\\n' <"$environ" 2>/dev/null | grep -qx "HOLDFAST_ENVIRONMENT_LEASE=$lease" || echo "$pid"
  done
}
tries=0
while [ "$tries" -lt 20 ]; do
  for note in "$notes"/group.*; do
    [ -e "$note" ] && kill -s KILL -- "-$(cat "$note")" 2>/dev/null
  done
  pids=$(left)
  [ -n "$pids" ] || break
  kill -s KILL $pids 2>/dev/null
  tries=$((tries + 1))
  sleep 0.1
done
count=$(left | wc -l)
[ "$count" -gt 0 ] || rm -rf "$notes"
printf '\\n%s status %s\\n' "$mark" "$((count))"
`

export const runCommandLine = (asked: {
  readonly mark: string
  readonly lease: string
  readonly environmentBytes: number
  readonly inputBytes: number
  readonly folder: string
  readonly argv: ReadonlyArray<string>
}): string =>
  scriptCommand(runScript, [
    asked.mark,
    asked.lease,
    String(asked.environmentBytes),
    String(asked.inputBytes),
    asked.folder,
    ...asked.argv
  ])

/** The variables as lines of sh. */
export const environmentScript = (environment: { readonly [name: string]: string }): string =>
  Object.entries(environment)
    .map(([name, value]) => `export ${name}=${quoted(value)}\n`)
    .join("")

export const endCommandLine = (mark: string, lease: string): string => scriptCommand(endScript, [mark, lease])

/** What the marks have told so far. */
export interface Marks {
  started: boolean
  folderRefused: boolean
  status: number | null
}

/**
 * Takes the marks out of a standard output as it comes, and hands on what is the command's. The line of the end has a
 * line break of its own before it, so an output without one stays as it was.
 */
export const markReader = (mark: string, take: (text: string) => void) => {
  const marks: Marks = { started: false, folderRefused: false, status: null }
  const ending = new RegExp(`\\n${mark} status (\\d+)\\n$`)
  let held = ""
  const begin = (): boolean => {
    const at = held.indexOf("\n")
    if (at === -1) return false
    const line = held.slice(0, at)
    held = held.slice(at + 1)
    marks.started = line === `${mark} start`
    marks.folderRefused = line === `${mark} folder`
    return marks.started
  }
  const lastLine = `\n${mark} status `
  const mayEnd = (text: string): boolean =>
    lastLine.startsWith(text) ||
    (text.startsWith(lastLine) && /^\d{0,3}\n?$/.test(text.slice(lastLine.length)))
  /** Only what may be the beginning of the last line is kept until more has come: a quiet command's words are not. */
  const readyLength = (): number => {
    let at = held.indexOf("\n", Math.max(0, held.length - lastLine.length - "000\n".length))
    while (at !== -1 && !mayEnd(held.slice(at))) at = held.indexOf("\n", at + 1)
    return at === -1 ? held.length : at
  }
  return {
    marks,
    push: (text: string): void => {
      held += text
      if (!marks.started && !begin()) return
      const ready = readyLength()
      if (ready === 0) return
      take(held.slice(0, ready))
      held = held.slice(ready)
    },
    end: (): void => {
      const found = ending.exec(held)
      if (found !== null) marks.status = Number(found[1])
      if (marks.started) take(found === null ? held : held.slice(0, found.index))
      held = ""
    }
  }
}
