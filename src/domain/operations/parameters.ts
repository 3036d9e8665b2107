/**
 * Is a request sensible at all? Pure, and asked before any transaction opens. Whether an image exists or a
 * supervisor is there is checked by those who build the machine.
 */
import {
  diskPathBytesMax,
  imageBytesMax,
  runtimeCpuMillisMax,
  runtimeCpuMillisMin,
  runtimeMemoryMebibytesMax,
  runtimeMemoryMebibytesMin,
  runtimeProcessesMax,
  runtimeProcessesMin
} from "../Bounds.ts"
import { RequestKey } from "../Identity.ts"
import { InvalidParameters } from "./AdmissionRefusals.ts"
import { machineParameterNames, type OperationRequest } from "./Operation.ts"

/** Key of the receipt that project removal writes; no request may take it. Source: SP-DEL-09. */
export const removalRequestKey = RequestKey.make("core-project-removal")

const outside = (value: number | undefined, minimum: number, maximum: number): string | null =>
  value === undefined || (Number.isSafeInteger(value) && value >= minimum && value <= maximum)
    ? null
    : `must be a whole number from ${minimum} to ${maximum}`

/** An absolute path in its shortest written form. Whether it exists is checked elsewhere. */
const isPlainPath = (path: string): boolean => {
  const segments = path.split("/")
  const isNormal =
    segments.length > 1 &&
    segments[0] === "" &&
    segments.slice(1).every((segment) => segment !== "" && segment !== "." && segment !== "..")
  return isNormal && !/\p{Cc}/u.test(path)
}

const lengthFault = (path: string, bytesMax: number): string | null =>
  new TextEncoder().encode(path).length <= bytesMax ? null : `must not be longer than ${bytesMax} bytes`

/** `host`, or a plain path. */
const imageFault = (image: string | undefined): string | null => {
  if (image === undefined || image === "host") return null
  return isPlainPath(image)
    ? lengthFault(image, imageBytesMax)
    : "must be `host` or an absolute path without empty, `.` or `..` segments"
}

const adoptionFault = ({ action, parameters }: OperationRequest): string | null => {
  if (parameters.adoptDisk === undefined) return null
  if (action !== "provision") return `is taken by provision, not by ${action}`
  return isPlainPath(parameters.adoptDisk)
    ? lengthFault(parameters.adoptDisk, diskPathBytesMax)
    : "must be an absolute path without empty, `.` or `..` segments"
}

/** Actions that make a machine as it is asked for. */
const buildingActions: ReadonlyArray<OperationRequest["action"]> = ["provision", "rebuild"]

/** Actions on one snapshot, which has to be named. */
const snapshotActions: ReadonlyArray<OperationRequest["action"]> = ["snapshot", "restore"]

const snapshotFault = ({ action, parameters }: OperationRequest): string | null => {
  if (snapshotActions.includes(action)) {
    return parameters.snapshot === undefined ? `is what ${action} has to be told` : null
  }
  return parameters.snapshot === undefined ? null : `is taken by snapshot and restore, not by ${action}`
}

const supervisorNames: ReadonlyArray<string> = ["auto", "bubblewrap", "unshare"]

/** The first absurd parameter of a request, or null. Units and bounds: SP figures. */
export const findInvalidParameter = (request: OperationRequest): InvalidParameters | null => {
  const { action, parameters, requestKey } = request
  const faults: ReadonlyArray<readonly [string, string | null]> = [
    ["requestKey", requestKey === removalRequestKey ? "is reserved for project deletion" : null],
    [
      "parameters",
      !buildingActions.includes(action) &&
      machineParameterNames.some((name) => parameters[name] !== undefined)
        ? `are taken by provision and rebuild, not by ${action}`
        : null
    ],
    ["snapshot", snapshotFault(request)],
    ["adoptDisk", adoptionFault(request)],
    ["cpuMillis", outside(parameters.cpuMillis, runtimeCpuMillisMin, runtimeCpuMillisMax)],
    [
      "memoryMebibytes",
      outside(parameters.memoryMebibytes, runtimeMemoryMebibytesMin, runtimeMemoryMebibytesMax)
    ],
    ["processesMax", outside(parameters.processesMax, runtimeProcessesMin, runtimeProcessesMax)],
    ["image", imageFault(parameters.image)],
    [
      "supervisor",
      parameters.supervisor === undefined || supervisorNames.includes(parameters.supervisor)
        ? null
        : `must be one of ${supervisorNames.join(", ")}`
    ]
  ]
  const found = faults.find(([, why]) => why !== null)
  return found === undefined ? null : new InvalidParameters({ field: found[0], why: found[1] ?? "" })
}
