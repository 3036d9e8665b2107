/**
 * scripts/setup on machines that it has never seen: a copy of the script in a folder of its own, with a PATH that
 * holds nothing but doubles of the commands that it calls. Each double writes its name and arguments to a log.
 */
import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, assert, describe, it } from "@effect/vitest"

const script = fileURLToPath(new URL("../../scripts/setup", import.meta.url))
const made: Array<string> = []
afterEach(() => {
  for (const directory of made.splice(0)) Fs.rmSync(directory, { recursive: true, force: true })
})

interface Machine {
  readonly userId?: number
  /** Commands that are there and do nothing but log. */
  readonly commands?: ReadonlyArray<string>
  /** Shell text of commands that do more. */
  readonly scripts?: Readonly<Record<string, string>>
  readonly nodeVersion?: string
  /** Version of the Node that the npm packages bring; null when its install script was denied. */
  readonly ownNodeVersion?: string | null
  readonly environment?: Readonly<Record<string, string>>
}

const realCommands = ["sh", "cat", "sed", "dirname", "cksum", "env", "mkdir", "chmod", "rm", "touch"]

const realPaths = realCommands.map((command) => {
  const folders = ["/usr/bin", "/bin", ...(process.env["PATH"] ?? "").split(":")]
  const found = folders.map((folder) => Path.join(folder, command)).find((path) => Fs.existsSync(path))
  if (found === undefined) throw new Error(`this machine has no ${command}`)
  return [command, found] as const
})

const npmDouble = (ownNodeVersion: string | null): string =>
  ownNodeVersion === null
    ? "mkdir -p node_modules/.bin"
    : `mkdir -p node_modules/.bin
       { echo "#!/bin/sh"; echo "echo v${ownNodeVersion}"; } > node_modules/.bin/node
       chmod +x node_modules/.bin/node`

/** A machine in a folder; `run` sets it up and answers what happened. */
const machine = ({
  commands = [],
  environment = {},
  nodeVersion = "20.1.0",
  ownNodeVersion = "24.21.0",
  scripts = {},
  userId = 0
}: Machine) => {
  const root = Fs.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-setup-"))
  made.push(root)
  const [bin, checkout, log] = [Path.join(root, "bin"), Path.join(root, "checkout"), Path.join(root, "log")]
  Fs.mkdirSync(bin)
  Fs.mkdirSync(Path.join(checkout, "scripts"), { recursive: true })
  Fs.copyFileSync(script, Path.join(checkout, "scripts", "setup"))
  for (const file of ["package.json", "package-lock.json"]) Fs.writeFileSync(Path.join(checkout, file), "{}")
  Fs.writeFileSync(log, "")
  for (const [command, found] of realPaths) Fs.symlinkSync(found, Path.join(bin, command))
  const doubles: Record<string, string> = {
    id: `echo ${userId}`,
    node: `echo v${nodeVersion}`,
    npm: npmDouble(ownNodeVersion),
    ...Object.fromEntries(commands.map((command) => [command, ":"])),
    ...scripts
  }
  const provide = (command: string, body: string) =>
    Fs.writeFileSync(Path.join(bin, command), `#!/bin/sh\necho "${command} $*" >> ${log}\n${body}\n`, {
      mode: 0o755
    })
  for (const [command, body] of Object.entries(doubles)) if (body !== "absent") provide(command, body)
  const run = (...args: ReadonlyArray<string>) => {
    Fs.writeFileSync(log, "")
    const ran = spawnSync("sh", [Path.join(checkout, "scripts", "setup"), ...args], {
      encoding: "utf8",
      cwd: root,
      env: { PATH: bin, ...environment }
    })
    const calls = Fs.readFileSync(log, "utf8")
      .trim()
      .split("\n")
      .filter((line) => line !== "" && !/^(id|node) /.test(line))
    return { status: ran.status, stdout: ran.stdout, stderr: ran.stderr, calls }
  }
  return { run, bin, checkout }
}

