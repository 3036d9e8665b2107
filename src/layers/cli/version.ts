/** The product's version, read from the package that this file is part of. */
import { readFileSync } from "node:fs"

const read = (): string => {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../../../package.json", import.meta.url), "utf8")
  )
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown"
}

/** Semantic version of this installation. */
export const productVersion: string = read()
