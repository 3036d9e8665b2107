/**
 * What a provider says about a fault of its own API, in the data of an error of JSON-RPC: the status of HTTP, and which
 * resource it is about. Only a 404 that names exactly our resource speaks of absence, and even that is no proof: a listing
 * by our label comes behind it. One that comes of wrong credentials or another region names nothing. Source: FC-07, FC-24.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ProviderRpcError } from "./ProviderWorkers.ts"

export const providerFaultSchema = "holdfast/provider-fault/v1"

export const ProviderFault = Schema.Struct({
  schema: Schema.Literal(providerFaultSchema),
  status: Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 })),
  providerLeaseId: Schema.optionalKey(Schema.String)
})
export type ProviderFault = typeof ProviderFault.Type

const decode = Schema.decodeUnknownOption(ProviderFault)

/** The fault that the error tells of; none for any other error, whatever its text says. */
export const faultOf = (error: unknown): Option.Option<ProviderFault> =>
  error instanceof ProviderRpcError ? decode(error.data) : Option.none()

/** Whether the provider says that exactly this resource is not there. */
export const saysAbsent = (error: unknown, providerLeaseId: string): boolean =>
  Option.exists(faultOf(error), (fault) => fault.status === 404 && fault.providerLeaseId === providerLeaseId)