/** A package manager that makes the commands of the packages appear. */
const installing = (bin: string): string =>
  `case "$*" in *bubblewrap*) printf '#!/bin/sh\\n' > ${bin}/bwrap; chmod +x ${bin}/bwrap;; esac`

const desktop = ["Xvnc", "xterm"]
const all = ["bwrap", "socat", "git", "ssh", ...desktop]

describe("scripts/setup", () => {
  it("is a script that sh can parse", () => {
    assert.strictEqual(spawnSync("sh", ["-n", script]).status, 0)
  })

  it("--help tells what it does and does nothing", () => {
    const { run } = machine({ commands: all })
    const ran = run("--help")
    assert.strictEqual(ran.status, 0)
    assert.include(ran.stdout, "bubblewrap")
    assert.deepStrictEqual(ran.calls, [])
    assert.strictEqual(run("--nonsense").status, 2)
  })

  it("with everything there it only installs the npm packages, and the second time nothing", () => {
    const { run } = machine({ commands: [...all, "apt-get"] })
    const first = run()
    assert.strictEqual(first.status, 0, first.stderr)
    assert.deepStrictEqual(
      first.calls.map((call) => call.split(" ").slice(0, 2).join(" ")),
      ["npm ci"]
    )
    const second = run()
    assert.deepStrictEqual([second.status, second.calls], [0, []])
  })

  it("a Node that has vanished from the packages is installed again, whatever the stamp says", () => {
    const { checkout, run } = machine({ commands: all })
    assert.strictEqual(run().stderr, "")
    Fs.rmSync(Path.join(checkout, "node_modules", ".bin", "node"))
    const ran = run()
    assert.deepStrictEqual([ran.status, ran.calls.length], [0, 1])
  })

  it("a changed lock file installs the npm packages again", () => {
    const { checkout, run } = machine({ commands: all })
    run()
    Fs.writeFileSync(Path.join(checkout, "package-lock.json"), "{ }")
    assert.lengthOf(run().calls, 1)
  })

  const managers: ReadonlyArray<readonly [manager: string, install: string, ssh: string, display: string]> = [
    ["apt-get", "apt-get install -y --no-install-recommends", "openssh-client", "tigervnc-standalone-server"],
    ["dnf", "dnf install -y", "openssh-clients", "tigervnc-server-minimal"],
    ["apk", "apk add --no-cache", "openssh-client-default", "tigervnc"],
    ["pacman", "pacman -S --noconfirm --needed", "openssh", "tigervnc"],
    ["zypper", "zypper --non-interactive install", "openssh-clients", "xorg-x11-Xvnc"]
  ]
  for (const [manager, install, ssh, display] of managers) {
    it(`as root it installs only what is missing, with ${manager}, and what desktops need by itself`, () => {
      const { run } = machine({ commands: ["git", manager] })
      assert.deepStrictEqual(run().calls.slice(0, 2), [
        `${install} bubblewrap socat ${ssh}`,
        `${install} ${display} xterm`
      ])
      assert.strictEqual(
        machine({ commands: [...all.filter((command) => command !== "xterm"), manager] }).run().calls[0],
        `${install} xterm`
      )
    })
  }

  it("SP-DESK-05 a desktop that cannot be installed is told, and stands in nobody's way", () => {
    const commands = all.filter((command) => !desktop.includes(command))
    const ran = machine({ commands, scripts: { "apt-get": "exit 100" } }).run()
    assert.strictEqual(ran.status, 0)
    assert.include(ran.stdout, "tigervnc-standalone-server xterm")
    assert.include(ran.stdout, "Xvnc is missing")
    assert.include(ran.calls.at(-1), "npm ci")
  })

  it("a stale list of packages is refreshed once, after the first try", () => {
    const { bin, run } = machine({ commands: ["socat", "git", "ssh", ...desktop] })
    const body = `[ "$1" = update ] && { touch ${bin}/fresh; exit 0; }; [ -e ${bin}/fresh ] || exit 100; ${installing(bin)}`
    Fs.writeFileSync(Path.join(bin, "apt-get"), `#!/bin/sh\n${body}\n`, { mode: 0o755 })
    const ran = run()
    assert.strictEqual(ran.status, 0, ran.stderr)
    assert.isTrue(Fs.existsSync(Path.join(bin, "bwrap")))
  })

  it("without root it prints the exact line and goes on", () => {
    const { run } = machine({ userId: 1_000, commands: ["socat", "git", "ssh", ...desktop, "apt-get"] })
    const ran = run()
    assert.strictEqual(ran.status, 0)
    assert.include(ran.stdout, "run as root: apt-get install -y --no-install-recommends bubblewrap")
    assert.include(ran.stdout, "unshare fallback")
    assert.deepStrictEqual(
      ran.calls.map((call) => call.split(" ")[0]),
      ["npm"]
    )
  })

  it("sudo is used only when it asks for no password", () => {
    const sudoing = 'shift; "$@"'
    const allowed = machine({
      userId: 1_000,
      commands: ["socat", "git", "ssh", ...desktop, "apt-get", "true"],
      scripts: { sudo: sudoing }
    })
    assert.isTrue(allowed.run().calls.some((call) => call.startsWith("apt-get install")))
    const asking = machine({
      userId: 1_000,
      commands: ["socat", "git", "ssh", ...desktop, "apt-get"],
      scripts: { sudo: "exit 1" }
    })
    const ran = asking.run()
    assert.deepStrictEqual(
      ran.calls.filter((call) => !call.startsWith("npm")),
      ["sudo -n true"]
    )
    assert.include(ran.stdout, "run as root: apt-get install")
    assert.strictEqual(ran.status, 0)
  })

  it("a package manager that fails prints the line to run and goes on, but not with CI=true", () => {
    const failing = { "apt-get": "exit 100" }
    const laptop = machine({ commands: ["socat", "git", "ssh", ...desktop], scripts: failing }).run()
    assert.strictEqual(laptop.status, 0)
    assert.include(laptop.stdout, "run as root: apt-get install")
    const ci = machine({
      commands: ["socat", "git", "ssh", ...desktop],
      scripts: failing,
      environment: { CI: "true" }
    }).run()
    assert.strictEqual(ci.status, 1)
    assert.include(ci.stderr, "bubblewrap is missing")
    assert.isFalse(ci.calls.some((call) => call.startsWith("npm")))
  })

  it("an old Node or a missing npm is told in one sentence before anything is installed", () => {
    const old = machine({ commands: ["apt-get"], nodeVersion: "18.20.1" }).run()
    assert.deepStrictEqual([old.status, old.calls], [1, []])
    assert.match(old.stderr, /^setup: Node 18 is too old[^\n]*\n$/)
    const none = machine({ scripts: { npm: "absent" } }).run()
    assert.strictEqual(none.status, 1)
    assert.match(none.stderr, /^setup: npm is not installed[^\n]*\n$/)
  })

  it("denied install scripts are told, and the next run tries again", () => {
    for (const ownNodeVersion of [null, "20.1.0"]) {
      const { run } = machine({ commands: all, ownNodeVersion })
      for (const _ of [1, 2]) {
        const ran = run()
        assert.strictEqual(ran.status, 1)
        assert.include(ran.stderr, "install scripts were denied")
        assert.lengthOf(ran.calls, 1)
      }
    }
  })

  it("a failed npm ci is a failure, and leaves no stamp", () => {
    const { checkout, run } = machine({ commands: all, scripts: { npm: "mkdir -p node_modules; exit 1" } })
    assert.notStrictEqual(run().status, 0)
    assert.isFalse(Fs.existsSync(Path.join(checkout, "node_modules", ".setup-stamp")))
  })
})
