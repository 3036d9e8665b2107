/** The register of desktops: what a fence takes away, and what nothing brings back. */
import { assert, describe, it } from "@effect/vitest"
import { desktopsMax, desktopViewersMax } from "../../../src/domain/Bounds.ts"
import { makeDesktopRegister } from "../../../src/domain/desktop/DesktopRegister.ts"
import { ProjectId } from "../../../src/domain/Identity.ts"

const web = ProjectId.make(1)
const api = ProjectId.make(2)

const admitted = (
  register: ReturnType<typeof makeDesktopRegister<string>>,
  project: ProjectId,
  kept: string
) => {
  const preparation = register.prepare(project)
  const desktop = preparation === null ? null : register.admit(preparation, kept)
  if (preparation !== null) register.prepared(preparation)
  if (desktop === null) throw new Error("it was not admitted")
  return desktop
}

describe("desktop/DesktopRegister", () => {
  it("SP-DESK-04 a fence takes the desktop of its Project and no other, nor the one that comes after", () => {
    const register = makeDesktopRegister<string>()
    const one = admitted(register, web, "one")
    const other = admitted(register, api, "other")
    register.fence(web)
    assert.deepStrictEqual([register.isAdmitted(one), register.isAdmitted(other)], [false, true])
    assert.strictEqual(register.enter(one), "fenced")
    // Fenced and not ended yet: its place is taken.
    const early = register.prepare(web)
    assert.isNull(early && register.admit(early, "early"))
    register.end(one)
    const next = admitted(register, web, "next")
    register.fenceOne(one)
    register.end(one)
    assert.isTrue(register.isAdmitted(next))
    assert.strictEqual(register.find(web), next)
  })

  it("SP-DESK-02 a fence takes a preparation, and a disposal every one, of now and of later", () => {
    const register = makeDesktopRegister<string>()
    const stopped = register.prepare(web)!
    register.fence(web)
    assert.isNull(register.admit(stopped, "stopped"))
    register.prepared(stopped)
    const desktop = admitted(register, web, "web")
    const cold = register.prepare(api)!
    assert.deepStrictEqual([...register.dispose()].toSorted(), [web, api])
    assert.deepStrictEqual([register.isAdmitted(desktop), register.isDisposed()], [false, true])
    assert.isNull(register.admit(cold, "cold"))
    const late = register.prepare(web)!
    assert.isTrue(late.isFenced)
    assert.isNull(register.admit(late, "late"))
    assert.strictEqual(register.enter(desktop), "fenced")
  })

  it("FC-15 desktops, work on them and viewers are counted, and given back", () => {
    const register = makeDesktopRegister<string>()
    const desktop = admitted(register, web, "web")
    const work = Array.from({ length: desktopsMax - 1 }, () => register.prepare(api)!)
    assert.isNull(register.prepare(api))
    // The one that is there takes no second place.
    assert.isNotNull(register.prepare(web))
    for (const one of work) register.prepared(one)
    assert.isFalse(register.isPreparing(api))
    for (let viewer = 0; viewer < desktopViewersMax; viewer += 1)
      assert.strictEqual(register.enter(desktop), "entered")
    assert.strictEqual(register.enter(desktop), "full")
    register.leave(desktop)
    assert.strictEqual(register.enter(desktop), "entered")
  })
})
