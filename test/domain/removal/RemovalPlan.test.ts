/** The pure decisions of removal: which condition is missing, what is described, what is not confirmed. */
import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import { ProjectDeletion } from "../../../src/domain/host/Projects.ts"
import { Generation, NodeId, ProjectId, SandboxId, SnapshotId } from "../../../src/domain/Identity.ts"
import {
  describeOwned,
  missingCondition,
  storageParticipant,
  unconfirmedPaths
} from "../../../src/domain/removal/RemovalPlan.ts"
import { MachineRecipe } from "../../../src/domain/runtimes/Runtime.ts"

const project = ProjectId.make(7)

const deletion = (change: Partial<ProjectDeletion> = {}) =>
  Option.some(
    new ProjectDeletion({
      project,
      lifecycle: "deleting",
      state: "pending",
      participants: ["plugin:sites", storageParticipant],
      completedSteps: ["plugin:sites"],
      confirmedPaths: [],
      ...change
    })
  )

const recipe = (number: number, disks: ReadonlyArray<string>) =>
  new MachineRecipe({
    supervisor: "auto",
    image: "/images/base",
    cpuMillis: 1000,
    memoryBytes: 1024 ** 3,
    processesMax: 512,
    node: NodeId.make("00000000-0000-4000-8000-000000000001"),
    sandbox: SandboxId.make(`sb-00000000-0000-4000-8000-00000000000${number}`),
    generation: Generation.make(number),
    disks
  })

const owned = { storageRoot: "/disks/7", sandboxPath: (sandbox: string) => `/runtime/${sandbox}` }

describe("RemovalPlan", () => {
  it.each([
    ["no deletion record", Option.none<ProjectDeletion>(), "deletion_record"],
    ["a Project that is active", deletion({ lifecycle: "active" }), "lifecycle_deleting"],
    ["a record that is completed", deletion({ state: "completed" }), "state_pending"],
    ["a record without this participant", deletion({ participants: ["plugin:sites"] }), "participant"],
    ["a preceding step that is not completed", deletion({ completedSteps: [] }), "preceding_steps"],
    [
      "one of two preceding steps that is not completed",
      deletion({
        participants: ["plugin:a", "plugin:b", storageParticipant],
        completedSteps: ["plugin:b"]
      }),
      "preceding_steps"
    ],
    ["everything in place", deletion(), undefined],
    ["no preceding step", deletion({ participants: [storageParticipant], completedSteps: [] }), undefined]
  ] as const)("SP-DEL-02 %s", (_, record, missing) => {
    assert.strictEqual(missingCondition(record, storageParticipant), missing)
  })

  it("SP-DEL-05 an environment that was never provisioned has no path and no label", () => {
    const description = describeOwned({ recipes: [], snapshots: [] }, owned)
    assert.deepStrictEqual([description.paths, description.labels], [[], []])
  })

  it("SP-DEL-05 names each disk, the storage root and each sandbox once, sorted, and never an image", () => {
    const description = describeOwned(
      { recipes: [recipe(2, ["/disks/7/b", "/disks/7/a"]), recipe(1, ["/disks/7/a"])], snapshots: [] },
      owned
    )
    assert.deepStrictEqual(description.paths, [
      "/disks/7",
      "/disks/7/a",
      "/disks/7/b",
      "/runtime/sb-00000000-0000-4000-8000-000000000001",
      "/runtime/sb-00000000-0000-4000-8000-000000000002"
    ])
    assert.deepStrictEqual(description.labels, [
      "sb-00000000-0000-4000-8000-000000000001",
      "sb-00000000-0000-4000-8000-000000000002"
    ])
  })

  it("SP-DEL-05 names each snapshot by its copy's path and its label, never by a path made of its id", () => {
    const snapshots = [{ id: SnapshotId.make(".."), path: "/disks/7/c" }]
    const description = describeOwned({ recipes: [], snapshots }, owned)
    assert.deepStrictEqual(
      [description.paths, description.labels],
      [["/disks/7", "/disks/7/c"], ["snapshot .."]]
    )
  })

  it("SP-DEL-07 a path that was not confirmed is named, whatever else was", () => {
    const description = describeOwned({ recipes: [recipe(1, ["/disks/7/a"])], snapshots: [] }, owned)
    const confirmed = description.paths.filter((path) => path !== "/disks/7/a")
    assert.deepStrictEqual(unconfirmedPaths(description, [...confirmed, "/disks"]), ["/disks/7/a"])
    assert.deepStrictEqual(unconfirmedPaths(description, description.paths), [])
  })
})
