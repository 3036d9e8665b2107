/**
 * The guest's init and agent: one POSIX shell script, mounted read-only, that takes orders by lines over two pipes.
 * What it says about an execution is a claim of the guest; life, limits and absence are never taken from it.
 *
 *     in   ping ID | exec ID | term            out   pong ID KEEPER | started ID PID | begun ID | done ID STATUS
 *          signal ID NAME                                  signalled ID STATUS
 *          main PID | quit STATUS (from the keeper of the main command)
 *
 * PID 0 means that no process could be made. `exec` makes a runner, which opens its outputs before it does anything:
 * the opens wait for the host, which first moves it into a cgroup of its own. So nothing of a command ever runs
 * outside, and a runner can be made ready before there is a command for it.
 */

/** Where the agent's directory is mounted inside. */
export const agentMount = "/run/holdfast"

/** Names of the files in the agent's directory. */
export const agentFiles = {
  script: "init",
  orders: "in",
  answers: "out",
  /** Keeps a launch before its first instruction; of no use to the guest, and gone when it runs. */
  hold: "hold",
  environment: "environment",
  main: "main",
  passwd: "passwd",
  group: "group"
} as const

/** How an execution's processes are kept together: by a cgroup of the host, or by a session where there is none. */
export type ExecutionBond = "group" | "session"

export const agentScript = `#!/bin/sh
# Init and agent of a Holdfast guest. Orders come by lines on "in", answers go by lines to "out".
# First word: serve as init, run a command, become the main command, or be the agent again.
h=${agentMount}
bond=$2

# Runs one prepared script and reports its status. The opens wait until the host reads.
if [ "$1" = run ]; then
  exec 3<&-
  trap 'printf "done %s 126\\n" "$3" >&4' EXIT
  exec 5>"$h/$3.out" 6>"$h/$3.err" 2>&6
  if [ -e "$h/$3.in" ]; then exec <"$h/$3.in"; else exec </dev/null; fi
  (
    exec >&5 5>&- 6>&-
    . ${agentMount}/environment
    . "${agentMount}/$3.sh"
  )
  status=$?
  trap - EXIT
  printf 'done %s %s\\n' "$3" "$status" >&4
  exit 0
fi

# Becomes the main command.
if [ "$1" = main ]; then
  exec 3<&- 4>&-
  . ${agentMount}/environment
  . ${agentMount}/main
fi

# Background commands of a shell ignore INT and QUIT; env gives them the defaults back, where it can.
starter=
find_starter() {
  if [ "$signals" = ask ]; then
    signals=leave
    if /usr/bin/env --default-signal=INT,QUIT true; then signals=reset; fi
  fi
  starter=
  if [ "$signals" = reset ]; then starter='/usr/bin/env --default-signal=INT,QUIT'; fi
  if [ "$bond" = session ]; then starter="setsid $starter"; fi
}

# Runs the main command and tells the agent its pid and its status.
keep() {
  trap 'printf "quit 126\\n" >&3' EXIT
  bond=group
  find_starter
  $starter /bin/sh "$h/init" main &
  m=$!
  printf 'main %s\\n' "$m" >&3
  wait "$m"
  status=$?
  trap - EXIT
  printf 'quit %s\\n' "$status" >&3
}

# A shell that cannot fork gives up. The agent then says so and becomes itself again, which needs no fork.
resume() {
  if [ "$verb" = exec ]; then printf 'started %s 0\\n' "$id" >&4; fi
  exec /bin/sh "$h/init" agent "$bond" "$signals" "$main" "$keeper"
}

leave() {
  trap - EXIT
  exit "$1"
}

agent() {
  verb=
  trap resume EXIT
  if [ -z "$keeper" ]; then
    keeper=0
    if [ -e "$h/main" ]; then
      keep &
      keeper=$!
    fi
  fi
  while read -r verb id rest <&3; do
    # Collects the runners that have ended.
    jobs >/dev/null 2>&1
    case $verb in
    ping) printf 'pong %s %s\\n' "$id" "$keeper" >&4 ;;
    exec)
      find_starter
      $starter /bin/sh "$h/init" run "$bond" "$id" &
      printf 'started %s %s\\n' "$id" "$!" >&4
      ;;
    signal)
      [ -n "$main" ] && kill -s "$rest" "$main"
      printf 'signalled %s %s\\n' "$id" "$?" >&4
      ;;
    main) main=$id ;;
    term) if [ -n "$main" ]; then kill -TERM "$main"; else leave 0; fi ;;
    quit) leave "$id" ;;
    esac
    verb=
  done
}

signals=$3
main=$4
keeper=$5
if [ "$1" = agent ]; then agent; fi

# Init waits, and so collects whatever processes the guest leaves behind; its end is the guest's end.
exec 3<>"$h/in" 4<>"$h/out" </dev/null >/dev/null 2>&1
agent &
wait "$!"
exit "$?"
`

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Names that a shell can carry: letters, digits and underscores, no digit first. */
export const isEnvironmentName = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)

/** Lines that set an environment, exact for every byte but NUL. PATH comes last: nothing is looked up before it. */
export const environmentScript = (environment: Readonly<Record<string, string>>): string =>
  Object.entries(environment)
    .toSorted(([left], [right]) => Number(left === "PATH") - Number(right === "PATH"))
    .map(([name, value]) => `export ${name}=${quote(value)}\n`)
    .join("")

/** Lines that become the command. */
export const commandScript = (options: {
  readonly argv: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string
}): string =>
  [
    environmentScript(options.environment),
    `cd ${quote(options.workingDirectory)} || exit 126\n`,
    `exec ${options.argv.map(quote).join(" ")}\n`
  ].join("")

/**
 * The same for a runner, which has said before that the script is open: its file, which holds the environment, can go.
 */
export const runnerScript = (channel: string, options: Parameters<typeof commandScript>[0]): string =>
  `printf 'begun %s\\n' ${quote(channel)} >&4; exec 4>&-\n${commandScript(options)}`

/** Users that the guest's programs can look up: its own, and nobody for what belongs to others. */
export const accountFiles = (innerUserId: number): { readonly passwd: string; readonly group: string } => ({
  passwd: `guest:x:${innerUserId}:${innerUserId}:guest:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n`,
  group: `guest:x:${innerUserId}:\nnogroup:x:65534:\n`
})
