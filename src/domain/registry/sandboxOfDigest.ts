/** Names a sandbox after a digest, so that a request's key, or a provider's intent, always means the same sandbox. */
import { SandboxId } from "../Identity.ts"

/** The id of 64 hex digits: a uuid of version 8, as RFC 9562 has it. */
export const sandboxOfDigest = (hex: string): SandboxId => {
  const variant = ((Number.parseInt(hex[16] ?? "0", 16) & 0x3) | 0x8).toString(16)
  return SandboxId.make(
    `sb-${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
  )
}
