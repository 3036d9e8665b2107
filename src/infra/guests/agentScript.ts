/**
 * The guest's init and agent: one POSIX shell script, mounted read-only, that takes orders by lines over two pipes.
 * It uses no program of the guest but /usr/bin/env, and that only to give commands the default signals back. What it
 * says about an execution is a claim of the guest; life, limits and absence are never taken from it.
 *
 *     in   ping ID | exec ID | term            out   pong ID KEEPER | started ID PID | done ID STATUS
 *          main PID | quit STATUS (from the keeper of the main command)
 *
 * An execution opens its outputs before it forks; the opens wait for the host, which first moves it into a cgroup of
 * its own. So nothing of a command ever runs outside.
 */

/** Where the agent's directory is mounted inside. */
export const agentMount = "/run/holdfast"

/** Names of the files in the agent's directory. */
export const agentFiles = {
  script: "init",
  orders: "in",
  answers: "out",
  environment: "environment",
  main: "main",
  passwd: "passwd",
  group: "group"
} as const

/** How an execution's processes are kept together: by a cgroup of the host, or by a session where there is none. */
export type ExecutionBond = "group" | "session"

export const agentScript = `#!/bin/sh
# Init and agent of a Holdfast guest. Orders come by lines on "in", answers go by lines to "out".
h=${agentMount}
bond=$2

# Runs one prepared script and reports its status. The opens wait until the host reads.
run() {
  exec 5>"$h/$1.out" 6>"$h/$1.err"
  if [ -e "$h/$1.in" ]; then exec <"$h/$1.in"; else exec </dev/null; fi
  (
    exec >&5 2>&6 3<&- 4>&- 5>&- 6>&-
    . ${agentMount}/environment
    . "${agentMount}/$1.sh"
  )
  printf 'done %s %s\\n' "$1" "$?" >&4
}

# Background commands of a shell ignore INT and QUIT; env gives a command the defaults back.
if /usr/bin/env --default-signal=INT,QUIT true 2>/dev/null; then
  launch() { exec /usr/bin/env --default-signal=INT,QUIT -- "$@"; }
else
  launch() { exec "$@"; }
fi

if [ "$1" = run ]; then
  run "$3"
  exit 0
fi

exec 3<>"$h/in" 4<>"$h/out" </dev/null >/dev/null 2>&1

# Runs the main command and tells the agent its pid and its status.
keep() {
  (
    exec 3<&- 4>&-
    . ${agentMount}/environment
    . ${agentMount}/main
  ) &
  m=$!
  printf 'main %s\\n' "$m" >&3
  wait "$m"
  printf 'quit %s\\n' "$?" >&3
}

agent() {
  main=
  keeper=0
  if [ -e "$h/main" ]; then
    keep &
    keeper=$!
  fi
  while read -r verb id rest <&3; do
    # Collects the runners that have ended.
    jobs >/dev/null 2>&1
    case $verb in
    ping) printf 'pong %s %s\\n' "$id" "$keeper" >&4 ;;
    exec)
      if [ "$bond" = session ]; then
        setsid /bin/sh "$h/init" run session "$id" &
      else
        run "$id" &
      fi
      printf 'started %s %s\\n' "$id" "$!" >&4
      ;;
    main) main=$id ;;
    term) if [ -n "$main" ]; then kill -TERM "$main"; else exit 0; fi ;;
    quit) exit "$id" ;;
    esac
  done
}

# Init waits, and so collects whatever processes the guest leaves behind; its end is the guest's end.
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

/** Lines that become the command. A first word with "=" would be read by env as a variable. */
export const commandScript = (options: {
  readonly argv: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string
}): string =>
  [
    environmentScript(options.environment),
    `cd ${quote(options.workingDirectory)} || exit 126\n`,
    `${options.argv[0]?.includes("=") === true ? "exec" : "launch"} ${options.argv.map(quote).join(" ")}\n`
  ].join("")

/** Users that the guest's programs can look up: its own, and nobody for what belongs to others. */
export const accountFiles = (innerUserId: number): { readonly passwd: string; readonly group: string } => ({
  passwd: `guest:x:${innerUserId}:${innerUserId}:guest:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n`,
  group: `guest:x:${innerUserId}:\nnogroup:x:65534:\n`
})
