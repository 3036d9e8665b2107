/** What leaves the checkout as an npm package, and its binary on a Node that is too old for it. */
import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, assert, describe, it } from "@effect/vitest"
import { nodeVersionMin } from "../src/infra/cli/checks.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const binary = Path.join(root, "bin", "holdfast.js")
const scratch = Fs.mkdtempSync(Path.join(Os.tmpdir(), "holdfast-package-"))
afterAll(() => Fs.rmSync(scratch, { recursive: true, force: true }))

interface Manifest {
  readonly bin: Record<string, string>
  readonly engines: { readonly node: string }
  readonly scripts: Record<string, string>
  readonly dependencies: Record<string, string>
}
const manifest = JSON.parse(Fs.readFileSync(Path.join(root, "package.json"), "utf8")) as Manifest

/** A module that makes the process believe in another version before the binary looks. */
const pretending = (version: string): string => {
  const file = Path.join(scratch, `node-${version}.cjs`)
  Fs.writeFileSync(
    file,
    `Object.defineProperty(process, "versions", { value: Object.assign({}, process.versions, { node: "${version}" }) })`
  )
  return file
}

const run = (version: string, ...args: ReadonlyArray<string>) =>
  spawnSync(process.execPath, ["--require", pretending(version), binary, ...args], { encoding: "utf8" })

describe("package", () => {
  it("the package has the built product, its binary, its papers and the example plugins, and nothing of tests or tools", () => {
    const packed = spawnSync("npm", ["pack", "--dry-run", "--ignore-scripts", "--json"], {
      cwd: root,
      encoding: "utf8"
    })
    const [{ files }] = JSON.parse(packed.stdout) as [
      { files: ReadonlyArray<{ path: string; mode: number }> }
    ]
    const paths = files.map(({ path }) => path)
    const papers = ["README.md", "CHANGELOG.md", "LICENSE", "docs/provider-plugins.md"]
    for (const path of [
      "package.json",
      "bin/holdfast.js",
      "examples/provider-plugins/serve.mjs",
      ...papers
    ]) {
      assert.include(paths, path)
    }
    const allowed =
      /^(bin|dist|examples\/provider-plugins)\/|^(package\.json|README\.md|CHANGELOG\.md|LICENSE|docs\/provider-plugins\.md)$/
    assert.deepStrictEqual(
      paths.filter((path) => !allowed.test(path)),
      []
    )
    assert.strictEqual((files.find(({ path }) => path === "bin/holdfast.js")?.mode ?? 0) & 0o111, 0o111)
  })

  it("packing builds first, so that a package never carries an old product", () => {
    assert.include(manifest.scripts["prepack"], "build")
    assert.include(manifest.scripts["build"], "rm -rf dist")
    assert.deepStrictEqual(manifest.bin, { holdfast: "bin/holdfast.js" })
  })

  it("the oldest Node is the same in the manifest, the binary and the doctor", () => {
    assert.strictEqual(manifest.engines.node, `>=${nodeVersionMin.replace(/\.0$/, "")}`)
    const needed = /needed = \[(\d+), (\d+)\]/.exec(Fs.readFileSync(binary, "utf8"))
    assert.strictEqual(`${needed?.[1]}.${needed?.[2]}.0`, nodeVersionMin)
  })

  for (const version of ["12.22.12", "20.20.2", "22.18.0"]) {
    it(`on Node ${version} the binary says one sentence and ends with 1`, () => {
      const ran = run(version, "status", "web")
      assert.deepStrictEqual([ran.status, ran.stdout], [1, ""])
      assert.match(ran.stderr, /^holdfast: Node [\d.]+ is too old, install Node 22\.19 or newer\.\n$/)
      assert.include(ran.stderr, version)
    })
  }

  it("on a Node that is new enough the binary runs and answers its version", () => {
    for (const version of ["22.19.0", process.versions.node]) {
      const ran = run(version, "--version")
      assert.deepStrictEqual([ran.status, ran.stderr], [0, ""])
      assert.match(ran.stdout, /^holdfast \d+\.\d+\.\d+\n$/)
    }
  })

  it("a copy that was not built says so in one sentence", () => {
    const copy = Path.join(scratch, "copy")
    Fs.mkdirSync(Path.join(copy, "bin"), { recursive: true })
    Fs.copyFileSync(binary, Path.join(copy, "bin", "holdfast.js"))
    Fs.copyFileSync(Path.join(root, "package.json"), Path.join(copy, "package.json"))
    const ran = spawnSync(process.execPath, [Path.join(copy, "bin", "holdfast.js")], { encoding: "utf8" })
    assert.deepStrictEqual([ran.status, ran.stdout], [1, ""])
    assert.match(ran.stderr, /^holdfast: it was not built[^\n]*\n$/)
  })

  it("a checkout runs its source, whatever was built of it, and a package what was built", () => {
    const copy = Path.join(scratch, "checkout")
    const modules = { src: "src/layers/cli.ts", dist: "dist/layers/cli.js" }
    Fs.mkdirSync(Path.join(copy, "bin"), { recursive: true })
    Fs.copyFileSync(binary, Path.join(copy, "bin", "holdfast.js"))
    Fs.copyFileSync(Path.join(root, "package.json"), Path.join(copy, "package.json"))
    for (const [from, path] of Object.entries(modules)) {
      Fs.mkdirSync(Path.dirname(Path.join(copy, path)), { recursive: true })
      Fs.writeFileSync(Path.join(copy, path), `export const main = () => {}\nconsole.log("from ${from}")\n`)
    }
    const said = () =>
      spawnSync(process.execPath, [Path.join(copy, "bin", "holdfast.js")], { encoding: "utf8" }).stdout
    assert.strictEqual(said(), "from src\n")
    Fs.rmSync(Path.join(copy, "src"), { recursive: true })
    assert.strictEqual(said(), "from dist\n")
  })

  it("the binary has no syntax that an old Node cannot parse", () => {
    const text = Fs.readFileSync(binary, "utf8").replace(/\/\*[\s\S]*?\*\//g, "")
    for (const young of [/\?\./, /\?\?/, /\bawait\b/, /=>/, /["']node:/, /#[a-z]+\s*[=;(]/]) {
      assert.notMatch(text, young)
    }
  })
})
