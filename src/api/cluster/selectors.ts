import type { ApiError } from "../api-error.ts";
import type { WatchedResource } from "./watched-resources.ts";

export type Selectors = Readonly<Record<string, string>>;

/**
 * Matches the two messages of a BadRequest for an unknown field selector. The message depends on whether the resource
 * defines its own field selectors.
 */
const unknownField = /field label not supported|is not a known field selector/;

/** The selectors of a resource. Optional selectors are dropped permanently if the API server does not know them. */
export class ResourceSelectors {
  readonly #resource: Pick<WatchedResource, "selectors" | "optionalSelectors">;
  #current: Selectors;

  constructor(resource: Pick<WatchedResource, "selectors" | "optionalSelectors">) {
    this.#resource = resource;
    this.#current = { ...resource.selectors, ...resource.optionalSelectors };
  }

  get current(): Selectors {
    return this.#current;
  }

  /**
   * Drops and returns the optional selectors if `error` says that the server does not know one of them. Undefined for
   * any other error, or if they were already dropped.
   */
  dropUnknown({ status, message }: Pick<ApiError, "status" | "message">): Selectors | undefined {
    const { selectors, optionalSelectors } = this.#resource;
    if (optionalSelectors === undefined || this.#current === selectors) return undefined;
    if (status !== 400 || !unknownField.test(message)) return undefined;
    this.#current = selectors;
    return optionalSelectors;
  }
}
