/** Compiles a C source beside the benchmarks with the machine's own compiler, into a directory that goes away. */
import { spawnSync } from "node:child_process"
import * as Path from "node:path"

/** Answers the path of the program, or a sentence that says why there is none. */
export const compile = (
  source: string,
  directory: string,
  flags: ReadonlyArray<string> = []
): { readonly program: string } | { readonly why: string } => {
  const program = Path.join(directory, Path.basename(source, ".c"))
  const compiled = spawnSync("cc", ["-O2", ...flags, "-o", program, source], { encoding: "utf8" })
  if (compiled.error !== undefined) return { why: "this machine has no C compiler (cc)" }
  return compiled.status === 0 ? { program } : { why: `cc ended with ${compiled.status}: ${compiled.stderr}` }
}
