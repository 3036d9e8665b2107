/**
 * What a guest's root is made of, read from the machine: the shared /usr of the host, or the top of an image. Both
 * supervisors build the same root from it; how they mount is theirs.
 */
import * as Files from "node:fs"
import * as Path from "node:path"

/** One entry of the guest's root: a read-only view of a host path, or a link. Targets are absolute inside. */
export type RootEntry =
  | {
      readonly kind: "view"
      readonly source: string
      readonly target: string
      readonly isDirectory: boolean
    }
  | { readonly kind: "link"; readonly target: string; readonly to: string }

/** Made by the supervisor itself, whatever the image has there. */
const ownNames = new Set(["proc", "dev", "sys", "tmp", "run", "workspace", "lost+found"])

const entryAt = (directory: string, name: string): RootEntry | undefined => {
  const source = Path.join(directory, name)
  const found = Files.lstatSync(source, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  return found.isSymbolicLink()
    ? { kind: "link", target: `/${name}`, to: Files.readlinkSync(source) }
    : { kind: "view", source, target: `/${name}`, isDirectory: found.isDirectory() }
}

/** Files of /etc that programs of the host's /usr need; the rest of /etc stays the host's own. */
const sharedConfiguration = [
  "/etc/alternatives",
  "/etc/ssl/certs",
  "/etc/ca-certificates",
  "/etc/ld.so.cache"
]

const hostEntries = (): ReadonlyArray<RootEntry> => [
  ...["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap((name) => entryAt("/", name) ?? []),
  ...sharedConfiguration.flatMap((path): ReadonlyArray<RootEntry> => {
    if (!Files.existsSync(path)) return []
    const source = Files.realpathSync(path)
    return [{ kind: "view", source, target: path, isDirectory: Files.statSync(source).isDirectory() }]
  })
]

const imageEntries = (image: string): ReadonlyArray<RootEntry> =>
  Files.readdirSync(image)
    .filter((name) => !ownNames.has(name))
    .flatMap((name) => entryAt(image, name) ?? [])

/** The entries of an image, `host` for the machine's own /usr. */
export const rootEntries = (image: string): ReadonlyArray<RootEntry> =>
  image === "host" ? hostEntries() : imageEntries(image)

/** Everything a supervisor needs to know to build a guest's root. All paths as the guest's user reaches them. */
export interface GuestRoot {
  readonly entries: ReadonlyArray<RootEntry>
  /** Files of the agent's directory that take the place of the image's accounts; null: the image has its own. */
  readonly accounts: { readonly passwd: string; readonly group: string } | null
  readonly agent: string
  readonly workspace: string
  /** An empty directory on which the fallback mounts the new root. */
  readonly scratch: string
  readonly hostname: string
}

/** Variables of a guest's processes before its own environment is read. */
export const basicEnvironment: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/workspace",
  LANG: "C.UTF-8"
}
