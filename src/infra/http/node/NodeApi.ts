/**
 * The API of one node, as a definition: sandboxes by their node alone, without Projects and without a database. Every
 * daemon serves it below /node, beside the rest of what it serves. Bounds on the fields of a sandbox are the domain's
 * (domain/registry/sandboxRequest.ts); here stands the form. Unknown fields are refused by name.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { sandboxStopGraceMillisMax } from "../../../domain/Bounds.ts"
import { GuestSignal } from "../../../domain/guests/GuestSpec.ts"
import { RequestKey, SandboxId } from "../../../domain/Identity.ts"
import { ExecutionRequest } from "../requestTerms.ts"
import { apiErrors } from "../ApiErrors.ts"
import { ExecutionLine } from "../Views.ts"
import {
  EndpointView,
  InspectionView,
  ReadinessView,
  SandboxDeletionView,
  SandboxSummary,
  SandboxView,
  WhyView
} from "./NodeViews.ts"

/** Turns whatever the schemas refuse into the error bodies of this API. */
export class NodeDecoded extends HttpApiMiddleware.Service<NodeDecoded>()(
  "holdfast/infra/http/node/NodeApi/NodeDecoded",
  { error: [...apiErrors] }
) {}

/** Exactly these two: decimals with a suffix of m, K M G T, Ki Mi Gi Ti or none. */
const Resources = Schema.Struct({ cpu: Schema.String, memory: Schema.String })

const Pairs = Schema.Record(Schema.String, Schema.String)

export const SandboxCreation = Schema.Struct({
  /** The idempotency key. */
  requestId: RequestKey,
  image: Schema.optionalKey(Schema.String),
  argv: Schema.optionalKey(Schema.Array(Schema.String)),
  environment: Schema.optionalKey(Pairs),
  metadata: Schema.optionalKey(Pairs),
  resources: Resources,
  processesMax: Schema.optionalKey(Schema.Finite),
  lifeSeconds: Schema.optionalKey(Schema.Finite)
})
export type SandboxCreation = typeof SandboxCreation.Type

const StopRequest = Schema.Struct({
  graceMillis: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: sandboxStopGraceMillisMax }))
  )
})

const ofSandbox = { params: { sandbox: SandboxId } }

class NodeGroup extends HttpApiGroup.make("node").add(
  HttpApiEndpoint.get("readiness", "/node/readiness", { success: ReadinessView })
) {}

class SandboxesGroup extends HttpApiGroup.make("sandboxes").add(
  /** Goes on when its caller hangs up; the same request again answers what became of it. */
  HttpApiEndpoint.post("create", "/node/sandboxes", { payload: SandboxCreation, success: SandboxView }),
  /** One page in the order of ids, after the given one; an empty page is the end. */
  HttpApiEndpoint.get("list", "/node/sandboxes", {
    query: { after: Schema.optionalKey(SandboxId) },
    success: Schema.Array(SandboxSummary)
  }),
  HttpApiEndpoint.get("inspect", "/node/sandboxes/:sandbox", { ...ofSandbox, success: InspectionView }),
  /** Goes on when its caller hangs up. Asked again it answers the same proof. */
  HttpApiEndpoint.delete("delete", "/node/sandboxes/:sandbox", {
    ...ofSandbox,
    success: SandboxDeletionView
  }),
  HttpApiEndpoint.get("why", "/node/sandboxes/:sandbox/why", { ...ofSandbox, success: WhyView }),
  /** Runs one command and streams it. Whoever hangs up cancels the command. */
  HttpApiEndpoint.post("exec", "/node/sandboxes/:sandbox/executions", {
    ...ofSandbox,
    payload: ExecutionRequest,
    success: HttpApiSchema.StreamNdjson({ schema: ExecutionLine })
  }),
  /** The socket of a port of the guest. Every look-up asks the guest anew; the answer is no promise. */
  HttpApiEndpoint.post("endpoint", "/node/sandboxes/:sandbox/endpoint", {
    ...ofSandbox,
    payload: Schema.Struct({ port: Schema.Finite }),
    success: EndpointView
  }),
  HttpApiEndpoint.post("pause", "/node/sandboxes/:sandbox/pause", { ...ofSandbox, success: SandboxView }),
  HttpApiEndpoint.post("resume", "/node/sandboxes/:sandbox/resume", { ...ofSandbox, success: SandboxView }),
  /** To the main command alone; what it makes of it is seen by the next look. */
  HttpApiEndpoint.post("signal", "/node/sandboxes/:sandbox/signal", {
    ...ofSandbox,
    payload: Schema.Struct({ signal: GuestSignal }),
    success: SandboxView
  }),
  HttpApiEndpoint.post("stop", "/node/sandboxes/:sandbox/stop", {
    ...ofSandbox,
    payload: StopRequest,
    success: SandboxView
  }),
  /** Its life ends this long from now; a renewal only extends. */
  HttpApiEndpoint.post("renew", "/node/sandboxes/:sandbox/renewal", {
    ...ofSandbox,
    payload: Schema.Struct({ lifeSeconds: Schema.Finite }),
    success: SandboxView
  })
) {}

export class NodeApi extends HttpApi.make("holdfast-node")
  .add(NodeGroup, SandboxesGroup)
  .middleware(NodeDecoded)
  .annotate(HttpApi.ParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(HttpApi.HeadersParseOptions, {})
  .annotate(HttpApi.SuccessParseOptions, {})
  .annotate(HttpApi.ErrorParseOptions, {}) {}
