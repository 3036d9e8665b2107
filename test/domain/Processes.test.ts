import { assert, describe, it } from "@effect/vitest"
import { NodeId, ProcessIdentity } from "../../src/domain/Identity.ts"
import { decideLiveness, ProcessSighting } from "../../src/domain/Processes.ts"

const here = new ProcessIdentity({
  daemon: "00000000-0000-4000-8000-000000000001",
  node: NodeId.make("00000000-0000-4000-8000-00000000000a"),
  bootId: "00000000-0000-4000-8000-0000000000b0",
  pid: 100,
  startTicks: "5000"
})
const other = (changed: Partial<ProcessIdentity>) =>
  new ProcessIdentity({ ...here, daemon: "00000000-0000-4000-8000-000000000002", pid: 200, ...changed })

const present = ProcessSighting.Present({ startTicks: "5000" })

describe("decideLiveness", () => {
  it.each([
    ["alive", "the pid is there with the same start time", other({}), present],
    ["dead", "the pid is gone", other({}), ProcessSighting.Absent()],
    ["dead", "the pid belongs to a later process", other({ startTicks: "4999" }), present],
    [
      "dead",
      "it ran in another boot of this node",
      other({ bootId: "00000000-0000-4000-8000-0000000000b1" }),
      present
    ],
    ["alive", "the machine would not tell", other({}), ProcessSighting.Unreadable()],
    [
      "elsewhere",
      "it runs on another node, whatever this machine shows under its pid",
      other({
        node: NodeId.make("00000000-0000-4000-8000-00000000000b"),
        bootId: "00000000-0000-4000-8000-0000000000b1"
      }),
      ProcessSighting.Absent()
    ]
  ] as const)("SP-OPS-02 a process is %s when %s", (expected, _when, identity, sighting) => {
    assert.strictEqual(decideLiveness(here, identity, sighting), expected)
  })
})
