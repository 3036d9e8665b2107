#!/usr/bin/env node
/**
 * Starts `holdfast`. Written so that every Node since 12 can parse it: an old one says in one sentence what it lacks.
 * Runs the built product; in a checkout the sources, which Node reads by stripping their types.
 */
import { existsSync } from "fs"

var needed = [22, 19]
var have = process.versions.node.split(".").map(Number)

function start(path) {
  import(new URL(path, import.meta.url).href).then(
    function (cli) {
      cli.main()
    },
    function (error) {
      process.stderr.write("holdfast: its installation is broken, install it again: " + error.message + "\n")
      process.exitCode = 1
    }
  )
}

if (have[0] < needed[0] || (have[0] === needed[0] && have[1] < needed[1])) {
  process.stderr.write(
    "holdfast: Node " + process.versions.node + " is too old, install Node " + needed.join(".") + " or newer.\n"
  )
  process.exitCode = 1
} else if (process.features.typescript && existsSync(new URL("../src/layers/cli.ts", import.meta.url))) {
  // A checkout runs what it says now: what was built of it may be of another day. A package has no source.
  start("../src/layers/cli.ts")
} else if (existsSync(new URL("../dist/layers/cli.js", import.meta.url))) {
  start("../dist/layers/cli.js")
} else {
  process.stderr.write("holdfast: it was not built, run npm run build in its directory.\n")
  process.exitCode = 1
}
