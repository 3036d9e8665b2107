/**
 * Takes secrets out of a stream of bytes, wherever it is cut into pieces. What could be the beginning of one is held back
 * until it is known, at most the longest secret less a byte. Pure but for the tail that it remembers. Source: SP-TX-11.
 */

const replacement = new TextEncoder().encode("[redacted]")

export interface Redactor {
  /** The bytes that may go on, with every whole secret replaced. */
  readonly push: (bytes: Uint8Array) => Uint8Array
  /** What was held back: no secret, since the stream has ended. */
  readonly end: () => Uint8Array
}

const startsAt = (bytes: Uint8Array, at: number, secret: Uint8Array): boolean => {
  if (at + secret.length > bytes.length) return false
  for (let index = 0; index < secret.length; index += 1) {
    if (bytes[at + index] !== secret[index]) return false
  }
  return true
}

/** Whether the bytes from there on are the beginning of the secret, and end before it does. */
const mayStartAt = (bytes: Uint8Array, at: number, secret: Uint8Array): boolean => {
  if (at + secret.length <= bytes.length) return false
  for (let index = at; index < bytes.length; index += 1) {
    if (bytes[index] !== secret[index - at]) return false
  }
  return true
}

const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** A redactor of one stream. Without secrets every byte passes as it is. An empty secret is none. */
export const makeRedactor = (values: ReadonlyArray<string>): Redactor => {
  // The longest first: one secret may be the beginning of another.
  const secrets = values
    .filter((value) => value !== "")
    .map((value) => new TextEncoder().encode(value))
    .toSorted((one, other) => other.length - one.length)
  const firstBytes = new Set(secrets.map(([first]) => first))
  let held: Uint8Array = new Uint8Array()

  const push = (bytes: Uint8Array): Uint8Array => {
    if (secrets.length === 0) return bytes
    const all = held.length === 0 ? bytes : joined([held, bytes])
    const parts: Array<Uint8Array> = []
    let from = 0
    let at = 0
    while (at < all.length) {
      if (firstBytes.has(all[at])) {
        // A longer one that may still come is waited for, before a shorter one is taken.
        if (secrets.some((secret) => mayStartAt(all, at, secret))) break
        const found = secrets.find((secret) => startsAt(all, at, secret))
        if (found !== undefined) {
          parts.push(all.subarray(from, at), replacement)
          at += found.length
          from = at
          continue
        }
      }
      at += 1
    }
    parts.push(all.subarray(from, at))
    held = all.slice(at)
    return joined(parts)
  }

  const end = (): Uint8Array => {
    // What is held began like a secret; a shorter one may be whole in it.
    const parts: Array<Uint8Array> = []
    let from = 0
    let at = 0
    while (at < held.length) {
      const found = secrets.find((secret) => startsAt(held, at, secret))
      if (found === undefined) {
        at += 1
        continue
      }
      parts.push(held.subarray(from, at), replacement)
      at += found.length
      from = at
    }
    parts.push(held.subarray(from))
    held = new Uint8Array()
    return joined(parts)
  }

  return { push, end }
}
