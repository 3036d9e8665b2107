import { assert, describe, it } from "@effect/vitest"
import { markReader } from "../../../src/infra/providers/remoteScripts.ts"

const mark = "holdfast-00000000-0000-4000-8000-000000000000"
const start = `${mark} start\n`
const end = `\n${mark} status 137\n`

const reading = () => {
  const taken: Array<string> = []
  const reader = markReader(mark, (text) => taken.push(text))
  return { reader, text: () => taken.join("") }
}

describe("infra/providers/remoteScripts", () => {
  it("an unfinished line of a command that goes quiet is told at once", () => {
    const { reader, text } = reading()
    reader.push(start)
    reader.push("name? ")
    assert.strictEqual(text(), "name? ")
  })

  it.each(["", "word", "one\ntwo\n\n", `\n${mark} status`, `\n${mark} status 1\nmore`, end])(
    "output %j is told whole wherever it is cut, and of it only what may be the mark is kept back",
    (output) => {
      const whole = `${start}${output}${end}`
      for (let cut = 0; cut <= whole.length; cut += 1) {
        const { reader, text } = reading()
        reader.push(whole.slice(0, cut))
        const back = whole.slice(start.length + text().length, cut)
        const mayBeMark = end.startsWith(back) || /^\n\S+ status \d{0,3}\n?$/.test(back)
        if (cut >= start.length) assert.isTrue(mayBeMark, back)
        reader.push(whole.slice(cut))
        reader.end()
        assert.strictEqual(text(), output)
        assert.deepStrictEqual(reader.marks, { started: true, folderRefused: false, status: 137 })
      }
    }
  )

  it("each byte by itself comes to the same", () => {
    const { reader, text } = reading()
    for (const byte of `${start}a\n${mark} b\n${end}`) reader.push(byte)
    reader.end()
    assert.strictEqual(text(), `a\n${mark} b\n`)
    assert.strictEqual(reader.marks.status, 137)
  })
})
