/**
 * Whether an object of a JSON text has a key twice. A parser keeps the last one and says nothing, so that a snapshot
 * with a sandbox twice would lose one of them. Pure. Source: RG-MIG-01.
 */

/** Position of the quote that ends the string whose content begins here; -1 where there is none. */
const endOfString = (text: string, start: number): number => {
  for (let at = text.indexOf('"', start); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text[at - 1 - slashes] === "\\") slashes += 1
    if (slashes % 2 === 0) return at
  }
  return -1
}

/** Whether a colon follows, which makes the string before it a key. */
const isKey = (text: string, after: number): boolean => {
  let at = after
  while (text[at] === " " || text[at] === "\n" || text[at] === "\t" || text[at] === "\r") at += 1
  return text[at] === ":"
}

/** The text has to be valid JSON. Keys are compared as what they mean, however they are written. */
export const hasRepeatedKey = (text: string): boolean => {
  const open: Array<Set<string> | null> = []
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case "{":
        open.push(new Set())
        break
      case "[":
        open.push(null)
        break
      case "}":
      case "]":
        open.pop()
        break
      case '"': {
        const end = endOfString(text, at + 1)
        if (end === -1) return false
        const keys = open.at(-1)
        if (keys != null && isKey(text, end + 1)) {
          const key: string = JSON.parse(text.slice(at, end + 1))
          if (keys.has(key)) return true
          keys.add(key)
        }
        at = end
        break
      }
      default:
    }
  }
  return false
}
