/** A property of a request, there only where its flag was given: what was not given is left to the product. */
export const given = <K extends string, A>(key: K, value: A | undefined) =>
  (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: A }
