/**
 * What tells whether a resource was made from the config that is asked for now. A fingerprint covers the config and the
 * versions of its secrets; a value never enters it. Source: RL-REUSE-20, RL-SECRET-06, FC-20.
 */
import type { SecretId } from "../Identity.ts"
import { canonicalText, type JsonObject } from "../Json.ts"

/** Keys of a config that only the host reads. Source: RL section 2.2. */
export const hostOnlyConfigKeys: ReadonlySet<string> = new Set(["streamRunLogs"])

export interface FingerprintSubject {
  readonly provider: string
  readonly adapterType: string | null
  /** The provider config, `provider` included, secrets as references. */
  readonly config: JsonObject
}

/** The version of a secret that a config's field resolved to. */
export interface SecretVersion {
  readonly path: string
  readonly secret: SecretId
  readonly version: number
}

export interface LeaseFingerprint {
  readonly category: "lease"
  readonly fingerprint: string
}

type Sha256 = (text: string) => string

/** What takes part: keys of the host do not, and null asks for nothing. */
const significant = (config: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(config).filter(
      ([key, value]) => !hostOnlyConfigKeys.has(key) && value !== null && value !== undefined
    )
  )

/** The older form, over the config as it is stored. Source: RL-REUSE-20. */
export const runtimeFingerprint = (
  sha256: Sha256,
  { adapterType, config, provider }: FingerprintSubject
): string => sha256(canonicalText({ provider, adapterType, config }))

export const leaseFingerprint = (
  sha256: Sha256,
  { adapterType, config, provider }: FingerprintSubject,
  secrets: ReadonlyArray<SecretVersion>
): LeaseFingerprint => {
  const versions = Object.fromEntries(secrets.map(({ path, secret, version }) => [path, { secret, version }]))
  const text = canonicalText({ provider, adapterType, config: significant(config), secrets: versions })
  return { category: "lease", fingerprint: `v1:sha256:${sha256(text)}` }
}

/** What a lease's stamp carries of fingerprints. */
export interface StampedFingerprints {
  readonly runtimeFingerprint?: string
  readonly leaseFingerprint?: LeaseFingerprint
}

/**
 * Whether the stamped resource was made from the subject. The newer form decides where there is one; the older is held
 * against the config with and without the keys of the host, since it was made before they were left out. None at all
 * proves nothing.
 */
export const fingerprintFits = (
  sha256: Sha256,
  stamped: StampedFingerprints,
  subject: FingerprintSubject,
  secrets: ReadonlyArray<SecretVersion>
): boolean => {
  if (stamped.leaseFingerprint !== undefined)
    return stamped.leaseFingerprint.fingerprint === leaseFingerprint(sha256, subject, secrets).fingerprint
  if (stamped.runtimeFingerprint === undefined) return false
  const withoutHostKeys = Object.fromEntries(
    Object.entries(subject.config).filter(([key]) => !hostOnlyConfigKeys.has(key))
  )
  return [subject.config, withoutHostKeys].some(
    (config) => runtimeFingerprint(sha256, { ...subject, config }) === stamped.runtimeFingerprint
  )
}

/** Whether a recorded config is the one that is asked for: null and keys of the host constrain nothing. Source: RL-REUSE-02. */
export const configFits = (asked: JsonObject, recorded: JsonObject): boolean =>
  Object.entries(significant(asked)).every(
    ([key, value]) => key in recorded && canonicalText(recorded[key]) === canonicalText(value)
  )
